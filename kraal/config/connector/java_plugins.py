"""Config keys of workers for Java plugins, and `plugins.jvm` of connectors, which overrides the worker's value."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from kraal.config.checks import one_of, unless_null
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Width

PATH: Final = "plugin.path"
DISCOVERY: Final = "plugin.discovery"
OPTIONS: Final = "plugins.jvm.options"
JVM: Final = "plugins.jvm"
JAVA_PLUGINS: Final = (PATH, DISCOVERY, OPTIONS, JVM)
"""The keys of workers."""
DEFAULT_DISCOVERY: Final = "hybrid_warn"
DEFAULT_OPTIONS: Final = "-Xms256M -Xmx2G"


class PluginsJvm(StrEnum):
    """The JVM in which a Java connector and its tasks run on a worker."""

    SHARED = "shared"
    """The JVM that Java connectors of the worker share."""
    OWN = "own"
    """A separate JVM for the connector."""


JVM_DOC: Final = (
    "Where Java connectors run: all connectors of a worker in one JVM (shared), or each connector and its tasks in a "
    "separate JVM (own), so that a connector that runs out of memory or crashes does not affect the others."
)
CONNECTOR_JAVA: Final = ConfigDef([
    Key(
        name=JVM, type=ConfigType.STRING, default=None, validator=unless_null(one_of(*PluginsJvm)),
        importance=Importance.MEDIUM, group="Java", order=0, width=Width.SHORT, display_name="JVM", source="Kraal",
        doc="Whether this Java connector and its tasks run in the JVM that Java connectors share (shared), or on each "
        "worker in a separate JVM (own). Ignored by connectors in Python. Default: the worker's value.",
    ),
])  # fmt: skip
"""Keys of connectors. Connect does not have these keys, so responses contain only the keys that are in the config."""


def java_keys(config: Mapping[str, str | None]) -> list[Key]:
    """Return the keys of Java plugins in a connector's config."""
    return [key for key in CONNECTOR_JAVA if key.name in config]


def parse_jvm(config: Mapping[str, str | None], default: PluginsJvm = PluginsJvm.SHARED) -> PluginsJvm:
    """Return `plugins.jvm` of a worker's or connector's config.

    Invalid values are replaced by the default, because only workers with Java plugins validate them.
    """
    value = (config.get(JVM) or "").strip()
    return PluginsJvm(value) if value in {*PluginsJvm} else default

"""The keys of Java plugins: those of workers, and `plugins.jvm` of connectors, whose value wins over their worker's."""

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
    """Where a Java connector and its tasks on a worker run."""

    SHARED = "shared"
    """In the JVM that the worker has for all."""
    OWN = "own"
    """In a JVM that runs nothing else."""


JVM_DOC: Final = (
    "Where Java connectors run: all of a worker in one JVM (shared), or each, with its tasks, in a JVM of its own "
    "(own), so that one that exhausts memory or crashes ends no others."
)
CONNECTOR_JAVA: Final = ConfigDef([
    Key(
        name=JVM, type=ConfigType.STRING, default=None, validator=unless_null(one_of(*PluginsJvm)),
        importance=Importance.MEDIUM, group="Java", order=0, width=Width.SHORT, display_name="JVM", source="Kraal",
        doc="Whether this Java connector and its tasks run in the JVM that it shares with others (shared), or on each "
        "worker in a JVM of its own (own). Connectors in Python ignore it. Default: the worker's value.",
    ),
])  # fmt: skip
"""Of connectors. Java does not know them: they are part of answers only where a config has them."""


def java_keys(config: Mapping[str, str | None]) -> list[Key]:
    """Return the keys that a connector's config has."""
    return [key for key in CONNECTOR_JAVA if key.name in config]


def parse_jvm(config: Mapping[str, str | None], by_default: PluginsJvm = PluginsJvm.SHARED) -> PluginsJvm:
    """Return the value in the config of a worker or a connector.

    The default stands for one that is not allowed: only a Java worker has validated it.
    """
    value = (config.get(JVM) or "").strip()
    return PluginsJvm(value) if value in {*PluginsJvm} else by_default

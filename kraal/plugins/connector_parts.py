"""The plugins that a connector's config names, and the versions that the connector uses. Source: KIP-891."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kraal.config.connector.keys import (
    CONNECTOR_CLASS,
    CONNECTOR_VERSION,
    HEADER_CONVERTER,
    KEY_CONVERTER,
    PREDICATES,
    TRANSFORMS,
    VALUE_CONVERTER,
    VERSION_SUFFIX,
)
from kraal.config.values import split_list
from kraal.core.errors import KraalError
from kraal.core.ids import Config, Json
from kraal.plugins.entries import PluginKind
from kraal.plugins.java_chain import needs_java
from kraal.plugins.registry import JAVA, PYTHON, Registry

_CONNECTOR: Final = "connector"
CONVERTERS: Final = {
    KEY_CONVERTER: PluginKind.CONVERTER,
    VALUE_CONVERTER: PluginKind.CONVERTER,
    HEADER_CONVERTER: PluginKind.HEADER_CONVERTER,
}
"""Plugin kinds by the config key that names the plugin's class."""
_ALIASES: Final = {TRANSFORMS: PluginKind.TRANSFORMATION, PREDICATES: PluginKind.PREDICATE}
_TYPE: Final = ".type"
_IN_JVM: Final = "jvm"
"""The location of a Python connector's Java transforms and converters. Must differ from `CLASSPATH`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One plugin that a connector uses."""

    part: str
    """`connector`, or the key that names the class."""
    class_name: str
    """The full name, or the name in the config if the plugin is not installed."""
    version: str | None
    """None if the plugin has no version, or no installed version meets the requirement."""
    runtime: str
    """The runtime of the plugin: `java` or `python`."""

    def to_json(self) -> dict[str, Json]:
        """Return the JSON object `{"part", "class", "version" or null, "runtime"}`."""
        return {
            "part": self.part,
            "class": self.class_name,
            "version": self.version,
            "runtime": self.runtime,
        }


def list_parts(registry: Registry, config: Config, converters: Mapping[str, str]) -> list[Part]:
    """Return the plugins that a connector uses, starting with the connector. May import plugins.

    Return an empty list if the connector's class or version is not available. `converters` are the worker's converter
    keys; they help to decide where a chain runs (`java_chain`), but the worker's converters are not listed.
    """
    name, requirement = config.get(CONNECTOR_CLASS) or "", config.get(CONNECTOR_VERSION)
    try:
        connector = registry.find(name, PluginKind.SOURCE, PluginKind.SINK, requirement=requirement)
        if connector is None:
            return []
    except KraalError:
        return []
    runtime, location = registry.runtime(connector.name), connector.location
    parts = [
        Part(part=_CONNECTOR, class_name=connector.name, version=connector.known_version, runtime=runtime)
    ]
    if runtime == PYTHON and needs_java(registry, converters, config):
        runtime, location = JAVA, _IN_JVM
    for key, kind, version_key in _class_keys(config):
        text = (config.get(key) or "").strip()
        try:
            plugin = registry.find(text, kind, requirement=config.get(version_key), location=location)
        except KraalError:
            plugin = None
        version = None if plugin is None else plugin.known_version
        full_name = registry.resolve(text) or text
        parts.append(Part(part=key, class_name=full_name, version=version, runtime=runtime))
    return parts


def _class_keys(config: Config) -> Iterator[tuple[str, PluginKind, str]]:
    """Yield each key that names a class, with the plugin kind and the key of the version."""
    for key, kind in CONVERTERS.items():
        if config.get(key):
            yield key, kind, key + VERSION_SUFFIX
    for group, kind in _ALIASES.items():
        for alias in split_list(config.get(group) or ""):
            if config.get(f"{group}.{alias}{_TYPE}"):
                yield f"{group}.{alias}{_TYPE}", kind, f"{group}.{alias}{VERSION_SUFFIX}"

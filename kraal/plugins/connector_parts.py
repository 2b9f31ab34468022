"""The plugins that a connector's config names, in the versions that it uses. Source: KIP-891."""

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
"""The kind of plugin that each of these keys names."""
_ALIASES: Final = {TRANSFORMS: PluginKind.TRANSFORMATION, PREDICATES: PluginKind.PREDICATE}
_TYPE: Final = ".type"
_IN_JVM: Final = "jvm"
"""Where the chain of a connector in Python is, if its plugins are Java: not on Kraal's class path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One plugin of a connector."""

    part: str
    """`connector`, or the key that names the class."""
    class_name: str
    """The full name, or the name in the config if there is no such plugin."""
    version: str | None
    """None if no version is known, or none fits."""
    runtime: str
    """The language it runs in: `java` or `python`."""

    def to_json(self) -> dict[str, Json]:
        """Shape: `{"part", "class", "version" or null, "runtime"}`."""
        return {
            "part": self.part,
            "class": self.class_name,
            "version": self.version,
            "runtime": self.runtime,
        }


def list_parts(registry: Registry, config: Config, converters: Mapping[str, str]) -> list[Part]:
    """Return the parts of a connector, itself first; nothing if its class is unknown.

    `converters`: the worker's, which decide where a chain runs, see `java_chain`; they are not listed. May import
    plugins.
    """
    name, wanted = config.get(CONNECTOR_CLASS) or "", config.get(CONNECTOR_VERSION)
    try:
        connector = registry.find(name, PluginKind.SOURCE, PluginKind.SINK, wanted=wanted)
        if connector is None:
            return []
    except KraalError:
        return []
    runtime, near = registry.runtime(connector.name), connector.location
    connector_parts_ = [
        Part(part=_CONNECTOR, class_name=connector.name, version=connector.known_version, runtime=runtime)
    ]
    if runtime == PYTHON and needs_java(registry, converters, config):
        runtime, near = JAVA, _IN_JVM
    for key, kind, version_key in _class_keys(config):
        text = (config.get(key) or "").strip()
        try:
            plugin = registry.find(text, kind, wanted=config.get(version_key), near=near)
        except KraalError:
            plugin = None
        version = None if plugin is None else plugin.known_version
        full = registry.resolve(text) or text
        connector_parts_.append(Part(part=key, class_name=full, version=version, runtime=runtime))
    return connector_parts_


def _class_keys(config: Config) -> Iterator[tuple[str, PluginKind, str]]:
    """Yield the keys that name classes, the kinds of these, and the keys of their versions."""
    for key, kind in CONVERTERS.items():
        if config.get(key):
            yield key, kind, key + VERSION_SUFFIX
    for group, kind in _ALIASES.items():
        for alias in split_list(config.get(group) or ""):
            if config.get(f"{group}.{alias}{_TYPE}"):
                yield f"{group}.{alias}{_TYPE}", kind, f"{group}.{alias}{VERSION_SUFFIX}"

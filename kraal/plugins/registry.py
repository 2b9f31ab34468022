"""The registry of plugins, by the names that users write in configs, with all versions of each.

A `Registry` is a value passed as an argument; there is no global registry. It holds all names at once and imports
classes on first use, so that a worker starts fast and a broken plugin affects only configs that name it.
Source: Plugins, PluginScanResult, PluginUtils.computeAliases (Kafka 4.4.0); KIP-769, KIP-891.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kraal.core.errors import BadRequest, PluginFailed, PluginMissing
from kraal.plugins.api import Connector, Converter, HeaderConverter, Predicate, Transformation
from kraal.plugins.entries import (
    CLASSPATH,
    CONNECTORS_GROUP,
    GROUPS,
    KAFKA_VERSION,
    SIMPLE_HEADERS,
    Entry,
    Plugin,
    PluginClass,
    PluginInfo,
    PluginKind,
    PluginVersion,
    installed,
)
from kraal.plugins.versions import choose, mismatch

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JavaNames:
    """Full names of Java classes; see `Registry.with_java`."""

    plugins: frozenset[str] = frozenset()
    in_jvm: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()


JAVA: Final = "java"
"""The runtime of Java plugins, which run in a JVM."""
PYTHON: Final = "python"
_KIND_ORDER: Final = {kind: position for position, kind in enumerate(PluginKind)}
_KAFKA_PACKAGE: Final = "org.apache.kafka.connect."


class Registry:
    """The plugins of one worker. Immutable and therefore thread-safe."""

    def __init__(self, entries: Sequence[Entry], java: JavaNames | None = None) -> None:
        """Initialize the registry. Entries with the same name must be in ascending order of their versions."""
        self._java = java or JavaNames()
        self._entries = tuple(entries)
        self._versions: dict[str, list[Entry]] = {}
        for entry in entries:
            self._versions.setdefault(entry.name, []).append(entry)
        names_by_alias: dict[str, set[str]] = {}
        for entry in entries:
            for alias in entry.aliases:
                names_by_alias.setdefault(alias, set()).add(entry.name)
        self._aliases = {alias: names.pop() for alias, names in names_by_alias.items() if len(names) == 1}

    @staticmethod
    def load() -> Registry:
        """Return a registry of the installed plugins, without importing them."""
        entries = [Entry.installed(point) for group in GROUPS for point in installed(group)]
        return Registry([*{entry.name: entry for entry in (SIMPLE_HEADERS, *entries)}.values()])

    @staticmethod
    def of(classes: Mapping[str, type[Connector | Converter | Transformation | Predicate]]) -> Registry:
        """Create a registry from classes by full name; for tests and embedding."""
        return Registry([SIMPLE_HEADERS, *(Entry.of(name, cls) for name, cls in classes.items())])

    def with_connectors(self, classes: Mapping[str, type[Connector]]) -> Registry:
        """Return a copy in which these connectors, by full name, replace all connectors."""
        other_entries = [entry for entry in self._entries if entry.group != CONNECTORS_GROUP]
        entries = [Entry.of(name, cls) for name, cls in classes.items()]
        return Registry([*other_entries, *entries], self._java)

    def with_java(
        self,
        by_name: Mapping[str, Sequence[PluginVersion]],
        in_jvm: Collection[str] = (),
        services: Collection[str] = (),
    ) -> Registry:
        """Return a copy with additional Java plugins, which replace plugins of the same name.

        Args:
            by_name: the versions of each plugin in ascending order, by full name.
            in_jvm: the names of all classes in `plugin.path`, including those for which Kraal's own are preferred.
            services: the names of the classes in `plugin.path` that connectors cannot use, such as config providers.
        """
        other_entries = [entry for entry in self._entries if entry.name not in by_name]
        new_entries = [
            Entry.of(name, cls, kinds) for name, versions in by_name.items() for kinds, cls in versions
        ]
        java = self._java
        names = JavaNames(
            java.plugins.union(by_name), java.in_jvm.union(in_jvm), java.services.union(services)
        )
        return Registry([*other_entries, *new_entries], names)

    def is_java(self, name: str) -> bool:
        """Return whether the plugin with a full name is a Java class in `plugin.path`."""
        return name in self._java.plugins

    def runtime(self, name: str) -> str:
        """Return the runtime of the plugin with a full name: `JAVA` or `PYTHON`."""
        return JAVA if self.is_java(name) else PYTHON

    def is_in_jvm(self, name: str) -> bool:
        """Return whether the plugins' JVM has a class with this name, from `plugin.path` or Kafka itself."""
        return name in self._java.plugins or name in self._java.in_jvm or name.startswith(_KAFKA_PACKAGE)

    def is_service(self, name: str) -> bool:
        """Return whether a name belongs to a plugin in `plugin.path` for workers only, such as a config provider."""
        return name in self._java.services

    def resolve(self, name: str) -> str | None:
        """Return the full name for a name or alias of any plugin; None if unknown."""
        return name if name in self._versions else self._aliases.get(name)

    def find(
        self, name: str, *kinds: PluginKind, requirement: str | None = None, location: str | None = None
    ) -> Plugin | None:
        """Return the plugin with a name or alias, in the first of `kinds` that it has; None if not installed.

        Of several versions that meet the requirement (a version, or ranges), the one in `location` is preferred, then
        the highest. Raises PluginFailed if the class cannot be imported.
        """
        roles = self.roles(name, location=location)
        by_kind = ([role for role in roles if role.kind is kind] for kind in kinds or PluginKind)
        return choose(next(filter(None, by_kind), []), requirement, location)

    def roles(self, name: str, *kinds: PluginKind, location: str | None = None) -> tuple[Plugin, ...]:
        """Return the roles of all versions of a plugin, in ascending order of versions; empty if the name is unknown.

        `name` may be an alias. `location` is the location of the connector that uses the plugin. A Java connector uses
        Kafka's own plugins even if Kraal has plugins of the same names. Raises PluginFailed if a class cannot be
        imported.
        """
        entries = self._versions.get(self.resolve(name) or "", ())
        if location not in (None, CLASSPATH):
            return tuple(
                replace(role, version=KAFKA_VERSION) if role.location == CLASSPATH else role
                for role in self.roles(name, *kinds)
            )
        return tuple(role for entry in entries for role in entry.plugins() if not kinds or role.kind in kinds)

    def load_class(self, name: str, requirement: str | None = None) -> PluginClass:
        """Return the class with a full name, of the highest version that meets the requirement.

        Raises PluginFailed if the class cannot be imported; PluginMissing, with Connect's text, if no version fits.
        """
        entries = self._versions[name]
        if requirement is None:
            return entries[-1].plugin_class
        chosen_version = choose(self.roles(name), requirement)
        if chosen_version is None:
            raise PluginMissing(
                mismatch(name, requirement, self.versions(name)) or f"{name} has no version {requirement}"
            )
        by_version = {(role.version, role.location): entry for entry in entries for role in entry.plugins()}
        return by_version[chosen_version.version, chosen_version.location].plugin_class

    def connector(self, name: str) -> Plugin:
        """Return the highest version of a connector. Raises PluginMissing, with Connect's text, or PluginFailed."""
        plugin = self.find(name, PluginKind.SOURCE, PluginKind.SINK)
        if plugin is None:
            available = ", ".join(info.describe() for info in self.plugins(connectors_only=True))
            raise PluginMissing(
                "Failed to find any class that implements Connector and which name matches "
                f"{name}, available connectors are: {available}"
            )
        return plugin

    def connector_class(self, name: str, requirement: str | None = None) -> type[Connector]:
        """Return a connector's class, of the highest version that meets the requirement.

        Raises PluginMissing, with Connect's text, if no version fits, and PluginFailed if the class cannot be loaded.
        """
        cls = self.load_class(self.connector(name).name, requirement)
        if not issubclass(cls, Connector):  # pragma: no cover - `connector` found a connector
            raise BadRequest(f"{name} is not a connector")
        return cls

    def location(self, connector: str, requirement: str | None) -> str | None:
        """Return the location of the connector version that a config requires; None if no version fits.

        Converters and transforms in the same location are preferred. Raises PluginFailed.
        """
        plugin = self.find(connector, PluginKind.SOURCE, PluginKind.SINK, requirement=requirement)
        return None if plugin is None else plugin.location

    def converter_class(self, name: str) -> type[Converter]:
        """Return a converter's class. Raises PluginMissing, with Connect's text, or PluginFailed."""
        full_name = self.resolve(name)
        cls = self.load_class(full_name) if full_name is not None else None
        if cls is None or not issubclass(cls, Converter):
            available = ", ".join(
                plugin.describe() for plugin in self.plugins() if plugin.kind is PluginKind.CONVERTER
            )
            raise PluginMissing(
                "Failed to find any class that implements Converter and which name matches "
                f"{name}, available converters are: {available}"
            )
        return cls

    def header_converter_class(self, name: str) -> type[HeaderConverter]:
        """Return a header converter's class. Raises PluginMissing, with Connect's text, or PluginFailed."""
        full_name = self.resolve(name)
        cls = self.load_class(full_name) if full_name is not None else None
        if cls is None or not issubclass(cls, HeaderConverter):
            kind = PluginKind.HEADER_CONVERTER
            available = ", ".join(plugin.describe() for plugin in self.plugins() if plugin.kind is kind)
            raise PluginMissing(
                "Failed to find any class that implements HeaderConverter and which name matches "
                f"{name}, available header converters are: {available}"
            )
        return cls

    def plugins(self, *, connectors_only: bool = False) -> tuple[PluginInfo, ...]:
        """Return all plugins, sorted by kind (sinks and sources first), name and version.

        Imports only plugins of other packages. Plugins that cannot be imported are logged and omitted.
        """
        kinds = {PluginKind.SINK, PluginKind.SOURCE} if connectors_only else set(PluginKind)
        infos = [
            plugin
            for entry in self._entries
            if kinds & set(entry.possible_kinds)
            for plugin in _list_or_log(entry)
            if plugin.kind in kinds
        ]
        return tuple(sorted(infos, key=lambda plugin: (_KIND_ORDER[plugin.kind], plugin.name)))

    def versions(self, name: str, *kinds: PluginKind, location: str | None = None) -> tuple[str, ...]:
        """Return the version of each role of a plugin, in ascending order; see `roles`. Raises PluginFailed."""
        return tuple(role.version for role in self.roles(name, *kinds, location=location))

    def names(self, kind: PluginKind) -> tuple[str, ...]:
        """Return the sorted full names of all plugins of a kind, without importing them.

        The kind must not be a kind of connector. As in Java, a name is repeated for each version.
        """
        return tuple(sorted(entry.name for entry in self._entries if kind in entry.possible_kinds))


def _list_or_log(entry: Entry) -> Iterable[PluginInfo]:
    try:
        return entry.listing_entries()
    except PluginFailed as exc:
        log.warning("%s; it is not listed", exc)
        return ()

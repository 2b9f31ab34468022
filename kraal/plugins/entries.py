"""Plugins by name: their listing entries, and their classes, which are imported on first use.

Plugins come from entry points; a checkout that is not installed reads them from its pyproject.toml. The kinds and
versions of Kraal's own plugins are determined without importing them, which would take half a second.
Source: PluginDesc, PluginType, PluginUtils (Kafka 4.4.0).
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Final

from kraal import __version__
from kraal.config.key import ConfigDef
from kraal.core.connect_version import CONNECT_VERSION
from kraal.core.errors import PluginFailed
from kraal.plugins.api import Connector, Converter, Predicate, Transformation
from kraal.plugins.importing import IMPORT_LOCK, import_spark
from kraal.plugins.values.simple_headers import SIMPLE_HEADER_CONVERTER, SimpleHeaderConverter

CONNECTORS_GROUP = "kraal.connectors"
CONVERTERS_GROUP = "kraal.converters"
TRANSFORMS_GROUP = "kraal.transforms"
PREDICATES_GROUP = "kraal.predicates"
GROUPS: Final = (CONNECTORS_GROUP, CONVERTERS_GROUP, TRANSFORMS_GROUP, PREDICATES_GROUP)

CLASSPATH = "classpath"
"""The location of Kraal's own plugins. Connect reports this location for the plugins bundled with Kafka."""
KAFKA_VERSION = CONNECT_VERSION
"""The version of the plugins bundled with Kafka."""


class PluginKind(StrEnum):
    """The kinds of plugins, spelled as in the REST API and in the order of listings."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"


_SUFFIXES = {
    PluginKind.SINK: "Connector",
    PluginKind.SOURCE: "Connector",
    PluginKind.TRANSFORMATION: "Transformation",
    PluginKind.PREDICATE: "Predicate",
    PluginKind.CONVERTER: "Converter",
    PluginKind.HEADER_CONVERTER: "HeaderConverter",
}

PluginClass = type[Connector | Converter | SimpleHeaderConverter | Transformation | Predicate]
PluginVersion = tuple[tuple[PluginKind, ...], PluginClass]
"""The kinds and the class of one version."""
_INTERFACES = (Connector, Converter, SimpleHeaderConverter, Transformation, Predicate)


UNDEFINED_VERSION: Final = "undefined"
"""The listed version of a Java plugin that declares no version. Source: PluginDesc (Kafka 4.4.0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """The listing entry of one version of a class in one of its roles. `name` is the full name as users write it."""

    name: str
    kind: PluginKind
    version: str
    location: str = CLASSPATH

    @property
    def known_version(self) -> str | None:
        """The version in REST responses; None if undefined. Source: PluginInfo.NoVersionFilter (Kafka 4.4.0)."""
        return None if self.version in ("", UNDEFINED_VERSION) else self.version

    def describe(self) -> str:
        """Return the plugin's representation in Connect's error messages (`PluginDesc.toString`)."""
        return (
            f"PluginDesc{{klass=class {self.name}, name='{self.name}', version='{self.version}', "
            f"encodedVersion={self.version}, type={self.kind}, typeName='{self.kind}', location='{self.location}'}}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin(PluginInfo):
    """One version of a class in one of its roles, with the keys of its config."""

    config_def: ConfigDef


class Entry:
    """A plugin name and the class of one version, imported on first use."""

    def __init__(
        self,
        name: str,
        group: str,
        load: Callable[[], object],
        kinds: tuple[PluginKind, ...] | None = None,
        version: str | None = None,
    ) -> None:
        """Create an entry. `kinds` and `version` must be None if the class has to be imported to determine them."""
        self.name = name
        self.group = group
        self._load = load
        self._kinds = kinds
        self._version = version

    @staticmethod
    def installed(point: EntryPoint) -> Entry:
        """Return the entry of an entry point.

        The version of Kraal's own plugins is Kraal's version. The names of Kraal's connectors end with their kind.
        """
        load = partial(_load_after_spark, point) if point.group == CONNECTORS_GROUP else point.load
        if not point.value.startswith("kraal."):
            return Entry(point.name, point.group, load)
        kinds = None
        if point.group == CONNECTORS_GROUP:
            kinds = (PluginKind.SOURCE if point.name.endswith("SourceConnector") else PluginKind.SINK,)
        return Entry(point.name, point.group, load, kinds, __version__)

    @staticmethod
    def of(name: str, cls: PluginClass, kinds: tuple[PluginKind, ...] | None = None) -> Entry:
        """Return the entry of a class."""
        groups = {Connector: CONNECTORS_GROUP, Transformation: TRANSFORMS_GROUP, Predicate: PREDICATES_GROUP}
        group = next(
            (candidate for base, candidate in groups.items() if issubclass(cls, base)), CONVERTERS_GROUP
        )
        return Entry(name, group, lambda: cls, kinds)

    @cached_property
    def plugin_class(self) -> PluginClass:
        """The plugin's class. Raises PluginFailed if the class cannot be imported or is not a plugin."""
        try:
            with IMPORT_LOCK:
                candidate = self._load()
        except Exception as exc:
            raise PluginFailed(f"plugin {self.name} could not be loaded: {exc!r}", repr(exc)) from exc
        if isinstance(candidate, type) and issubclass(candidate, _INTERFACES):
            return candidate
        reason = f"plugin {self.name} is {candidate!r}, which is not a plugin"
        raise PluginFailed(reason, reason)

    @property
    def possible_kinds(self) -> tuple[PluginKind, ...]:
        """The declared kinds, or else the kinds that the entry point's group allows. Does not import the class."""
        if self._kinds is not None:
            return self._kinds
        if self.group == CONNECTORS_GROUP:
            return (PluginKind.SINK, PluginKind.SOURCE)
        if self.group == TRANSFORMS_GROUP:
            return (PluginKind.TRANSFORMATION,)
        if self.group == PREDICATES_GROUP:
            return (PluginKind.PREDICATE,)
        if self.name == SIMPLE_HEADER_CONVERTER:
            return (PluginKind.HEADER_CONVERTER,)
        return (PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER)

    @property
    def aliases(self) -> set[str]:
        """The class's simple name, with and without the suffix of each possible kind."""
        simple_name = self.name.replace("$", ".").rpartition(".")[2]
        suffixes = (_SUFFIXES[kind] for kind in self.possible_kinds)
        short_names = (
            simple_name[: simple_name.rfind(suffix)] for suffix in suffixes if suffix in simple_name
        )
        return {simple_name, *filter(None, short_names)}

    def listing_entries(self) -> Iterable[PluginInfo]:
        """Return the listing entry of each role. Imports the class if necessary. Raises PluginFailed."""
        if self._version is None:
            return self.plugins()
        return (PluginInfo(name=self.name, kind=kind, version=self._version) for kind in self.possible_kinds)

    def plugins(self) -> tuple[Plugin, ...]:
        """Import the class and return one plugin for each role. Raises PluginFailed."""
        cls = self.plugin_class
        kinds = self.possible_kinds
        if issubclass(cls, Connector):
            kinds = (PluginKind(cls.kind),)
        location = getattr(cls, "location", CLASSPATH)
        return tuple(
            Plugin(
                name=self.name, kind=kind, version=cls.version, location=location, config_def=cls.config_def
            )
            for kind in kinds
        )


def _load_after_spark(point: EntryPoint) -> object:
    """Import Spark, then the connector, which may import parts of Spark at any time and on any thread."""
    import_spark()
    return point.load()


SIMPLE_HEADERS: Final = Entry(SIMPLE_HEADER_CONVERTER, CONVERTERS_GROUP, lambda: SimpleHeaderConverter)


def installed(group: str) -> Sequence[EntryPoint]:
    """Return the entry points of a group. A checkout that is not installed reads them from its pyproject.toml.

    The installed packages are read once per process, and again if `sys.path` changes.
    """
    return _installed(group, tuple(sys.path))


@lru_cache(maxsize=16)
def _installed(group: str, _path: tuple[str, ...]) -> Sequence[EntryPoint]:
    return (*entry_points(group=group), *_read_checkout(group))


def _read_checkout(group: str) -> Iterator[EntryPoint]:
    """Yield the entry points of a checkout's pyproject.toml; none if Kraal is installed."""
    with suppress(PackageNotFoundError):
        distribution("kraal")
        return
    project = Path(import_module("kraal").__file__ or ".").resolve().parents[1] / "pyproject.toml"
    if project.is_file():
        entries = tomllib.loads(project.read_text("utf-8")).get("project", {}).get("entry-points", {})
        yield from (EntryPoint(name, value, group) for name, value in entries.get(group, {}).items())

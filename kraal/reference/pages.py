"""Contents of the manual's pages: sections of declared keys and families of keys."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from kraal.config.clients.keys import Client, client_def
from kraal.config.connector.auto_restart import SUPERVISION
from kraal.config.connector.batches import BATCHES, SQL_FAMILY
from kraal.config.connector.java_plugins import CONNECTOR_JAVA
from kraal.config.connector.keys import CONNECTOR, CONNECTOR_FAMILIES
from kraal.config.connector.sink import SINK, SINK_FAMILIES
from kraal.config.connector.source import SOURCE, SOURCE_FAMILIES
from kraal.config.key import ConfigDef, Key
from kraal.config.key_families import Family
from kraal.config.provider import ConfigProvider
from kraal.config.worker.config import own_client_keys
from kraal.config.worker.distributed_keys import DISTRIBUTED, TOPIC_FAMILIES
from kraal.config.worker.keys import STANDALONE, WORKER, WORKER_FAMILIES
from kraal.plugins.api import Connector, Converter, Predicate, Transformation
from kraal.plugins.config_providers import PROVIDERS_GROUP
from kraal.plugins.entries import (
    CONNECTORS_GROUP,
    CONVERTERS_GROUP,
    PREDICATES_GROUP,
    TRANSFORMS_GROUP,
    installed,
)
from kraal.plugins.values.simple_headers import SIMPLE_HEADER_CONVERTER, SimpleHeaderConverter

_OWN_PACKAGE = "kraal."
_NOTE_OF_OWN_CLIENTS = (
    "The worker's own Kafka clients, those that keep its state, take these without a prefix; clients of connectors "
    "inherit `security.protocol`, `ssl.*` and `sasl.*` of them, unless they have a `security.protocol` of their own "
    "([security](../security.md))."
)
_NOTE_OF_SUPERVISION = (
    "What becomes of a task or a connector that has failed ([supervision](../supervision.md)). Java's workers do not "
    "know these keys, so answers of REST have them only where a config does."
)
_NOTE_OF_BATCHES = (
    "How a connector's batches are made. Java's workers do not know these keys either. A task's next batch is not read "
    "before the one at work is written, so whatever is slow holds its own source back, and nothing piles up."
)
_NOTE_OF_JAVA = (
    "Where a Java connector runs ([JVMs](../connectors/java-plugins.md#shared-or-own)). Java's workers do not know "
    "this key either."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Keys under one heading. `slug` precedes key names in links; it is empty if names are unique anyway."""

    title: str
    text: str = ""
    keys: tuple[Key, ...] = ()
    families: tuple[Family, ...] = ()
    slug: str = ""
    as_table: bool = False
    """Show one line per key, for long lists of well-known keys."""

    @property
    def entries(self) -> tuple[Key | Family, ...]:
        """Return all declarations of the section."""
        return (*self.keys, *self.families)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One file of the manual."""

    file: str
    title: str
    text: str
    sections: tuple[Section, ...] = field(repr=False)

    @property
    def count(self) -> int:
        """The number of keys and families."""
        return sum(len(section.keys) + len(section.families) for section in self.sections)


def pages(*, others: bool = False) -> list[Page]:
    """Return the pages, with `others` also for installed plugins that are not part of Kraal. Imports plugins."""
    return [
        _workers(),
        _standalone(),
        _distributed(),
        _connectors(),
        _connector_plugins(others=others),
        _converters(others=others),
        _transforms(others=others),
        _providers(others=others),
        _clients(),
    ]


def _workers() -> Page:
    return Page(
        file="worker.md",
        title="Every worker",
        text="What goes into the properties file of a worker, [standalone](standalone.md) or "
        "[distributed](distributed.md): each has keys of its own as well.",
        sections=(
            Section(title="Keys", keys=tuple(WORKER)),
            Section(title="Families of keys", families=WORKER_FAMILIES),
        ),
    )


def _standalone() -> Page:
    return Page(
        file="standalone.md",
        title="Standalone workers",
        text="Beside the keys of [every worker](worker.md).",
        sections=(
            Section(title="Keys", keys=_without(STANDALONE, WORKER)),
            _own_clients(STANDALONE),
        ),
    )


def _distributed() -> Page:
    return Page(
        file="distributed.md",
        title="Distributed workers",
        text="Beside the keys of [every worker](worker.md).",
        sections=(
            Section(title="Keys", keys=_without(DISTRIBUTED, WORKER, own_client_keys() - {"client.id"})),
            Section(title="Families of keys", families=TOPIC_FAMILIES),
            _own_clients(DISTRIBUTED),
        ),
    )


def _own_clients(definition: ConfigDef) -> Section:
    """Return the keys of the worker's own clients, with the definition's defaults and checks."""
    names = own_client_keys() - {"client.id"} if "client.id" in definition else own_client_keys()
    keys = (definition.get(key.name) or key for key in client_def("admin") if key.name in names)
    return Section(
        title="Keys of its own Kafka clients", text=_NOTE_OF_OWN_CLIENTS, keys=tuple(keys), as_table=True
    )


def _connectors() -> Page:
    return Page(
        file="connectors.md",
        title="Every connector",
        text="Keys for the config of a connector, besides those of [its plugin](connector-plugins.md).",
        sections=(
            Section(title="Sources and sinks", keys=tuple(CONNECTOR), families=CONNECTOR_FAMILIES),
            Section(title="Supervision", text=_NOTE_OF_SUPERVISION, keys=tuple(SUPERVISION)),
            Section(title="Batches", text=_NOTE_OF_BATCHES, keys=tuple(BATCHES), families=(SQL_FAMILY,)),
            Section(title="Java connectors", text=_NOTE_OF_JAVA, keys=tuple(CONNECTOR_JAVA)),
            Section(
                title="Sources", keys=_without(SOURCE, CONNECTOR), families=SOURCE_FAMILIES, slug="source-"
            ),
            Section(title="Sinks", keys=_without(SINK, CONNECTOR), families=SINK_FAMILIES, slug="sink-"),
        ),
    )


def _connector_plugins(*, others: bool) -> Page:
    sections = []
    for name, loaded in _plugins(CONNECTORS_GROUP, others=others):
        if isinstance(loaded, type) and issubclass(loaded, Connector):
            sections.append(_plugin_section(name, f"A {loaded.kind}.", loaded.config_def))
    return Page(
        file="connector-plugins.md",
        title="Connector plugins",
        text="The keys that each plugin adds to those of [every connector](connectors.md).",
        sections=tuple(sections),
    )


def _converters(*, others: bool) -> Page:
    sections = [_plugin_section(SIMPLE_HEADER_CONVERTER, "For headers.", SimpleHeaderConverter.config_def)]
    for name, loaded in _plugins(CONVERTERS_GROUP, others=others):
        if isinstance(loaded, type) and issubclass(loaded, Converter):
            sections.append(_plugin_section(name, "For keys, values and headers.", loaded.config_def))
    return Page(
        file="converters.md",
        title="Converters",
        text="The keys of each converter. They stand below `key.converter.`, `value.converter.` or `header.converter.` "
        "in the config of a worker or of a connector that names the converter.",
        sections=tuple(sections),
    )


def _transforms(*, others: bool) -> Page:
    """Return transforms, then predicates; variants for keys and values share one section."""
    sections: dict[str, Section] = {}
    for group in (TRANSFORMS_GROUP, PREDICATES_GROUP):
        for name, loaded in _plugins(group, others=others):
            if isinstance(loaded, type) and issubclass(loaded, (Transformation, Predicate)):
                base, _, variant = name.partition("$")
                cls = loaded.__mro__[1] if variant else loaded
                text = f"{inspect.cleandoc(cls.__doc__ or '')}".replace("\n\n", " ").replace("\n", " ")
                section = _plugin_section(base, text, loaded.config_def)
                names = f"`{base}$Key`, `{base}$Value`. " if variant else f"`{base}`. "
                sections[base] = replace(section, text=section.text.replace(f"`{base}`. ", names, 1))
    return Page(
        file="transforms.md",
        title="Transforms and predicates",
        text="The keys of each transform and predicate. A connector's config names transforms in `transforms`, in the "
        "order in which records pass through them, and predicates in `predicates`; the keys of one that is called NAME "
        "stand below `transforms.NAME.` or `predicates.NAME.`. Every transform may have `predicate` and `negate` as "
        "well. `$Key` is the variant for records' keys, `$Value` that for their values.",
        sections=tuple(sections.values()),
    )


def _providers(*, others: bool) -> Page:
    sections = []
    for name, loaded in _plugins(PROVIDERS_GROUP, others=others):
        if isinstance(loaded, type) and issubclass(loaded, ConfigProvider):
            first = (loaded.__doc__ or "").partition("\n")[0]
            sections.append(_plugin_section(name, first, loaded.config_def))
    return Page(
        file="config-providers.md",
        title="Config providers",
        text="The parameters of each provider. They stand below `config.providers.NAME.param.` in a worker's config.",
        sections=tuple(sections),
    )


def _clients() -> Page:
    where: dict[Client, str] = {
        "producer": "In the config of a worker below `producer.`, in that of a source below `producer.override.`.",
        "consumer": "In the config of a worker below `consumer.`, in that of a sink below `consumer.override.`.",
        "admin": "In the config of a worker below `admin.`, in that of a connector below `admin.override.`.",
    }
    return Page(
        file="clients.md",
        title="Kafka clients of connectors",
        text="The names and defaults are Kafka's. Workers have some [defaults of their own]"
        "(../compat.md#producer-defaults); which keys a connector may override, the worker's "
        "[policy](worker.md#connector.client.config.override.policy) says.",
        sections=tuple(
            Section(
                title=f"{client.capitalize()}s" if client != "admin" else "Admin clients",
                text=text,
                keys=tuple(client_def(client)),
                slug=f"{client}.",
                as_table=True,
            )
            for client, text in where.items()
        ),
    )


def _plugin_section(name: str, text: str, keys: Iterable[Key]) -> Section:
    short = name.rpartition(".")[2]
    listed = tuple(keys)
    note = text if listed else f"{text} It has no keys."
    return Section(title=short, text=f"`{name}`. {note}", keys=listed, slug=f"{short}.")


def _plugins(group: str, *, others: bool) -> Iterator[tuple[str, object]]:
    """Yield names and classes of installed plugins by name; only Kraal's unless `others`."""
    found = {
        entry.name: entry for entry in installed(group) if others or entry.value.startswith(_OWN_PACKAGE)
    }
    yield from ((name, found[name].load()) for name in sorted(found))


def _without(definition: ConfigDef, other: ConfigDef, names: Iterable[str] = ()) -> tuple[Key, ...]:
    left_out = frozenset(names)
    return tuple(key for key in definition if key.name not in other and key.name not in left_out)

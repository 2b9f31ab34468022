"""The contents of the manual's pages: sections of declared keys and families of keys."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from kraal.config.clients.keys import Client, client_def
from kraal.config.connector.auto_restart import SUPERVISION
from kraal.config.connector.batches import BATCHES, SQL_FAMILY
from kraal.config.connector.java_plugins import CONNECTOR_JAVA
from kraal.config.connector.keys import CONNECTOR, CONNECTOR_FAMILIES
from kraal.config.connector.proof import PROOF
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
    "The Kafka clients that store the worker's state use these keys without a prefix. A connector's client whose "
    "settings do not include `security.protocol` inherits `security.protocol`, `ssl.*` and `sasl.*` from these keys "
    "([security](../security.md))."
)
_NOTE_OF_SUPERVISION = (
    "These keys determine how failed connectors and tasks are handled ([supervision](../supervision.md)). Java workers "
    "do not support these keys, so REST responses contain them only if the config does."
)
_NOTE_OF_BATCHES = (
    "These keys control a connector's batches. Java workers do not support them. A task reads its next batch only "
    "after the current one is written, so a slow target slows down its own source, and no backlog builds up in memory."
)
_NOTE_OF_PROOF = (
    "This key sets the interval of repeated [proofs of delivery](../proof.md). "
    "Java workers do not support it."
)
_NOTE_OF_JAVA = (
    "This key selects the JVM in which a Java connector runs ([JVMs](../connectors/java-plugins.md#shared-or-own)). "
    "Java workers do not support it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Keys under one heading. `slug` precedes the key names in links; empty if the names are unique."""

    title: str
    text: str = ""
    keys: tuple[Key, ...] = ()
    families: tuple[Family, ...] = ()
    slug: str = ""
    as_table: bool = False
    """Whether to render one line per key, for long lists of well-known keys."""

    @property
    def entries(self) -> tuple[Key | Family, ...]:
        """All keys and families of the section."""
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


def build_pages(*, third_party: bool = False) -> list[Page]:
    """Return the pages; with `third_party`, include installed plugins that are not part of Kraal. Imports plugins."""
    return [
        _workers(),
        _standalone(),
        _distributed(),
        _connectors(),
        _connector_plugins(third_party=third_party),
        _converters(third_party=third_party),
        _transforms(third_party=third_party),
        _providers(third_party=third_party),
        _clients(),
    ]


def _workers() -> Page:
    return Page(
        file="worker.md",
        title="Every worker",
        text="The keys of a worker's properties file. [Standalone](standalone.md) and "
        "[distributed](distributed.md) workers have additional keys.",
        sections=(
            Section(title="Keys", keys=tuple(WORKER)),
            Section(title="Families of keys", families=WORKER_FAMILIES),
        ),
    )


def _standalone() -> Page:
    return Page(
        file="standalone.md",
        title="Standalone workers",
        text="Standalone workers also have the keys of [every worker](worker.md).",
        sections=(
            Section(title="Keys", keys=_exclude_keys(STANDALONE, WORKER)),
            _own_clients(STANDALONE),
        ),
    )


def _distributed() -> Page:
    return Page(
        file="distributed.md",
        title="Distributed workers",
        text="Distributed workers also have the keys of [every worker](worker.md).",
        sections=(
            Section(title="Keys", keys=_exclude_keys(DISTRIBUTED, WORKER, own_client_keys() - {"client.id"})),
            Section(title="Families of keys", families=TOPIC_FAMILIES),
            _own_clients(DISTRIBUTED),
        ),
    )


def _own_clients(definition: ConfigDef) -> Section:
    """Return the section of the worker's own clients, whose keys have the defaults and validators of the definition."""
    names = own_client_keys() - {"client.id"} if "client.id" in definition else own_client_keys()
    keys = (definition.get(key.name) or key for key in client_def("admin") if key.name in names)
    return Section(
        title="Keys of the worker's own Kafka clients",
        text=_NOTE_OF_OWN_CLIENTS,
        keys=tuple(keys),
        as_table=True,
    )


def _connectors() -> Page:
    return Page(
        file="connectors.md",
        title="Every connector",
        text="Keys for the config of a connector, in addition to the keys of [its plugin](connector-plugins.md).",
        sections=(
            Section(title="Sources and sinks", keys=tuple(CONNECTOR), families=CONNECTOR_FAMILIES),
            Section(title="Supervision", text=_NOTE_OF_SUPERVISION, keys=tuple(SUPERVISION)),
            Section(title="Batches", text=_NOTE_OF_BATCHES, keys=tuple(BATCHES), families=(SQL_FAMILY,)),
            Section(title="Proof of delivery", text=_NOTE_OF_PROOF, keys=tuple(PROOF)),
            Section(title="Java connectors", text=_NOTE_OF_JAVA, keys=tuple(CONNECTOR_JAVA)),
            Section(
                title="Sources",
                keys=_exclude_keys(SOURCE, CONNECTOR),
                families=SOURCE_FAMILIES,
                slug="source-",
            ),
            Section(title="Sinks", keys=_exclude_keys(SINK, CONNECTOR), families=SINK_FAMILIES, slug="sink-"),
        ),
    )


def _connector_plugins(*, third_party: bool) -> Page:
    sections = []
    for name, plugin_class in _load_plugins(CONNECTORS_GROUP, third_party=third_party):
        if isinstance(plugin_class, type) and issubclass(plugin_class, Connector):
            sections.append(_plugin_section(name, f"A {plugin_class.kind}.", plugin_class.config_def))
    return Page(
        file="connector-plugins.md",
        title="Connector plugins",
        text="The keys of each plugin, in addition to the keys of [every connector](connectors.md).",
        sections=tuple(sections),
    )


def _converters(*, third_party: bool) -> Page:
    sections = [_plugin_section(SIMPLE_HEADER_CONVERTER, "For headers.", SimpleHeaderConverter.config_def)]
    for name, plugin_class in _load_plugins(CONVERTERS_GROUP, third_party=third_party):
        if isinstance(plugin_class, type) and issubclass(plugin_class, Converter):
            sections.append(_plugin_section(name, "For keys, values and headers.", plugin_class.config_def))
    return Page(
        file="converters.md",
        title="Converters",
        text="The keys of each converter. Prefix these keys with `key.converter.`, `value.converter.` or "
        "`header.converter.` in the config of a worker or connector that names the converter.",
        sections=tuple(sections),
    )


def _transforms(*, third_party: bool) -> Page:
    """Return the page of transforms and predicates; variants for keys and values share one section."""
    sections: dict[str, Section] = {}
    for group in (TRANSFORMS_GROUP, PREDICATES_GROUP):
        for name, plugin_class in _load_plugins(group, third_party=third_party):
            if isinstance(plugin_class, type) and issubclass(plugin_class, (Transformation, Predicate)):
                base, _, variant = name.partition("$")
                cls = plugin_class.__mro__[1] if variant else plugin_class
                text = f"{inspect.cleandoc(cls.__doc__ or '')}".replace("\n\n", " ").replace("\n", " ")
                section = _plugin_section(base, text, plugin_class.config_def)
                names = f"`{base}$Key`, `{base}$Value`. " if variant else f"`{base}`. "
                sections[base] = replace(section, text=section.text.replace(f"`{base}`. ", names, 1))
    return Page(
        file="transforms.md",
        title="Transforms and predicates",
        text="The keys of each transform and predicate. A connector's config names transforms in `transforms`, in the "
        "order in which records pass through them, and predicates in `predicates`. Prefix the keys of the transform or "
        "predicate NAME with `transforms.NAME.` or `predicates.NAME.`. Every transform also has the keys `predicate` "
        "and `negate`. `$Key` is the variant for record keys, `$Value` the variant for record values.",
        sections=tuple(sections.values()),
    )


def _providers(*, third_party: bool) -> Page:
    sections = []
    for name, plugin_class in _load_plugins(PROVIDERS_GROUP, third_party=third_party):
        if isinstance(plugin_class, type) and issubclass(plugin_class, ConfigProvider):
            summary = (plugin_class.__doc__ or "").partition("\n")[0]
            sections.append(_plugin_section(name, summary, plugin_class.config_def))
    return Page(
        file="config-providers.md",
        title="Config providers",
        text="The parameters of each provider. Prefix them with `config.providers.NAME.param.` in a worker's config.",
        sections=tuple(sections),
    )


def _clients() -> Page:
    text_by_client: dict[Client, str] = {
        "producer": "Prefix these keys with `producer.` in a worker config, or with `producer.override.` in a source "
        "config.",
        "consumer": "Prefix these keys with `consumer.` in a worker config, or with `consumer.override.` in a sink "
        "config.",
        "admin": "Prefix these keys with `admin.` in a worker config, or with `admin.override.` in a connector config.",
    }
    return Page(
        file="clients.md",
        title="Kafka clients of connectors",
        text="The tables list the names and defaults of Kafka's clients. Kraal's workers use "
        "[other defaults for some keys](../compat.md#producer-defaults). The worker's "
        "[policy](worker.md#connector.client.config.override.policy) determines which keys a connector may override.",
        sections=tuple(
            Section(
                title=f"{client.capitalize()}s" if client != "admin" else "Admin clients",
                text=text,
                keys=tuple(client_def(client)),
                slug=f"{client}.",
                as_table=True,
            )
            for client, text in text_by_client.items()
        ),
    )


def _plugin_section(name: str, text: str, keys: Iterable[Key]) -> Section:
    short_name = name.rpartition(".")[2]
    plugin_keys = tuple(keys)
    note = text if plugin_keys else f"{text} It has no keys."
    return Section(title=short_name, text=f"`{name}`. {note}", keys=plugin_keys, slug=f"{short_name}.")


def _load_plugins(group: str, *, third_party: bool) -> Iterator[tuple[str, object]]:
    """Yield the names and classes of installed plugins, sorted by name; only Kraal's own unless `third_party`."""
    entries = {
        entry.name: entry for entry in installed(group) if third_party or entry.value.startswith(_OWN_PACKAGE)
    }
    yield from ((name, entries[name].load()) for name in sorted(entries))


def _exclude_keys(definition: ConfigDef, other: ConfigDef, names: Iterable[str] = ()) -> tuple[Key, ...]:
    excluded_names = frozenset(names)
    return tuple(key for key in definition if key.name not in other and key.name not in excluded_names)

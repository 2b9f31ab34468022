"""The framework's keys for one connector on one worker: defaults, versions and recommended values.

Source: ConnectorConfig.enrich and enrichedConfigDef, ConverterDefaults (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from kraal.config.clients.overrides import WorkerPolicy
from kraal.config.connector.keys import (
    CONNECTOR_FAMILIES,
    CONNECTOR_VERSION,
    HEADER_CONVERTER,
    KEY_CONVERTER,
    VALUE_CONVERTER,
    VERSION_SUFFIX,
)
from kraal.config.connector.sink import SINK, SINK_FAMILIES
from kraal.config.connector.source import EXACTLY_ONCE_KEYS, SOURCE, SOURCE_FAMILIES
from kraal.config.key import ConfigDef, Key, Recommendation, Recommender
from kraal.core.errors import PluginFailed
from kraal.core.ids import Config
from kraal.plugins.connector_parts import CONVERTERS
from kraal.plugins.entries import Plugin, PluginKind
from kraal.plugins.registry import Registry


class WorkerDefaults(Protocol):
    """The worker settings that validation needs; the worker config provides them."""

    @property
    def raw(self) -> Mapping[str, str]:
        """The worker's properties."""

    @property
    def key_converter(self) -> str:
        """The class of the worker's key converter."""

    @property
    def value_converter(self) -> str:
        """The class of the worker's value converter."""

    @property
    def header_converter(self) -> str:
        """The class of the worker's header converter."""

    @property
    def override_policy(self) -> WorkerPolicy:
        """The policy for client settings that connectors override."""

    @property
    def topic_creation(self) -> bool:
        """Whether source connectors' rules for topic creation are enabled."""

    @property
    def group(self) -> str | None:
        """The worker's group id; None for a standalone worker."""

    @property
    def exactly_once_sources(self) -> bool:
        """Whether source tasks write in transactions."""


def list_unused_keys(
    config: Config, kind: str, plugin: Iterable[Key], *, exactly_once: bool = False
) -> list[str]:
    """Return the keys of a connector's config that have no effect, sorted.

    `kind` is `source` or `sink`. `plugin` contains the keys of the plugins that the config names, with their prefixes.
    `exactly_once` must be true if the worker's sources write in transactions, so that the keys of transactions have
    an effect.
    """
    keys = (SINK if kind == PluginKind.SINK else SOURCE).merge(plugin)
    families = (*CONNECTOR_FAMILIES, *(SINK_FAMILIES if kind == PluginKind.SINK else SOURCE_FAMILIES))
    unused_prefixes = tuple(family.prefix for family in families if family.no_effect)
    return sorted(
        name
        for name in config
        if (keys[name].no_effect if name in keys else name.startswith(unused_prefixes))
        and not (exactly_once and name in EXACTLY_ONCE_KEYS)
    )


def with_version(base: ConfigDef, versions: Sequence[str]) -> ConfigDef:
    """Return the keys with a connector's ascending versions as recommended values, and the highest as the default."""
    recommendation = Recommendation(tuple(dict.fromkeys(versions)))
    key = replace(
        base[CONNECTOR_VERSION], default=versions[-1], recommender=lambda _name, _values: recommendation
    )
    return base.merge([key])


def with_hidden_versions(base: ConfigDef) -> ConfigDef:
    """Return the keys, with converters' version keys hidden unless the config names the converter."""
    return base.merge(
        replace(base[name + VERSION_SUFFIX], recommender=_show_if_set(name)) for name in CONVERTERS
    )


def _show_if_set(name: str) -> Recommender:
    """Return a recommender whose key is visible only if the named key has a value."""
    return lambda _name, values: Recommendation(visible=values.get(name) is not None)


def with_worker(
    base: ConfigDef, registry: Registry, worker: WorkerDefaults, config: Config, plugin: Plugin
) -> ConfigDef:
    """Return the keys with the worker's converters as defaults, and with the installed versions.

    `plugin` is the connector version that the config requests.
    """
    defaults = {
        KEY_CONVERTER: worker.key_converter,
        VALUE_CONVERTER: worker.value_converter,
        HEADER_CONVERTER: worker.header_converter,
    }
    keys: list[Key] = []
    for name, kind in CONVERTERS.items():
        default, configured_name = defaults[name], config.get(name)
        if configured_name is None:
            latest = _list_versions(registry, default, kind, plugin.location)[-1:]
            version = worker.raw.get(name + VERSION_SUFFIX) or next(iter(latest), None)
        else:
            version = _find_version(registry, configured_name, kind, location=plugin.location)
        full_name = registry.resolve(default) or default
        keys += _converter_keys(
            base, registry, name, kind, location=plugin.location, default=full_name, version=version
        )
    return with_version(base, registry.versions(plugin.name, plugin.kind)).merge(keys)


def _converter_keys(
    base: ConfigDef,
    registry: Registry,
    name: str,
    kind: PluginKind,
    *,
    location: str,
    default: str | None,
    version: str | None,
) -> tuple[Key, Key]:
    """Return the key of a converter and the key of its version."""
    choices = Recommendation(registry.names(kind))

    def recommend_versions(_name: str, values: Mapping[str, object]) -> Recommendation:
        class_name = values.get(name)
        if not isinstance(class_name, str):
            return Recommendation(visible=False)
        return Recommendation(_list_versions(registry, class_name, kind, location))

    return (
        replace(base[name], default=default, recommender=lambda _name, _values: choices),
        replace(base[name + VERSION_SUFFIX], default=version, recommender=recommend_versions),
    )


def _find_version(registry: Registry, name: str, kind: PluginKind, location: str) -> str | None:
    """Return the version used without a requirement; None if the plugin is not installed or cannot be loaded."""
    try:
        plugin = registry.find(name, kind, location=location)
    except PluginFailed:
        return None
    return None if plugin is None else plugin.version


def _list_versions(registry: Registry, name: str, kind: PluginKind, location: str) -> tuple[str, ...]:
    """Return the ascending versions of a plugin; empty if the plugin is not installed or cannot be loaded."""
    try:
        return tuple(dict.fromkeys(registry.versions(name, kind, location=location)))
    except PluginFailed:
        return ()

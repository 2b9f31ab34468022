"""The framework's keys for one connector under one worker: defaults, versions and recommended values.

Source: ConnectorConfig.enrich and enrichedConfigDef, ConverterDefaults (Kafka 4.3.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from kraal.config.connector import (
    CONNECTOR_FAMILIES,
    CONNECTOR_VERSION,
    HEADER_CONVERTER,
    KEY_CONVERTER,
    VALUE_CONVERTER,
    VERSION_SUFFIX,
)
from kraal.config.key import ConfigDef, Key, Recommendation, Recommender
from kraal.config.overrides import OverridePolicy
from kraal.config.sink import SINK, SINK_FAMILIES
from kraal.config.source import SOURCE, SOURCE_FAMILIES, TRANSACTIONAL
from kraal.errors import PluginFailed
from kraal.ids import Config
from kraal.plugins.registry import Plugin, PluginKind, Registry


class WorkerDefaults(Protocol):
    """What checking needs to know of the worker; its config has it."""

    @property
    def key_converter(self) -> str:
        """Class of the worker's key converter."""

    @property
    def value_converter(self) -> str:
        """Class of the worker's value converter."""

    @property
    def header_converter(self) -> str:
        """Class of the worker's header converter."""

    @property
    def override_policy(self) -> OverridePolicy:
        """Which client settings connectors may override."""

    @property
    def topic_creation(self) -> bool:
        """Whether topics are created by the rules of source connectors."""

    @property
    def group(self) -> str | None:
        """The workers' group; None: the worker is alone."""

    @property
    def exactly_once_sources(self) -> bool:
        """Whether sources write in transactions."""


def without_effect(config: Config, kind: str, own: Iterable[Key], *, exactly_once: bool = False) -> list[str]:
    """Return the keys of a connector's config that do nothing, sorted.

    `kind` is `source` or `sink`; `own` are the keys of the plugins that the config names, under their prefixes.
    `exactly_once`: the worker's sources write in transactions, which some keys are for.
    """
    keys = (SINK if kind == PluginKind.SINK else SOURCE).merge(own)
    families = (*CONNECTOR_FAMILIES, *(SINK_FAMILIES if kind == PluginKind.SINK else SOURCE_FAMILIES))
    idle = tuple(family.prefix for family in families if family.no_effect)
    return sorted(
        name
        for name in config
        if (keys[name].no_effect if name in keys else name.startswith(idle))
        and not (exactly_once and name in TRANSACTIONAL)
    )


_CONVERTER_KINDS = {
    KEY_CONVERTER: PluginKind.CONVERTER,
    VALUE_CONVERTER: PluginKind.CONVERTER,
    HEADER_CONVERTER: PluginKind.HEADER_CONVERTER,
}


def with_version(base: ConfigDef, plugin: Plugin) -> ConfigDef:
    """Return the keys with the connector's version as default and only choice."""
    advice = Recommendation((plugin.version,))
    key = replace(base[CONNECTOR_VERSION], default=plugin.version, recommender=lambda _name, _values: advice)
    return base.merge([key])


def with_hidden_versions(base: ConfigDef) -> ConfigDef:
    """Return the keys with the versions of converters that the config does not name hidden, and none to choose."""
    return base.merge(
        replace(base[name + VERSION_SUFFIX], recommender=_shown_with(name)) for name in _CONVERTER_KINDS
    )


def _shown_with(name: str) -> Recommender:
    """Return a recommender that shows its key when the named one has a value."""
    return lambda _name, values: Recommendation(visible=values.get(name) is not None)


def with_worker(
    base: ConfigDef, registry: Registry, worker: WorkerDefaults, config: Config, plugin: Plugin
) -> ConfigDef:
    """Return the keys with the worker's converters as defaults, and the versions of what is installed."""
    defaults = {
        KEY_CONVERTER: worker.key_converter,
        VALUE_CONVERTER: worker.value_converter,
        HEADER_CONVERTER: worker.header_converter,
    }
    keys: list[Key] = []
    for name, kind in _CONVERTER_KINDS.items():
        default, chosen = defaults[name], config.get(name)
        version = _version(registry, default if chosen is None else chosen, kind)
        full = registry.resolve(default) or default
        keys += _converter_keys(base, registry, name, kind, default=full, version=version)
    return with_version(base, plugin).merge(keys)


def _converter_keys(
    base: ConfigDef,
    registry: Registry,
    name: str,
    kind: PluginKind,
    *,
    default: str | None,
    version: str | None,
) -> tuple[Key, Key]:
    """Return a converter's key and that of its version."""
    choices = Recommendation(registry.names(kind))

    def versions(_name: str, values: Mapping[str, object]) -> Recommendation:
        chosen = values.get(name)
        if not isinstance(chosen, str):
            return Recommendation(visible=False)
        found = _version(registry, chosen, kind)
        return Recommendation((found,) if found is not None else ())

    return (
        replace(base[name], default=default, recommender=lambda _name, _values: choices),
        replace(base[name + VERSION_SUFFIX], default=version, recommender=versions),
    )


def _version(registry: Registry, name: str, kind: PluginKind) -> str | None:
    """Return the version of a plugin of this kind; None when there is none, or it cannot be loaded."""
    try:
        plugin = registry.find(name, kind)
    except PluginFailed:
        return None
    return None if plugin is None else plugin.version

"""The keys of transforms and predicates, prefixed with their aliases in a connector's config.

Each alias has a `type`, a `plugin.version` and the keys of its class; a transform also has `predicate` and
`negate`, regardless of its class. Source: ConnectorConfig.EnrichablePlugin (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from kraal.config.connector.keys import (
    CONNECTOR_CLASS,
    CONNECTOR_VERSION,
    PREDICATES,
    PREDICATES_GROUP,
    TRANSFORMS,
    TRANSFORMS_GROUP,
    VERSION_SUFFIX,
)
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Recommendation, Width
from kraal.config.values import invalid, split_list, trim
from kraal.core.errors import PluginFailed
from kraal.core.ids import Config
from kraal.plugins.entries import Plugin, PluginKind
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import NEGATE, PREDICATE
from kraal.plugins.versions import mismatch

_IMPLICIT_KEYS: Final = (
    Key(
        name=PREDICATE,
        type=ConfigType.STRING,
        default=None,
        importance=Importance.MEDIUM,
        doc="Name of the predicate that selects the records to transform; default: all records are transformed.",
        source="TransformationStage.PREDICATE_CONFIG",
    ),
    Key(
        name=NEGATE,
        type=ConfigType.BOOLEAN,
        default=False,
        importance=Importance.MEDIUM,
        doc="Whether to apply the transform to the records that the predicate does not select.",
        source="TransformationStage.NEGATE_CONFIG",
    ),
)
"""The keys of every transform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Role:
    """A kind of plugin with aliases, and the key of a connector's config that lists them."""

    key: str
    group: str
    kind: PluginKind
    interface: str
    implicit_keys: tuple[Key, ...] = ()


_ROLES: Final = (
    _Role(
        key=TRANSFORMS,
        group=TRANSFORMS_GROUP,
        kind=PluginKind.TRANSFORMATION,
        interface="Transformation",
        implicit_keys=_IMPLICIT_KEYS,
    ),
    _Role(key=PREDICATES, group=PREDICATES_GROUP, kind=PluginKind.PREDICATE, interface="Predicate"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AliasedPlugin:
    """An alias and the result of looking up its `type`: a matching plugin, an error, or neither."""

    role: _Role
    alias: str
    plugin: Plugin | None = None
    default_version: str | None = None
    """The version that is used if the config requires none."""
    versions: tuple[str, ...] = ()
    type_error: str | None = None
    version_error: str | None = None

    @property
    def prefix(self) -> str:
        return f"{self.role.key}.{self.alias}."

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of the plugin; empty if the plugin cannot be used."""
        if self.plugin is None or self.version_error is not None:
            return ()
        implicit_names = {key.name for key in self.role.implicit_keys}
        return (
            *self.role.implicit_keys,
            *(key for key in self.plugin.config_def if key.name not in implicit_names),
        )


def with_aliases(base: ConfigDef, registry: Registry, config: Config) -> ConfigDef:
    """Add the keys of each transform and predicate in the config, prefixed with its alias."""
    keys = base
    for aliased in _load_all(registry, config):
        group = f"{aliased.role.group}: {aliased.alias}"
        keys = keys.merge([_type_key(registry, aliased, group, config), _version_key(aliased, group)])
        keys = keys.embed(aliased.prefix, group, 2, aliased.keys)
    return keys


def alias_keys(registry: Registry, config: Config) -> list[Key]:
    """Return the keys declared by the transforms and predicates in a config, with their prefixes."""
    return [
        replace(key, name=aliased.prefix + key.name)
        for aliased in _load_all(registry, config)
        for key in aliased.keys
    ]


def check_aliases(registry: Registry, config: Config) -> Iterator[tuple[str, str]]:
    """Yield pairs of a key and its error: classes of the wrong kind, unavailable versions, unlisted predicates."""
    predicates = split_list(config.get(PREDICATES) or "")
    for aliased in _load_all(registry, config):
        key = f"{aliased.prefix}{PREDICATE}"
        predicate = trim(config.get(key) or "")
        has_predicate = (
            any(declared_key.name == PREDICATE for declared_key in aliased.keys)
            and aliased.role.implicit_keys
        )
        if has_predicate and predicate and predicate not in predicates:
            names = ", ".join(predicates) or "none"
            yield key, invalid(key, predicate, f"not in {PREDICATES}, which names: {names}")
        if aliased.type_error is not None:
            yield f"{aliased.prefix}type", aliased.type_error
        if aliased.version_error is not None:
            yield f"{aliased.prefix}type", aliased.version_error
            yield aliased.prefix + VERSION_SUFFIX.removeprefix("."), aliased.version_error


def _load_all(registry: Registry, config: Config) -> Iterable[_AliasedPlugin]:
    location = _find_location(registry, config)
    for role in _ROLES:
        for alias in dict.fromkeys(split_list(config.get(role.key) or "")):
            yield _load_alias(registry, config, role, alias, location)


def _find_location(registry: Registry, config: Config) -> str | None:
    """Return the location of the connector, in which transforms and predicates are preferred."""
    try:
        return registry.location(config.get(CONNECTOR_CLASS) or "", config.get(CONNECTOR_VERSION))
    except PluginFailed:
        return None


def _load_alias(
    registry: Registry, config: Config, role: _Role, alias: str, location: str | None
) -> _AliasedPlugin:
    prefix = f"{role.key}.{alias}."
    name = trim(config.get(f"{prefix}type") or "")
    full_name = registry.resolve(name)
    if full_name is None:
        return _AliasedPlugin(role=role, alias=alias)
    try:
        plugin = registry.find(full_name, role.kind, location=location)
    except PluginFailed as exc:
        return _AliasedPlugin(role=role, alias=alias, type_error=f"Failed to load class {name}: {exc}")
    if plugin is None:
        error = f"Class class {full_name} does not implement the {role.interface} interface"
        return _AliasedPlugin(role=role, alias=alias, type_error=error)
    requirement = config.get(prefix + VERSION_SUFFIX.removeprefix("."))
    versions = registry.versions(full_name, role.kind, location=location)
    return _AliasedPlugin(
        role=role,
        alias=alias,
        plugin=registry.find(full_name, role.kind, requirement=requirement, location=location) or plugin,
        default_version=plugin.version,
        versions=tuple(dict.fromkeys(versions)),
        version_error=mismatch(full_name, requirement, versions),
    )


def _type_key(registry: Registry, aliased: _AliasedPlugin, group: str, config: Config) -> Key:
    role, alias = aliased.role, aliased.alias
    choices = Recommendation(registry.names(role.kind))

    def check(_name: str, _value: object) -> str | None:
        if not role.implicit_keys or f"{aliased.prefix}{NEGATE}" not in config:
            return None
        if f"{aliased.prefix}{PREDICATE}" in config:
            return None
        return (
            f"Config '{aliased.prefix}{NEGATE}' was provided but there is no config "
            f"'{aliased.prefix}{PREDICATE}' defining a predicate to be negated."
        )

    return Key(
        name=f"{aliased.prefix}type",
        type=ConfigType.CLASS,
        validator=check,
        importance=Importance.HIGH,
        doc=f"The class of the {role.interface.lower()} {alias}.",
        group=group,
        order=0,
        width=Width.LONG,
        display_name=f"{role.interface} type for {alias}",
        recommender=lambda _name, _values: choices,
        source="ConnectorConfig.EnrichablePlugin",
    )


def _version_key(aliased: _AliasedPlugin, group: str) -> Key:
    role, alias = aliased.role, aliased.alias
    recommendation = Recommendation(aliased.versions)

    return Key(
        name=aliased.prefix + VERSION_SUFFIX.removeprefix("."),
        type=ConfigType.STRING,
        default=aliased.default_version,
        importance=Importance.HIGH,
        doc=f"Required version of the {role.interface.lower()} {alias}; usually omitted.",
        group=group,
        order=1,
        width=Width.LONG,
        display_name=f"{role.interface} version for {alias}",
        recommender=lambda _name, _values: recommendation,
        source="ConnectorConfig.EnrichablePlugin",
    )

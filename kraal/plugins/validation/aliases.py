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

_IMPLICIT: Final = (
    Key(
        name=PREDICATE,
        type=ConfigType.STRING,
        default=None,
        importance=Importance.MEDIUM,
        doc="The name of the predicate that says on which records the transform is applied; none: on all.",
        source="TransformationStage.PREDICATE_CONFIG",
    ),
    Key(
        name=NEGATE,
        type=ConfigType.BOOLEAN,
        default=False,
        importance=Importance.MEDIUM,
        doc="Apply the transform to those records that the predicate does not let through.",
        source="TransformationStage.NEGATE_CONFIG",
    ),
)
"""The keys of every transform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Role:
    """The kind of plugin whose aliases one key of a connector's config lists."""

    key: str
    group: str
    kind: PluginKind
    interface: str
    implicit: tuple[Key, ...] = ()


_ROLES: Final = (
    _Role(
        key=TRANSFORMS,
        group=TRANSFORMS_GROUP,
        kind=PluginKind.TRANSFORMATION,
        interface="Transformation",
        implicit=_IMPLICIT,
    ),
    _Role(key=PREDICATES, group=PREDICATES_GROUP, kind=PluginKind.PREDICATE, interface="Predicate"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """An alias and the result of looking up its `type`: a matching plugin, an error, or neither."""

    role: _Role
    alias: str
    plugin: Plugin | None = None
    default: str | None = None
    """The version that is used if the config requires none."""
    versions: tuple[str, ...] = ()
    wrong: str | None = None
    wrong_version: str | None = None

    @property
    def prefix(self) -> str:
        return f"{self.role.key}.{self.alias}."

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of the plugin; empty if the plugin cannot be used."""
        if self.plugin is None or self.wrong_version is not None:
            return ()
        masked = {key.name for key in self.role.implicit}
        return (*self.role.implicit, *(key for key in self.plugin.config_def if key.name not in masked))


def with_aliases(base: ConfigDef, registry: Registry, config: Config) -> ConfigDef:
    """Add the keys of each transform and predicate that the config names, under its alias."""
    keys = base
    for named in _all_named(registry, config):
        group = f"{named.role.group}: {named.alias}"
        keys = keys.merge([_type_key(registry, named, group, config), _version_key(named, group)])
        keys = keys.embed(named.prefix, group, 2, named.keys)
    return keys


def alias_keys(registry: Registry, config: Config) -> list[Key]:
    """Return the keys that the classes of a config's transforms and predicates declare, with their prefixes."""
    return [
        replace(key, name=named.prefix + key.name)
        for named in _all_named(registry, config)
        for key in named.keys
    ]


def alias_errors(registry: Registry, config: Config) -> Iterator[tuple[str, str]]:
    """Yield pairs of a key and its error: classes of the wrong kind, unavailable versions, unlisted predicates."""
    predicates = split_list(config.get(PREDICATES) or "")
    for named in _all_named(registry, config):
        key = f"{named.prefix}{PREDICATE}"
        predicate = trim(config.get(key) or "")
        has_predicate = any(each.name == PREDICATE for each in named.keys) and named.role.implicit
        if has_predicate and predicate and predicate not in predicates:
            listed = ", ".join(predicates) or "none"
            yield key, invalid(key, predicate, f"not in {PREDICATES}, which names: {listed}")
        if named.wrong is not None:
            yield f"{named.prefix}type", named.wrong
        if named.wrong_version is not None:
            yield f"{named.prefix}type", named.wrong_version
            yield named.prefix + VERSION_SUFFIX.removeprefix("."), named.wrong_version


def _all_named(registry: Registry, config: Config) -> Iterable[_Named]:
    near = _home(registry, config)
    for role in _ROLES:
        for alias in dict.fromkeys(split_list(config.get(role.key) or "")):
            yield _load_named(registry, config, role, alias, near)


def _home(registry: Registry, config: Config) -> str | None:
    """Return the location of the connector, whose own transforms and predicates come first."""
    try:
        return registry.location(config.get(CONNECTOR_CLASS) or "", config.get(CONNECTOR_VERSION))
    except PluginFailed:
        return None


def _load_named(registry: Registry, config: Config, role: _Role, alias: str, near: str | None) -> _Named:
    prefix = f"{role.key}.{alias}."
    written = trim(config.get(f"{prefix}type") or "")
    full = registry.resolve(written)
    if full is None:
        return _Named(role=role, alias=alias)
    try:
        plugin = registry.find(full, role.kind, near=near)
    except PluginFailed as exc:
        return _Named(role=role, alias=alias, wrong=f"Failed to load class {written}: {exc}")
    if plugin is None:
        wrong = f"Class class {full} does not implement the {role.interface} interface"
        return _Named(role=role, alias=alias, wrong=wrong)
    wanted = config.get(prefix + VERSION_SUFFIX.removeprefix("."))
    versions = registry.versions(full, role.kind, near=near)
    return _Named(
        role=role,
        alias=alias,
        plugin=registry.find(full, role.kind, wanted=wanted, near=near) or plugin,
        default=plugin.version,
        versions=tuple(dict.fromkeys(versions)),
        wrong_version=mismatch(full, wanted, versions),
    )


def _type_key(registry: Registry, named: _Named, group: str, config: Config) -> Key:
    role, alias = named.role, named.alias
    choices = Recommendation(registry.names(role.kind))

    def check(_name: str, _value: object) -> str | None:
        if not role.implicit or f"{named.prefix}{NEGATE}" not in config:
            return None
        if f"{named.prefix}{PREDICATE}" in config:
            return None
        return (
            f"Config '{named.prefix}{NEGATE}' was provided but there is no config "
            f"'{named.prefix}{PREDICATE}' defining a predicate to be negated."
        )

    return Key(
        name=f"{named.prefix}type",
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


def _version_key(named: _Named, group: str) -> Key:
    role, alias = named.role, named.alias
    advice = Recommendation(named.versions)

    return Key(
        name=named.prefix + VERSION_SUFFIX.removeprefix("."),
        type=ConfigType.STRING,
        default=named.default,
        importance=Importance.HIGH,
        doc=f"Required version of the {role.interface.lower()} {alias}; usually omitted.",
        group=group,
        order=1,
        width=Width.LONG,
        display_name=f"{role.interface} version for {alias}",
        recommender=lambda _name, _values: advice,
        source="ConnectorConfig.EnrichablePlugin",
    )

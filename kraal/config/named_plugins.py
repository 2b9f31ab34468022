"""The plugins that a connector's config names, and which keys of the config are theirs. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from kraal.config.connector.keys import CONNECTOR, HEADER_CONVERTER, KEY_CONVERTER, VALUE_CONVERTER
from kraal.core.ids import Config

_CONVERTERS: Final = (KEY_CONVERTER, VALUE_CONVERTER, HEADER_CONVERTER)
_ALIASED: Final = ("transforms", "predicates")
_CONNECTS_OWN: Final = frozenset({"topics", "topics.regex", *(key.name for key in CONNECTOR)})
"""Keys that belong to no plugin, none of which is a secret."""


@dataclass(frozen=True, slots=True)
class NamedPlugin:
    """A plugin that a config names; `prefix` is put before its keys."""

    prefix: str
    plugin: str


def named_plugins(config: Config) -> list[NamedPlugin]:
    """Return the plugins whose keys a config may contain: its connector, converters, transforms and predicates."""
    named = [NamedPlugin("", config.get("connector.class") or "")]
    named += [NamedPlugin(f"{role}.", config.get(role) or "") for role in _CONVERTERS]
    for family in _ALIASED:
        for alias in (each.strip() for each in (config.get(family) or "").split(",")):
            prefix = f"{family}.{alias}."
            named.append(NamedPlugin(prefix, config.get(f"{prefix}type") or ""))
    return [each for each in dict.fromkeys(named) if each.plugin.strip()]


def values_below(prefix: str, config: Config, named: Collection[NamedPlugin]) -> frozenset[str]:
    """Return the keys below a plugin's prefix, except those of Connect and of other plugins, and names of plugins."""
    plugins = {each.plugin for each in named}
    other_prefixes = tuple(each.prefix for each in named if not prefix.startswith(each.prefix))
    return frozenset(
        key
        for key, value in config.items()
        if key.startswith(prefix)
        and key not in _CONNECTS_OWN
        and value not in plugins
        and not key.startswith(other_prefixes)
    )

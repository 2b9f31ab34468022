"""The plugins named in a connector's config, and the keys that belong to each plugin. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from kraal.config.connector.keys import CONNECTOR, HEADER_CONVERTER, KEY_CONVERTER, VALUE_CONVERTER
from kraal.core.ids import Config

_CONVERTERS: Final = (KEY_CONVERTER, VALUE_CONVERTER, HEADER_CONVERTER)
_ALIASED: Final = ("transforms", "predicates")
_CONNECT_KEYS: Final = frozenset({"topics", "topics.regex", *(key.name for key in CONNECTOR)})
"""Keys that do not belong to a plugin; none is a secret."""


@dataclass(frozen=True, slots=True)
class NamedPlugin:
    """A plugin named in a config, with the prefix of its keys."""

    prefix: str
    plugin: str


def named_plugins(config: Config) -> list[NamedPlugin]:
    """Return the plugins named in a config: the connector, converters, transforms and predicates."""
    named = [NamedPlugin("", config.get("connector.class") or "")]
    named += [NamedPlugin(f"{role}.", config.get(role) or "") for role in _CONVERTERS]
    for family in _ALIASED:
        for alias in (each.strip() for each in (config.get(family) or "").split(",")):
            prefix = f"{family}.{alias}."
            named.append(NamedPlugin(prefix, config.get(f"{prefix}type") or ""))
    return [each for each in dict.fromkeys(named) if each.plugin.strip()]


def keys_below(prefix: str, config: Config, named: Collection[NamedPlugin]) -> frozenset[str]:
    """Return the keys with a plugin's prefix, except those of Connect, of other plugins, and names of plugins."""
    plugins = {each.plugin for each in named}
    other_prefixes = tuple(each.prefix for each in named if not prefix.startswith(each.prefix))
    return frozenset(
        key
        for key, value in config.items()
        if key.startswith(prefix)
        and key not in _CONNECT_KEYS
        and value not in plugins
        and not key.startswith(other_prefixes)
    )

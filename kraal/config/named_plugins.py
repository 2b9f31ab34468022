"""The plugins named in a connector's config, and the keys that belong to each plugin. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from kraal.config.connector.keys import CONNECTOR, HEADER_CONVERTER, KEY_CONVERTER, VALUE_CONVERTER
from kraal.core.ids import Config

_CONVERTERS: Final = (KEY_CONVERTER, VALUE_CONVERTER, HEADER_CONVERTER)
_ALIAS_KEYS: Final = ("transforms", "predicates")
_CONNECT_KEYS: Final = frozenset({"topics", "topics.regex", *(key.name for key in CONNECTOR)})
"""Keys that belong to no plugin and contain no secrets."""


@dataclass(frozen=True, slots=True)
class NamedPlugin:
    """A plugin named in a config, with the prefix of its keys."""

    prefix: str
    plugin: str


def named_plugins(config: Config) -> list[NamedPlugin]:
    """Return the plugins named in a config: the connector, converters, transforms and predicates."""
    plugins = [NamedPlugin("", config.get("connector.class") or "")]
    plugins += [NamedPlugin(f"{role}.", config.get(role) or "") for role in _CONVERTERS]
    for family in _ALIAS_KEYS:
        for alias in (entry.strip() for entry in (config.get(family) or "").split(",")):
            prefix = f"{family}.{alias}."
            plugins.append(NamedPlugin(prefix, config.get(f"{prefix}type") or ""))
    return [entry for entry in dict.fromkeys(plugins) if entry.plugin.strip()]


def select_plugin_keys(prefix: str, config: Config, plugins: Collection[NamedPlugin]) -> frozenset[str]:
    """Return the keys with a plugin's prefix.

    The keys of Connect, the keys of other plugins, and keys whose value names a plugin are excluded.
    """
    plugin_names = {plugin.plugin for plugin in plugins}
    other_prefixes = tuple(plugin.prefix for plugin in plugins if not prefix.startswith(plugin.prefix))
    return frozenset(
        key
        for key, value in config.items()
        if key.startswith(prefix)
        and key not in _CONNECT_KEYS
        and value not in plugin_names
        and not key.startswith(other_prefixes)
    )

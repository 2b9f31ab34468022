"""The keys of type PASSWORD that a connector's config may contain, as its plugins declare them."""

from __future__ import annotations

import asyncio

from kraal.config.named_plugins import NamedPlugin, named_plugins, values_below
from kraal.core.ids import Config
from web.ui.sources.api import Caller, Refused, Source
from web.ui.views.config import password_keys


async def declared_secrets(source: Source, caller: Caller, config: Config) -> frozenset[str]:
    """Ask for the keys of all plugins that a config names. Raises Away.

    If the worker does not know a plugin, or cannot tell its keys now, all its values count as secrets. Workers of
    Java before 3.2 tell no plugin's keys: only the names of keys tell their secrets.
    """
    named = named_plugins(config)

    async def of(plugin: NamedPlugin) -> frozenset[str]:
        try:
            answer = await source.ask(
                "GET", "connector-plugins", plugin.plugin.strip(), "config", caller=caller
            )
        except Refused as error:
            if error.no_such_path:
                return frozenset()
            return values_below(plugin.prefix, config, named)
        return password_keys(answer.value, plugin.prefix)

    return frozenset[str]().union(*await asyncio.gather(*map(of, named)))

"""The keys of type PASSWORD that a connector's config may contain, as its plugins declare them."""

from __future__ import annotations

import asyncio

from kraal.core.ids import Config
from web.ui.sources.api import Caller, Refused, Source
from web.ui.views.config import NamedPlugin, named_plugins, password_keys


async def declared_secrets(source: Source, caller: Caller, config: Config) -> frozenset[str]:
    """Ask for the keys of all plugins that a config names; unknown plugins declare none. Raises Away."""

    async def of(plugin: NamedPlugin) -> frozenset[str]:
        try:
            answer = await source.ask(
                "GET", "connector-plugins", plugin.plugin.strip(), "config", caller=caller
            )
        except Refused:
            return frozenset()
        return password_keys(answer.value, plugin.prefix)

    return frozenset[str]().union(*await asyncio.gather(*map(of, named_plugins(config))))

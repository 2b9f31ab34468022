"""Keys of type PASSWORD that the plugins of a connector's config declare."""

from __future__ import annotations

import asyncio

from kraal.config.named_plugins import NamedPlugin, named_plugins, values_below
from kraal.core.ids import Config
from web.ui.sources.api import Caller, Refused, Source
from web.ui.views.config import password_keys


async def declared_secrets(source: Source, caller: Caller, config: Config) -> frozenset[str]:
    """Fetch the secret keys of all plugins in a config. Raises SourceUnavailable.

    If the worker does not have a plugin or cannot list its keys now, all its values count as secrets. Java workers
    before 3.2 list no plugin's keys; secrets are then recognized by the names of keys only.
    """
    plugins = named_plugins(config)

    async def secret_keys(plugin: NamedPlugin) -> frozenset[str]:
        try:
            answer = await source.ask(
                "GET", "connector-plugins", plugin.plugin.strip(), "config", caller=caller
            )
        except Refused as error:
            if error.no_such_path:
                return frozenset()
            return values_below(plugin.prefix, config, plugins)
        return password_keys(answer.value, plugin.prefix)

    return frozenset[str]().union(*await asyncio.gather(*map(secret_keys, plugins)))

"""Keys of type PASSWORD that the plugins of a connector's config declare."""

from __future__ import annotations

import asyncio

from kraal.config.named_plugins import NamedPlugin, named_plugins, select_plugin_keys
from kraal.core.ids import Config
from web.ui.sources.api import Caller, RequestRejected, Source
from web.ui.views.config import password_keys


async def fetch_secret_keys(source: Source, caller: Caller, config: Config) -> frozenset[str]:
    """Fetch the secret keys of all plugins in a config. Raises SourceUnavailable.

    If the worker lacks a plugin or cannot list the plugin's keys, all of the plugin's values are treated as secrets.
    Java workers before 3.2 do not list the keys of any plugin; secrets are then recognized only by the names of keys.
    """
    plugins = named_plugins(config)

    async def secret_keys(plugin: NamedPlugin) -> frozenset[str]:
        try:
            response = await source.ask(
                "GET", "connector-plugins", plugin.plugin.strip(), "config", caller=caller
            )
        except RequestRejected as error:
            if error.is_unknown_endpoint:
                return frozenset()
            return select_plugin_keys(plugin.prefix, config, plugins)
        return password_keys(response.value, plugin.prefix)

    return frozenset[str]().union(*await asyncio.gather(*map(secret_keys, plugins)))

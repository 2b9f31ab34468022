"""The keys of type PASSWORD that a connector's config may contain, as its plugins declare them."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from kraal.core.ids import Config
from web.ui.sources.api import Caller, Refused, Source
from web.ui.views.config import NamedPlugin, named_plugins, password_keys, values_below


async def declared_secrets(source: Source, caller: Caller, config: Config) -> frozenset[str]:
    """Ask for the keys of all plugins that a config names. Raises Away.

    Unknown plugins declare none. If the worker cannot tell a plugin's keys now, all of its values count as secrets.
    """
    named = named_plugins(config)

    async def of(plugin: NamedPlugin) -> frozenset[str]:
        try:
            answer = await source.ask(
                "GET", "connector-plugins", plugin.plugin.strip(), "config", caller=caller
            )
        except Refused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return frozenset()
            return values_below(plugin.prefix, config, named)
        return password_keys(answer.value, plugin.prefix)

    return frozenset[str]().union(*await asyncio.gather(*map(of, named)))

"""Waits until the dashboard's worker has read a written config, which the leader may have written."""

from __future__ import annotations

import asyncio
from typing import Final

from kraal.core.ids import Config
from web.ui.sources.api import Away, Caller, Refused, Source
from web.ui.views.config import parse_config

SETTLE_TIMEOUT_S: Final = 3.0
_POLL_INTERVAL_S: Final = 0.1


async def has_settled(
    source: Source, caller: Caller, name: str, config: Config, *, timeout_s: float = SETTLE_TIMEOUT_S
) -> bool:
    """Wait until the worker shows a connector's config and status; False if it does not in time."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        try:
            answer = await source.ask("GET", "connectors", name, "config", caller=caller)
            if parse_config(answer.value) == {"name": name, **config}:
                await source.ask("GET", "connectors", name, "status", caller=caller)
                return True
        except Refused:
            pass
        except Away:
            return False
        if asyncio.get_running_loop().time() + _POLL_INTERVAL_S > deadline:
            return False
        await asyncio.sleep(_POLL_INTERVAL_S)

"""Waits until the worker that pages ask has read what was written: another one may be the leader that wrote it."""

from __future__ import annotations

import asyncio
from typing import Final

from kraal.core.ids import Config
from web.ui.sources.api import Away, Caller, Refused, Source
from web.ui.views.config import config_of

PATIENCE_S: Final = 3.0
_PAUSE_S: Final = 0.1


async def has_settled(
    source: Source, caller: Caller, name: str, config: Config, *, patience_s: float = PATIENCE_S
) -> bool:
    """Wait until the worker shows a config and a status of its connector; return whether it did in time."""
    deadline = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            found = await source.ask("GET", "connectors", name, "config", caller=caller)
            if config_of(found.value) == {"name": name, **config}:
                await source.ask("GET", "connectors", name, "status", caller=caller)
                return True
        except Refused:
            pass
        except Away:
            return False
        if asyncio.get_running_loop().time() + _PAUSE_S > deadline:
            return False
        await asyncio.sleep(_PAUSE_S)

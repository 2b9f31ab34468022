"""The parts of the worker that are down, which the list of connectors and the cluster page show."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from web.ui.routing import Visit
from web.ui.sources.api import Away, Refused
from web.ui.sources.requests import get_map
from web.ui.views.down_parts import DownPart, down_parts

_TIMEOUT_S: Final = 2.0
"""`GET /health` waits longer for a herder that hangs, and pages must not."""


async def fetch_down_parts(visit: Visit) -> Sequence[DownPart]:
    """Fetch the parts of the worker that are down; empty if the worker does not list them in time."""
    if not visit.features.health:
        return ()
    try:
        health = await asyncio.wait_for(get_map(visit.source, visit.caller, "health"), _TIMEOUT_S)
    except (Away, Refused, TimeoutError):
        return ()
    return down_parts(health, time.time_ns() // 1_000_000)

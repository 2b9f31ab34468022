"""Health check of the herder. Concurrent requests share one ping.

Probes come from many sources, and each ping would add a message to the mailbox of a possibly busy herder.
"""

from __future__ import annotations

import asyncio

from actors.messages.herder import Ping
from actors.runtime.mailbox import Address


class HealthCheck:
    """Health check that pings the herder. Not thread-safe; used only on the event loop."""

    def __init__(self, herder: Address) -> None:
        self._herder = herder
        self._ping: asyncio.Future[None] | None = None

    async def check(self) -> None:
        """Await the herder's reply to the pending ping, or to a new one. Raises ActorDied."""
        if self._ping is None or self._ping.done():
            self._ping = asyncio.wrap_future(self._herder.question(Ping()))
        await asyncio.shield(self._ping)

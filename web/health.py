"""Health check of the herder: concurrent requests share one question.

Probes come from many sources, and each question takes a place in the mailbox of a herder that may be busy.
"""

from __future__ import annotations

import asyncio

from actors.messages.herder import Ping
from actors.runtime.mailbox import Address


class HealthCheck:
    """Asks the herder. Thread: the event loop's."""

    def __init__(self, herder: Address) -> None:
        self._herder = herder
        self._asked: asyncio.Future[None] | None = None

    async def check(self) -> None:
        """Await the herder's answer to a new question, or to the pending one if any. Raises ActorDied."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.wrap_future(self._herder.question(Ping()))
        await asyncio.shield(self._asked)

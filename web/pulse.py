"""Whether the herder works: one question for all who want to know at one moment.

Probes come from many sides, and each question takes a place in the mailbox of the one that may be busy.
"""

from __future__ import annotations

import asyncio

from actors.mailbox import Address
from actors.messages.herder import Ping


class Pulse:
    """Asks the herder. Thread: the event loop's."""

    def __init__(self, herder: Address) -> None:
        self._herder = herder
        self._asked: asyncio.Future[None] | None = None

    async def feel(self) -> None:
        """Await the herder's answer, or that of an earlier question that is not answered yet. Raises ActorDied."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.wrap_future(self._herder.question(Ping()))
        await asyncio.shield(self._asked)

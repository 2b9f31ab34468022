"""Answers that all browsers share: asked once at a time, and parsed once as long as they stay the same."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from web.ui.sources.api import Answer

Key = tuple[object, ...]

_MOST_ANSWERS: Final = 16
_MOST_BYTES: Final = 64 * 1024 * 1024


class AnswerCache:
    """Answers by their request. Thread: the event loop's only.

    A request that equals one under way waits for its answer. An answer with the same bytes as the previous one is
    replaced by it, with everything parsed. Within `keep_s` seconds, and until `forget`, a request is answered from
    memory.
    """

    def __init__(self, *, keep_s: float = 0.0) -> None:
        self._keep_s = keep_s
        self._answers: OrderedDict[Key, Answer] = OrderedDict()
        self._fresh_until: dict[Key, float] = {}
        self._flights: dict[Key, asyncio.Task[Answer]] = {}

    async def get(self, key: Key, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer to a request, which `ask` carries out. Raises what `ask` raises."""
        now = asyncio.get_running_loop().time()
        if now < self._fresh_until.get(key, 0.0) and key in self._answers:
            return self._answers[key]
        flight = self._flights.get(key)
        if flight is None:
            flight = asyncio.create_task(self._fly(key, ask))
            self._flights[key] = flight
            flight.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(flight)  # who waits may go; others still wait

    def forget(self) -> None:
        """Have all later requests asked anew, because something changed."""
        self._fresh_until.clear()
        self._flights.clear()

    def clear(self) -> None:
        """Drop all answers, because nobody looks any more."""
        self.forget()
        self._answers.clear()

    async def _fly(self, key: Key, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        found = await ask()
        if self._flights.get(key) is not asyncio.current_task():
            return found  # forgotten: something changed since the request was sent
        known = self._answers.pop(key, None)
        if known is not None and known.body == found.body:
            found = known
        self._answers[key] = found
        while len(self._answers) > 1 and (
            len(self._answers) > _MOST_ANSWERS
            or sum(len(each.body) for each in self._answers.values()) > _MOST_BYTES
        ):
            dropped, _ = self._answers.popitem(last=False)
            self._fresh_until.pop(dropped, None)
        return found

    def _landed(self, key: Key, flight: asyncio.Task[Answer]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
            if not flight.cancelled() and flight.exception() is None:
                self._fresh_until[key] = asyncio.get_running_loop().time() + self._keep_s
        elif not flight.cancelled():
            flight.exception()  # it may be nobody's any more

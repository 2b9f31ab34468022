"""Shares answers that need other workers among the requests of one second.

Several dashboards that show the same metrics cause one round of requests between workers a second, not one each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Final, TypeVar

REUSE_S: Final = 1.0
_MAX_ANSWERS: Final = 64
"""Maximum number of shared answers; further requests share none."""

T = TypeVar("T")


class SharedAnswers:
    """Pending answers, and those requested within the last second. Thread: the event loop's only."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, tuple[float, asyncio.Task[Any]]] = {}

    async def get(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the shared answer for a key, or the result of `make`. Raises the errors of `make`."""
        now_s = asyncio.get_running_loop().time()
        self._answers = {
            each: (began_s, answer)
            for each, (began_s, answer) in self._answers.items()
            if now_s - began_s < REUSE_S or not answer.done()
        }
        if key in self._answers:
            shared: Awaitable[T] = self._answers[key][1]
            return await asyncio.shield(shared)
        if len(self._answers) >= _MAX_ANSWERS:
            return await make()
        task = asyncio.create_task(make())
        self._answers[key] = now_s, task
        return await asyncio.shield(task)

"""Reuses a response that requires requests to other workers, for equal requests within one second.

Several dashboards that show the same metrics thus cause only one round of requests per second between workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Final, TypeVar

REUSE_S: Final = 1.0
_MAX_RESPONSES: Final = 64
"""Maximum number of shared responses; further responses are not shared."""

T = TypeVar("T")


class SharedResponses:
    """Pending responses, and responses requested within the last second. Not thread-safe; event loop only."""

    def __init__(self) -> None:
        self._responses: dict[Hashable, tuple[float, asyncio.Task[Any]]] = {}

    async def get(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the shared response for a key, or the result of `make`. Raises the errors of `make`."""
        now_s = asyncio.get_running_loop().time()
        self._responses = {
            shared_key: (start_s, response)
            for shared_key, (start_s, response) in self._responses.items()
            if now_s - start_s < REUSE_S or not response.done()
        }
        if key in self._responses:
            shared_response: Awaitable[T] = self._responses[key][1]
            return await asyncio.shield(shared_response)
        if len(self._responses) >= _MAX_RESPONSES:
            return await make()
        task = asyncio.create_task(make())
        self._responses[key] = now_s, task
        return await asyncio.shield(task)

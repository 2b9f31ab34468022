"""Answers that all browsers share: concurrent requests are merged, and equal answers are parsed once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from web.ui.sources.api import Answer

Key = tuple[object, ...]

_MAX_ANSWERS: Final = 16
_MAX_BYTES: Final = 64 * 1024 * 1024


class AnswerCache:
    """Answers by their request. Thread: the event loop's only.

    A request that equals a pending one waits for its answer. An answer with the same bytes as the previous one is
    replaced by it, including its parsed values. Within `keep_s` seconds, and until `forget`, a request is answered
    from memory.
    """

    def __init__(self, *, keep_s: float = 0.0) -> None:
        self._keep_s = keep_s
        self._answers: OrderedDict[Key, Answer] = OrderedDict()
        self._fresh_until: dict[Key, float] = {}
        self._pending: dict[Key, asyncio.Task[Answer]] = {}

    async def get(self, key: Key, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer to a request, which `ask` sends. Raises the errors of `ask`."""
        now = asyncio.get_running_loop().time()
        if now < self._fresh_until.get(key, 0.0) and key in self._answers:
            return self._answers[key]
        request = self._pending.get(key)
        if request is None:
            request = asyncio.create_task(self._request(key, ask))
            self._pending[key] = request
            request.add_done_callback(lambda future: self._on_done(key, future))
        return await asyncio.shield(request)  # canceling one caller must not cancel the others

    def forget(self) -> None:
        """Invalidate all answers after a change."""
        self._fresh_until.clear()
        self._pending.clear()

    def clear(self) -> None:
        """Drop all answers, because no browser needs them."""
        self.forget()
        self._answers.clear()

    async def _request(self, key: Key, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await ask()
        if self._pending.get(key) is not asyncio.current_task():
            return answer  # invalidated: something changed since the request was sent
        previous = self._answers.pop(key, None)
        if previous is not None and previous.body == answer.body:
            answer = previous
        self._answers[key] = answer
        while len(self._answers) > 1 and (
            len(self._answers) > _MAX_ANSWERS
            or sum(len(each.body) for each in self._answers.values()) > _MAX_BYTES
        ):
            oldest, _ = self._answers.popitem(last=False)
            self._fresh_until.pop(oldest, None)
        return answer

    def _on_done(self, key: Key, request: asyncio.Task[Answer]) -> None:
        if self._pending.get(key) is request:
            del self._pending[key]
            if not request.cancelled() and request.exception() is None:
                self._fresh_until[key] = asyncio.get_running_loop().time() + self._keep_s
        elif not request.cancelled():
            request.exception()  # mark the exception as retrieved, because there may be no caller left

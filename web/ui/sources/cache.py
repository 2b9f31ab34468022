"""Responses shared by all browsers: concurrent requests are merged, and equal responses are parsed once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from web.ui.sources.api import ApiResponse

Key = tuple[object, ...]

_MAX_RESPONSES: Final = 16
_MAX_BYTES: Final = 64 * 1024 * 1024


class ResponseCache:
    """Cache of responses by request. Not thread-safe; used only on the event loop.

    Identical concurrent requests share one response. If a response has the same bytes as the previous response, the
    previous response is returned, so that its parsed values are reused. Responses are cached for `keep_s` seconds or
    until `invalidate`.
    """

    def __init__(self, *, keep_s: float = 0.0) -> None:
        self._keep_s = keep_s
        self._responses: OrderedDict[Key, ApiResponse] = OrderedDict()
        self._fresh_until: dict[Key, float] = {}
        self._pending_requests: dict[Key, asyncio.Task[ApiResponse]] = {}

    async def get(self, key: Key, ask: Callable[[], Awaitable[ApiResponse]]) -> ApiResponse:
        """Return the response for `key`: the cached one, that of a pending request, or a new one from `ask`.

        Raises the errors of `ask`.
        """
        now_s = asyncio.get_running_loop().time()
        if now_s < self._fresh_until.get(key, 0.0) and key in self._responses:
            return self._responses[key]
        request = self._pending_requests.get(key)
        if request is None:
            request = asyncio.create_task(self._request(key, ask))
            self._pending_requests[key] = request
            request.add_done_callback(lambda future: self._on_done(key, future))
        return await asyncio.shield(request)  # cancelling one caller must not cancel the others' request

    def invalidate(self) -> None:
        """Invalidate all responses after a change."""
        self._fresh_until.clear()
        self._pending_requests.clear()

    def clear(self) -> None:
        """Drop all responses, because no browser needs them."""
        self.invalidate()
        self._responses.clear()

    async def _request(self, key: Key, ask: Callable[[], Awaitable[ApiResponse]]) -> ApiResponse:
        response = await ask()
        if self._pending_requests.get(key) is not asyncio.current_task():
            return response  # invalidated: something changed since the request was sent
        previous_response = self._responses.pop(key, None)
        if previous_response is not None and previous_response.body == response.body:
            response = previous_response
        self._responses[key] = response
        while len(self._responses) > 1 and (
            len(self._responses) > _MAX_RESPONSES
            or sum(len(cached_response.body) for cached_response in self._responses.values()) > _MAX_BYTES
        ):
            oldest, _ = self._responses.popitem(last=False)
            self._fresh_until.pop(oldest, None)
        return response

    def _on_done(self, key: Key, request: asyncio.Task[ApiResponse]) -> None:
        if self._pending_requests.get(key) is request:
            del self._pending_requests[key]
            if not request.cancelled() and request.exception() is None:
                self._fresh_until[key] = asyncio.get_running_loop().time() + self._keep_s
        elif not request.cancelled():
            request.exception()  # mark the exception as retrieved, because all callers may have been cancelled

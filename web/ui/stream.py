"""`GET /stream`: server-sent events for one browser, with the names of what changed; pages then ask for their parts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.responses import Response, StreamingResponse

from web.ui.routing import Dashboard, caller_of
from web.ui.sources.api import Change, Word

if TYPE_CHECKING:
    from starlette.requests import Request

PING_S: Final = 15.0
_MOST: Final = 200
"""Maximum number of open streams."""


class Streams:
    """The open streams of a dashboard."""

    def __init__(self, dashboard: Dashboard, *, ping_s: float = PING_S) -> None:
        self._dashboard = dashboard
        self._ping_s = ping_s
        self._open = 0

    async def answer(self, request: Request) -> Response:
        """Answer `GET /stream`."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if self._open >= _MOST:
            return Response("Too many open pages", HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "10"})
        changes = self._dashboard.source.changes(caller_of(request))
        return StreamingResponse(self._events(changes), media_type="text/event-stream")

    async def _events(self, changes: AsyncGenerator[Change]) -> AsyncGenerator[bytes]:
        """Return the events, and a comment when there was none for a while, which finds closed connections."""
        self._open += 1
        following = asyncio.ensure_future(anext(changes))
        try:
            yield b"retry: 1000\n\n"
            while True:
                done, _ = await asyncio.wait({following}, timeout=self._ping_s)
                if not done:
                    yield b": ping\n\n"
                    continue
                try:
                    change = following.result()
                except StopAsyncIteration:
                    return
                yield event_of(change)
                following = asyncio.ensure_future(anext(changes))
        finally:
            self._open -= 1
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await following
            await changes.aclose()


def event_of(change: Change) -> bytes:
    """Return the event for a browser. Pure."""
    data: dict[str, object] = {}
    match change.word:
        case Word.HELLO:
            data = {"boot": change.boot}
        case Word.CHANGED:
            data = {
                "kinds": sorted(change.kinds),
                "names": None if change.names is None else list(change.names),
            }
        case Word.AWAY:
            data = {"reason": change.reason}
        case Word.BYE:
            pass
    return f"event: {change.word.value}\ndata: {json.dumps(data)}\n\n".encode("ascii")

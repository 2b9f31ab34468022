"""`GET /stream`: server-sent events for one browser, with the names of what changed; pages then ask for their parts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.responses import Response, StreamingResponse
from typing_extensions import override

from web.aborting import abort_of
from web.ui.routing import Dashboard, caller_of
from web.ui.sources.api import Change, Word

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Message, Send

log = logging.getLogger(__name__)

PING_S: Final = 15.0
PATIENCE_S: Final = 5.0
"""How long a browser may take nothing before its connection is aborted, which the end of the worker waits for."""
_MOST: Final = 200
"""Maximum number of open streams."""


class Streams:
    """The open streams of a dashboard."""

    def __init__(
        self, dashboard: Dashboard, *, ping_s: float = PING_S, patience_s: float = PATIENCE_S
    ) -> None:
        self._dashboard = dashboard
        self._ping_s, self._patience_s = ping_s, patience_s
        self._open = 0

    async def answer(self, request: Request) -> Response:
        """Answer `GET /stream`."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if self._open >= _MOST:
            return Response("Too many open pages", HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "10"})
        changes = self._dashboard.source.changes(caller_of(request))
        return _EventStream(self._events(changes), abort_of(request.scope), self._patience_s)

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


class _Stuck(Exception):
    """The browser takes nothing."""


class _EventStream(StreamingResponse):
    """The answer: ends if the browser takes nothing for too long."""

    def __init__(self, events: AsyncGenerator[bytes], abort: Callable[[], object], patience_s: float) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._sent_events, self._abort, self._patience_s = events, abort, patience_s

    @override
    async def stream_response(self, send: Send) -> None:
        async def send_soon(message: Message) -> None:
            try:
                async with asyncio.timeout(self._patience_s):
                    await send(message)
            except TimeoutError as error:
                self._abort()
                await asyncio.sleep(0)  # the server learns of it before the answer ends
                raise _Stuck from error

        try:
            await super().stream_response(send_soon)
        except _Stuck:
            log.info("Ended the stream of a browser that took nothing for %g s", self._patience_s)
        finally:
            await self._sent_events.aclose()


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

"""`GET /stream`: server-sent events that notify a browser of changes; pages then request the changed parts."""

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

from web.aborting import abort_function
from web.ui.routing import Dashboard, read_caller
from web.ui.sources.api import Change, ChangeEvent

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Message, Send

log = logging.getLogger(__name__)

PING_INTERVAL_S: Final = 15.0
SEND_TIMEOUT_S: Final = 5.0
"""Timeout after which the connection of a stalled browser is aborted. A stopping worker may wait this long."""
_MAX_STREAMS: Final = 200
"""Maximum number of open streams."""


class Streams:
    """Open streams of a dashboard."""

    def __init__(
        self, dashboard: Dashboard, *, ping_s: float = PING_INTERVAL_S, send_timeout_s: float = SEND_TIMEOUT_S
    ) -> None:
        self._dashboard = dashboard
        self._ping_s, self._send_timeout_s = ping_s, send_timeout_s
        self._open_count = 0

    async def respond(self, request: Request) -> Response:
        """Handle `GET /stream`."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if self._open_count >= _MAX_STREAMS:
            return Response("Too many open pages", HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "10"})
        changes = self._dashboard.source.changes(read_caller(request))
        return _EventStream(self._events(changes), abort_function(request.scope), self._send_timeout_s)

    async def _events(self, changes: AsyncGenerator[Change]) -> AsyncGenerator[bytes]:
        """Yield the events. Pings during idle periods detect closed connections."""
        self._open_count += 1
        next_change = asyncio.ensure_future(anext(changes))
        try:
            yield b"retry: 1000\n\n"
            while True:
                done, _ = await asyncio.wait({next_change}, timeout=self._ping_s)
                if not done:
                    yield b": ping\n\n"
                    continue
                try:
                    change = next_change.result()
                except StopAsyncIteration:
                    return
                yield encode_event(change)
                next_change = asyncio.ensure_future(anext(changes))
        finally:
            self._open_count -= 1
            next_change.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await next_change
            await changes.aclose()


class _ClientStalled(Exception):
    """The browser has stopped reading."""


class _EventStream(StreamingResponse):
    """Response that ends if the browser stops reading."""

    def __init__(
        self, events: AsyncGenerator[bytes], abort: Callable[[], object], send_timeout_s: float
    ) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._sent_events, self._abort, self._send_timeout_s = events, abort, send_timeout_s

    @override
    async def stream_response(self, send: Send) -> None:
        async def send_with_timeout(message: Message) -> None:
            try:
                async with asyncio.timeout(self._send_timeout_s):
                    await send(message)
            except TimeoutError as error:
                self._abort()
                await asyncio.sleep(0)  # lets the server detect the abort before the response ends
                raise _ClientStalled from error

        try:
            await super().stream_response(send_with_timeout)
        except _ClientStalled:
            log.info("Closing event stream: client read nothing for %g s", self._send_timeout_s)
        finally:
            await self._sent_events.aclose()


def encode_event(change: Change) -> bytes:
    """Encode a change as a server-sent event. Pure."""
    data: dict[str, object] = {}
    match change.event:
        case ChangeEvent.CONNECTED:
            data = {"boot": change.boot}
        case ChangeEvent.CHANGED:
            data = {
                "kinds": sorted(change.kinds),
                "names": None if change.names is None else list(change.names),
            }
        case ChangeEvent.UNAVAILABLE:
            data = {"reason": change.reason}
        case ChangeEvent.CLOSING:
            pass
    return f"event: {change.event.value}\ndata: {json.dumps(data)}\n\n".encode("ascii")

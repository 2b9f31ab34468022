"""The worker's own REST API, called within the process without a socket.

Like any other request, a request of the dashboard passes through authentication, admission and forwarding to the
leader. The request has the browser's `Authorization`, address and scheme, so that a page has the permissions of its
user.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from typing_extensions import override

from kraal.core.ids import Json
from kraal.core.rest_requests import encode_segment
from web.ui.features import Features, detect_features
from web.ui.sources.api import ApiResponse, Caller, Change, Query, Source, SourceUnavailable
from web.ui.sources.events import parse_changes
from web.ui.sources.messages import encode_body, parse_refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope

_TIMEOUT_S: Final = 100.0
"""Timeout of a request; longer than the request timeout of a worker (90 s)."""
_SUCCESS_STATUSES: Final = range(200, 300)


class InProcessSource(Source):
    """The REST applications of this process. `bind` sets them later, because the applications contain the dashboard."""

    def __init__(self) -> None:
        self._main: ASGIApp | None = None
        self._admin: ASGIApp | None = None
        self._features: Features | None = None

    def bind(self, main: ASGIApp, admin: ASGIApp | None = None) -> None:
        """Set the application, and a separate one for paths under `/admin`, if any."""
        self._main, self._admin = main, admin

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> ApiResponse:
        call = _Call(
            _build_scope(method, segments, query, caller, has_body=body is not None), encode_body(body)
        )
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await call.run(self._app(segments))
        except TimeoutError:
            raise SourceUnavailable(f"The worker did not respond within {_TIMEOUT_S:g} s") from None
        response_body = b"".join(call.chunks)
        if call.status not in _SUCCESS_STATUSES:
            raise parse_refusal(call.status, response_body, call.retry_after)
        return ApiResponse(call.status, response_body)

    @override
    async def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        call = _Call(_build_scope("GET", ("changes",), (), caller, accept=b"text/event-stream"), b"")
        call_task = asyncio.create_task(call.run(self._app(("changes",))))
        try:
            async for change in parse_changes(call.stream(call_task)):
                yield change
        finally:
            call.disconnected.set()
            call_task.cancel()

    @override
    async def features(self, caller: Caller) -> Features:
        if self._features is None:
            root = await self.ask("GET", caller=caller)
            document = await self.ask("GET", "openapi.json", caller=caller)
            self._features = detect_features(root.value, document.value, admin=self._admin is not None)
        return self._features

    @override
    async def close(self) -> None:
        """No-op: the applications close themselves."""

    def _app(self, segments: tuple[str, ...]) -> ASGIApp:
        app = self._admin if segments[:1] == ("admin",) and self._admin is not None else self._main
        if app is None:
            raise SourceUnavailable("The worker's REST API is not ready")
        return app


def _build_scope(
    method: str,
    segments: tuple[str, ...],
    query: Query,
    caller: Caller,
    *,
    has_body: bool = False,
    accept: bytes = b"application/json",
) -> dict[str, Any]:
    path = "/" + "/".join(map(encode_segment, segments))
    headers = [(b"accept", accept), (b"host", b"localhost")]
    if has_body:
        headers.append((b"content-type", b"application/json"))
    if caller.authorization is not None:
        headers.append((b"authorization", caller.authorization.encode("latin-1")))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": caller.scheme,
        "path": path,
        "raw_path": path.encode("ascii"),
        "root_path": "",
        "query_string": urlencode(query).encode("ascii"),
        "headers": headers,
        "client": (caller.address, 0),
        "server": None,
        "state": {},
    }


class _Call:
    """One request to an ASGI application."""

    def __init__(self, scope: Scope, body: bytes) -> None:
        self.status = 0
        self.retry_after: str | None = None
        self.chunks: list[bytes] = []
        self.disconnected = asyncio.Event()
        """Set when the response is no longer being read."""
        self._scope = scope
        self._body: bytes | None = body
        self._has_data = asyncio.Event()

    async def run(self, app: ASGIApp) -> None:
        """Run the request to completion."""
        try:
            await app(self._scope, self._receive, self._send)
        finally:
            self._has_data.set()

    async def stream(self, call_task: asyncio.Task[None]) -> AsyncGenerator[bytes]:
        """Yield the chunks of the body as they arrive. Raises RequestRejected for an error status."""
        while True:
            await self._has_data.wait()
            self._has_data.clear()
            if self.status in _SUCCESS_STATUSES:
                chunks, self.chunks = self.chunks, []
                for chunk in chunks:
                    yield chunk
            if call_task.done():
                if self.status not in _SUCCESS_STATUSES:
                    raise parse_refusal(self.status, b"".join(self.chunks), self.retry_after)
                return

    async def _receive(self) -> Message:
        if self._body is None:
            await self.disconnected.wait()
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            values = [value for name, value in message.get("headers", ()) if name.lower() == b"retry-after"]
            self.retry_after = values[0].decode("latin-1") if values else None
        elif message["type"] == "http.response.body":
            if body := message.get("body", b""):
                self.chunks.append(bytes(body))
            self._has_data.set()

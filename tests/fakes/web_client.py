"""Starlette's test client without a thread: the application runs in an event loop of the calling thread.

Starlette's own client switches between threads eight times per request.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import httpx2
from starlette.testclient import TestClient
from typing_extensions import override


class WebClient(TestClient):
    """A test client that runs a thread and the application's lifespan only if it is used as a context manager."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._transport = _SameThreadTransport(self, self._transport)


class _SameThreadTransport(httpx2.BaseTransport):
    """A transport that runs the application until the response is complete. No event loop runs between requests."""

    def __init__(self, client: WebClient, with_lifespan: httpx2.BaseTransport) -> None:
        self._client, self._with_lifespan = client, with_lifespan
        self._app = httpx2.ASGITransport(app=client.app, client=("testclient", 50000))

    @override
    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._client.portal is not None:
            return self._with_lifespan.handle_request(request)
        return _loop().run_until_complete(self._send(request))

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        if not isinstance(request.stream, httpx2.AsyncByteStream):
            request.stream = _AsyncStream(request.stream)
        response = await self._app.handle_async_request(request)
        body = b"".join([part async for part in response.aiter_raw()])
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=httpx2.ByteStream(body), request=request
        )


class _AsyncStream(httpx2.AsyncByteStream):
    """A request body with lazily produced parts."""

    def __init__(self, stream: httpx2.SyncByteStream) -> None:
        self._stream = stream

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._stream:
            yield part


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop, which is closed at the exit of the process."""
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop

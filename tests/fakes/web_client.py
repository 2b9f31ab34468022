"""Starlette's test client without a thread: the application runs in the event loop of the thread that sends.

Starlette's own client hands each request over to a thread and back eight times.
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
    """Starlette's client; as a context manager it has a thread and an event loop, with the application's lifespan."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._transport = _SameThread(self, self._transport)


class _SameThread(httpx2.BaseTransport):
    """Runs the application up to the end of its answer; the event loop stands still between requests."""

    def __init__(self, client: WebClient, with_lifespan: httpx2.BaseTransport) -> None:
        self._client, self._with_lifespan = client, with_lifespan
        self._app = httpx2.ASGITransport(app=client.app, client=("testclient", 50000))

    @override
    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._client.portal is not None:
            return self._with_lifespan.handle_request(request)
        return _loop().run_until_complete(self._answer(request))

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if not isinstance(request.stream, httpx2.AsyncByteStream):
            request.stream = _AsyncStream(request.stream)
        answer = await self._app.handle_async_request(request)
        body = b"".join([part async for part in answer.aiter_raw()])
        return httpx2.Response(
            answer.status_code, headers=answer.headers, stream=httpx2.ByteStream(body), request=request
        )


class _AsyncStream(httpx2.AsyncByteStream):
    """The body of a request whose parts an iterator makes when they are read."""

    def __init__(self, stream: httpx2.SyncByteStream) -> None:
        self._stream = stream

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._stream:
            yield part


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of the process, which ends with it."""
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop

"""Sources for a single browser request: one deduplicates GET requests, the other records them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from typing_extensions import override

from kraal.core.ids import Json
from web.ui.features import Features
from web.ui.sources.api import ApiResponse, Caller, Change, Query, Source
from web.ui.views.copy_as import Request


class _DelegatingSource(Source):
    """Source that delegates requests to another source; `close` does not close the other source."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> ApiResponse:
        return await self._source.ask(method, *segments, query=query, body=body, caller=caller)

    @override
    def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        return self._source.changes(caller)

    @override
    async def features(self, caller: Caller) -> Features:
        return await self._source.features(caller)

    @override
    async def close(self) -> None:
        """No-op: the wrapped source stays open."""


class DeduplicatingSource(_DelegatingSource):
    """Source that sends each GET request only once, even if it is rejected. Not thread-safe."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._responses: dict[tuple[tuple[str, ...], Query], asyncio.Task[ApiResponse]] = {}

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> ApiResponse:
        if method != "GET":
            return await super().ask(method, *segments, query=query, body=body, caller=caller)
        key = (segments, tuple(query))
        if key not in self._responses:
            call = self._source.ask(method, *segments, query=query, caller=caller)
            self._responses[key] = asyncio.ensure_future(call)
        return await asyncio.shield(self._responses[key])


class RecordingSource(_DelegatingSource):
    """Source that records the GET requests of a page, so that the user can copy them."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._get_requests: dict[Request, None] = {}

    @property
    def get_requests(self) -> list[Request]:
        """The GET requests in order, without duplicates."""
        return list(self._get_requests)

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> ApiResponse:
        if method == "GET":
            self._get_requests[Request(method=method, segments=segments, query=tuple(query))] = None
        return await super().ask(method, *segments, query=query, body=body, caller=caller)

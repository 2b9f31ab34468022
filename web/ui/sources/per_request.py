"""Sources for one request of a browser: one caches answers, one records requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from typing_extensions import override

from kraal.core.ids import Json
from web.ui.features import Features
from web.ui.sources.api import Answer, Caller, Change, Query, Source
from web.ui.views.copy_as import Request


class _Forwarding(Source):
    """Forwards requests to a source, which stays open for other requests."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> Answer:
        return await self._source.ask(method, *segments, query=query, body=body, caller=caller)

    @override
    def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        return self._source.changes(caller)

    @override
    async def features(self, caller: Caller) -> Features:
        return await self._source.features(caller)

    @override
    async def close(self) -> None:
        """No-op."""


class Once(_Forwarding):
    """Sends each GET request once, even if it is refused. On one event loop."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._answers: dict[tuple[tuple[str, ...], Query], asyncio.Task[Answer]] = {}

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> Answer:
        if method != "GET":
            return await super().ask(method, *segments, query=query, body=body, caller=caller)
        key = (segments, tuple(query))
        if key not in self._answers:
            call = self._source.ask(method, *segments, query=query, caller=caller)
            self._answers[key] = asyncio.ensure_future(call)
        return await asyncio.shield(self._answers[key])


class Recording(_Forwarding):
    """Records the GET requests of a page, so that its user can copy them."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._read: dict[Request, None] = {}

    @property
    def read(self) -> list[Request]:
        """The GET requests in their order, each once."""
        return list(self._read)

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> Answer:
        if method == "GET":
            self._read[Request(method=method, segments=segments, query=tuple(query))] = None
        return await super().ask(method, *segments, query=query, body=body, caller=caller)

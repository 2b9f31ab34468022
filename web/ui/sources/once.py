"""A source that caches answers for one page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from typing_extensions import override

from kraal.core.ids import Json
from web.ui.features import Features
from web.ui.sources.api import Answer, Caller, Change, Query, Source


class Once(Source):
    """Sends each GET request once, even if it is refused. For one request of a browser, on one event loop."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._answers: dict[tuple[tuple[str, ...], Query], asyncio.Task[Answer]] = {}

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> Answer:
        if method != "GET":
            return await self._source.ask(method, *segments, query=query, body=body, caller=caller)
        key = (segments, tuple(query))
        if key not in self._answers:
            call = self._source.ask(method, *segments, query=query, caller=caller)
            self._answers[key] = asyncio.ensure_future(call)
        return await asyncio.shield(self._answers[key])

    @override
    def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        return self._source.changes(caller)

    @override
    async def features(self, caller: Caller) -> Features:
        return await self._source.features(caller)

    @override
    async def close(self) -> None:
        """No-op: the source stays open for other requests."""

"""Records the requests of a page, so that its user can copy them."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from typing_extensions import override

from kraal.core.ids import Json
from web.ui.features import Features
from web.ui.sources.api import Answer, Caller, Change, Query, Source
from web.ui.views.copy_as import Request


class Recording(Source):
    """Forwards requests to a source, for one request of a browser."""

    def __init__(self, source: Source) -> None:
        self._source = source
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
        return await self._source.ask(method, *segments, query=query, body=body, caller=caller)

    @override
    def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        return self._source.changes(caller)

    @override
    async def features(self, caller: Caller) -> Features:
        return await self._source.features(caller)

    @override
    async def close(self) -> None:
        """No-op: the source stays open for other requests."""

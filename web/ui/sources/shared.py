"""Source for many browsers: shared responses and one stream of changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from typing_extensions import override

from kraal.core.ids import Json
from web.ui.features import Features
from web.ui.sources.api import ApiResponse, Caller, Change, Query, Source
from web.ui.sources.cache import ResponseCache
from web.ui.sources.watching import ChangeWatcher

_SHARED_PATHS: Final = frozenset(
    {("connectors",), ("admin", "assignments"), ("connector-plugins",), ("events",)}
)
"""Paths with large responses that are the same for all browsers."""


class SharedSource(Source):
    """Source shared by all browsers. Caches responses to `_SHARED_PATHS` for `keep_s` or until the next change."""

    def __init__(self, source: Source, *, keep_s: float = 0.0) -> None:
        self._source = source
        self._cache = ResponseCache(keep_s=keep_s)
        self._watcher = ChangeWatcher(source, self._on_change, on_idle=self._cache.clear)

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> ApiResponse:
        async def send() -> ApiResponse:
            return await self._source.ask(method, *segments, query=query, body=body, caller=caller)

        if method == "GET" and segments in _SHARED_PATHS:
            return await self._cache.get((segments, tuple(query), caller.authorization), send)
        try:
            return await send()
        finally:
            if method not in ("GET", "HEAD"):
                self._cache.invalidate()

    @override
    def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        return self._watcher.listen(caller)

    @override
    async def features(self, caller: Caller) -> Features:
        return await self._source.features(caller)

    @property
    def listener_count(self) -> int:
        """Number of listening browsers."""
        return self._watcher.listener_count

    async def close_streams(self) -> None:
        """Close the streams of all browsers; new streams are closed immediately."""
        await self._watcher.close()

    @override
    async def close(self) -> None:
        await self._watcher.close()
        await self._source.close()

    def _on_change(self, _change: Change) -> None:
        self._cache.invalidate()

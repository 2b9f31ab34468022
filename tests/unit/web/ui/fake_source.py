"""Dashboards of in-memory clusters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from web.ui.app import DashboardApp, standalone
from web.ui.features import Features
from web.ui.options import DashboardOptions
from web.ui.pages import PAGES
from web.ui.sources.api import ApiResponse, Caller, Change, ChangeEvent, Query, RequestRejected, Source

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from kraal.core.ids import Json
    from web.ui.routing import PageRoute

CALLER = Caller()
_NO_FEATURES = Features()


class FakeSource(Source):
    """Source whose responses are set by the test, by path or by path and query; exceptions are raised."""

    def __init__(
        self, answers: Mapping[str, Any] | None = None, features: Features | Exception = _NO_FEATURES
    ) -> None:
        self.answers: dict[str, Any] = dict(answers or {})
        self.reported_features = features
        self.requests: list[tuple[str, str]] = []
        self.sent: list[object] = []
        self.callers: list[Caller] = []
        self.feed: asyncio.Queue[Change | Exception] = asyncio.Queue()
        self.streams = 0
        self.closed = False

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> ApiResponse:
        path = "/" + "/".join(segments)
        expand = "&".join(f"{key}={value}" for key, value in query)
        full = f"{path}?{expand}" if expand else path
        self.requests.append((method, full))
        self.sent.append(body)
        self.callers.append(caller)
        await asyncio.sleep(0)
        answer = self.answers.get(full, self.answers.get(path))
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            raise RequestRejected(404, "HTTP 404 Not Found")
        return ApiResponse(200, json.dumps(answer).encode())

    @override
    async def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        self.streams += 1
        yield Change(ChangeEvent.CONNECTED)
        while True:
            change = await self.feed.get()
            if isinstance(change, Exception):
                raise change
            yield change

    @override
    async def features(self, caller: Caller) -> Features:
        if isinstance(self.reported_features, Exception):
            raise self.reported_features
        return self.reported_features

    @override
    async def close(self) -> None:
        self.closed = True


def dashboard(
    source: Source | None = None,
    options: DashboardOptions | None = None,
    *,
    pages: Sequence[PageRoute] = PAGES,
) -> Starlette:
    """Return a standalone dashboard, as served by `kraal ui`."""
    chosen = options or DashboardOptions(worker="worker:8083")
    return standalone(DashboardApp(source or FakeSource(), chosen, pages=pages))

"""Fake source for a dashboard; tests set its responses and changes."""

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
    """Source with `responses` by path.

    A key may include the query; otherwise, it applies to all queries. A response that is an exception is raised.
    """

    def __init__(
        self, responses: Mapping[str, Any] | None = None, features: Features | Exception = _NO_FEATURES
    ) -> None:
        self.responses: dict[str, Any] = dict(responses or {})
        self.reported_features = features
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[object] = []
        self.callers: list[Caller] = []
        self.feed: asyncio.Queue[Change | Exception] = asyncio.Queue()
        self.stream_count = 0
        self.is_closed = False

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> ApiResponse:
        path = "/" + "/".join(segments)
        query_string = "&".join(f"{key}={value}" for key, value in query)
        path_with_query = f"{path}?{query_string}" if query_string else path
        self.requests.append((method, path_with_query))
        self.bodies.append(body)
        self.callers.append(caller)
        await asyncio.sleep(0)
        response = self.responses.get(path_with_query, self.responses.get(path))
        if isinstance(response, Exception):
            raise response
        if response is None:
            raise RequestRejected(404, "HTTP 404 Not Found")
        return ApiResponse(200, json.dumps(response).encode())

    @override
    async def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        self.stream_count += 1
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
        self.is_closed = True


def dashboard(
    source: Source | None = None,
    options: DashboardOptions | None = None,
    *,
    pages: Sequence[PageRoute] = PAGES,
) -> Starlette:
    """Return a standalone dashboard, as served by `kraal ui`."""
    dashboard_options = options or DashboardOptions(worker="worker:8083")
    return standalone(DashboardApp(source or FakeSource(), dashboard_options, pages=pages))

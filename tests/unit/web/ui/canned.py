"""Fake source with canned responses, and a client of a dashboard that shows them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from kraal.core.ids import Json
from tests.fakes.web_client import WebClient
from web.ui.app import DashboardApp, standalone
from web.ui.features import Features
from web.ui.options import DashboardOptions
from web.ui.sources.api import ApiResponse, Caller, Change, ChangeEvent, Query, RequestRejected, Source
from web.ui.sources.messages import encode_body

ALL_FEATURES = Features(
    kraal=True, version="4.3.0", assignments=True, loggers=True, supervision=True, versions=True, health=True,
    changes=True, progress=True, series=True, history=True, configs=True, logs=True, dead_letters=True, events=True,
    proofs=True, ledger=True, tables=True,
)  # fmt: skip
JAVA_FEATURES = Features(version="4.3.0", loggers=True)


@dataclass
class CannedSource(Source):
    """Source with canned responses by method and path.

    The source raises a response that is an exception. A request that has no response is rejected with status 404.
    """

    responses: dict[str, Any]
    reported_features: Features = ALL_FEATURES
    requests: list[tuple[str, str, dict[str, str], Json]] = field(default_factory=list)
    """Method, path, query and body of each request."""

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> ApiResponse:
        path = "/" + "/".join(segments)
        self.requests.append((method, path, dict(query), body))
        response = self.responses.get(path if method == "GET" else f"{method} {path}")
        if isinstance(response, Exception):
            raise response
        if response is None:
            raise RequestRejected(404, "HTTP 404 Not Found")
        return ApiResponse(200, encode_body(response))

    @override
    async def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        yield Change(ChangeEvent.CLOSING)

    @override
    async def features(self, caller: Caller) -> Features:
        return self.reported_features

    @override
    async def close(self) -> None:
        pass

    def latest_query(self, path: str) -> dict[str, str]:
        """Return the query of the latest request for a path."""
        return next(query for _, request_path, query, _ in reversed(self.requests) if request_path == path)


def browser(source: Source, **options: Any) -> WebClient:
    """Return a client of a dashboard with this source; the client does not follow redirects."""
    app = DashboardApp(source, DashboardOptions(worker="worker:8083", **options))
    return WebClient(standalone(app), follow_redirects=False)

"""The dashboard as an ASGI application, mounted at `/ui` of a worker, or served alone by `kraal ui`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Route

from kraal.core.errors import KraalError
from kraal.core.rest_requests import routed_path
from web.ui.mount import DashboardMount
from web.ui.options import PREFIX, DashboardOptions
from web.ui.pages import PAGES
from web.ui.rendering import Rendering
from web.ui.routing import Dashboard, Page, PageEndpoint, error_page, read_caller
from web.ui.safety import SafetyMiddleware
from web.ui.sources.api import Source
from web.ui.sources.shared import Shared
from web.ui.static import StaticFiles
from web.ui.stream import Streams
from web.ui.views.commands import BULK, LABELS, available_actions
from web.ui.views.navigation import KEYS, NAVIGATION

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger(__name__)

_MIN_GZIP_BYTES: Final = 1_000
_GZIP_LEVEL: Final = 5
_END_TIMEOUT_S: Final = 5.0


class DashboardApp:
    """The application. `close` ends the streams of open pages."""

    def __init__(
        self,
        source: Source,
        options: DashboardOptions,
        *,
        keep_s: float = 0.0,
        pages: Sequence[Page] = PAGES,
    ) -> None:
        """Answers that browsers share are valid for `keep_s` seconds unless something changes."""
        self.source = Shared(source, keep_s=keep_s)
        static = StaticFiles()
        self._rendering = Rendering(
            static.url,
            {
                "options": options,
                "navigation": NAVIGATION,
                "available_actions": available_actions,
                "labels": LABELS,
                "bulk": BULK,
                "keys": KEYS,
            },
        )
        dashboard = Dashboard(self.source, options, self._rendering)
        streams = Streams(dashboard)

        async def on_http_exception(request: Request, error: Exception) -> Response:
            with contextlib.suppress(KraalError):  # the page has fewer links then
                request.state.features = await self.source.features(read_caller(request))
            return error_page(dashboard, request, error)

        routes: list[BaseRoute] = [
            Route("/static/{hash}/{name:path}", static.answer),
            Route("/stream", streams.answer),
            *_page_routes(dashboard, pages),
        ]
        self._app = Starlette(
            routes=routes,
            exception_handlers={HTTPException: on_http_exception},
            middleware=[
                Middleware(SafetyMiddleware, options=options),
                Middleware(GZipMiddleware, minimum_size=_MIN_GZIP_BYTES, compresslevel=_GZIP_LEVEL),
            ],
        )
        self._app.router.redirect_slashes = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._preparing: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; its path is undecoded and without a trailing slash."""
        self._loop = asyncio.get_running_loop()
        await self._app(scope, receive, send)

    def prepare(self) -> None:
        """Start to compile the templates in a background task, which `close` cancels."""
        self._preparing = asyncio.create_task(self._compile())

    async def _compile(self) -> None:
        try:
            await self._rendering.compile_all()
        except Exception:
            log.exception("Failed to compile the dashboard's templates in advance; pages compile their own")

    def end_streams(self) -> None:
        """End the streams of all browsers, so that a server can stop without waiting for them. Any thread."""
        if self._loop is not None:
            future = asyncio.run_coroutine_threadsafe(self.source.end_streams(), self._loop)
            with contextlib.suppress(TimeoutError):  # the server then waits for them
                future.result(_END_TIMEOUT_S)

    async def close(self) -> None:
        """End all streams and close the source."""
        if self._preparing is not None:
            self._preparing.cancel()
        await self.source.close()


def standalone(app: DashboardApp) -> Starlette:
    """Return an application that serves only the dashboard."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        app.prepare()
        try:
            yield
        finally:
            await app.close()

    async def to_dashboard(_request: Request) -> Response:
        return RedirectResponse(f"{PREFIX}/")

    app_alone = Starlette(
        lifespan=lifespan,
        routes=[Route("/", to_dashboard), DashboardMount(app)],
        middleware=[Middleware(_RawPathMiddleware)],
    )
    app_alone.router.redirect_slashes = False
    return app_alone


class _RawPathMiddleware:
    """Makes the route table match undecoded paths."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
            scope = {**scope, "raw_path": raw, "path": routed_path(raw)}
        await self._app(scope, receive, send)


def _page_routes(dashboard: Dashboard, pages: Iterable[Page]) -> list[Route]:
    """Return one route per path, in the order in which the paths appear."""
    by_path: dict[str, dict[str, Page]] = {}
    for each in pages:
        of_path = by_path.setdefault(each.path, {})
        if each.method in of_path:
            raise ValueError(f"two pages for {each.method} {each.path}")
        of_path[each.method] = each
    return [Route(path, PageEndpoint(dashboard, of_path)) for path, of_path in by_path.items()]

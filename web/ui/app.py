"""The dashboard as an ASGI application, mounted at `/ui` of a worker or served standalone by `kraal ui`."""

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
from web.ui.routing import Dashboard, PageEndpoint, PageRoute, error_page, read_caller
from web.ui.safety import SecurityMiddleware
from web.ui.sources.api import Source
from web.ui.sources.shared import SharedSource
from web.ui.static import StaticFiles
from web.ui.stream import Streams
from web.ui.views.commands import BULK_ACTIONS, LABELS, available_actions
from web.ui.views.navigation import NAVIGATION, SHORTCUTS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger(__name__)

_MIN_GZIP_BYTES: Final = 1_000
_GZIP_LEVEL: Final = 5
_CLOSE_TIMEOUT_S: Final = 5.0


class DashboardApp:
    """ASGI application of the dashboard. `close` also closes the event streams of open pages."""

    def __init__(
        self,
        source: Source,
        options: DashboardOptions,
        *,
        keep_s: float = 0.0,
        pages: Sequence[PageRoute] = PAGES,
    ) -> None:
        """Create the application. Shared responses are cached for `keep_s` seconds or until the next change."""
        self.source = SharedSource(source, keep_s=keep_s)
        static = StaticFiles()
        self._rendering = Rendering(
            static.url,
            {
                "options": options,
                "navigation": NAVIGATION,
                "available_actions": available_actions,
                "labels": LABELS,
                "bulk": BULK_ACTIONS,
                "shortcuts": SHORTCUTS,
            },
        )
        dashboard = Dashboard(self.source, options, self._rendering)
        streams = Streams(dashboard)

        async def on_http_exception(request: Request, error: Exception) -> Response:
            with contextlib.suppress(KraalError):  # the page then has fewer links
                request.state.features = await self.source.features(read_caller(request))
            return error_page(dashboard, request, error)

        routes: list[BaseRoute] = [
            Route("/static/{hash}/{name:path}", static.respond),
            Route("/stream", streams.respond),
            *_page_routes(dashboard, pages),
        ]
        self._app = Starlette(
            routes=routes,
            exception_handlers={HTTPException: on_http_exception},
            middleware=[
                Middleware(SecurityMiddleware, options=options),
                Middleware(GZipMiddleware, minimum_size=_MIN_GZIP_BYTES, compresslevel=_GZIP_LEVEL),
            ],
        )
        self._app.router.redirect_slashes = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._compile_task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; its path is undecoded and without a trailing slash."""
        self._loop = asyncio.get_running_loop()
        await self._app(scope, receive, send)

    def prepare(self) -> None:
        """Start compiling the templates in a background task, which `close` cancels."""
        self._compile_task = asyncio.create_task(self._compile())

    async def _compile(self) -> None:
        try:
            await self._rendering.compile_all()
        except Exception:
            log.exception("Failed to precompile the dashboard's templates; they are compiled on first use")

    def close_streams(self) -> None:
        """Close the streams of all browsers; a stopping server would otherwise wait for them. Thread-safe."""
        if self._loop is not None:
            future = asyncio.run_coroutine_threadsafe(self.source.close_streams(), self._loop)
            with contextlib.suppress(TimeoutError):  # the server then waits for the streams
                future.result(_CLOSE_TIMEOUT_S)

    async def close(self) -> None:
        """Close all streams and the source."""
        if self._compile_task is not None:
            self._compile_task.cancel()
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

    async def redirect_to_dashboard(_request: Request) -> Response:
        return RedirectResponse(f"{PREFIX}/")

    standalone_app = Starlette(
        lifespan=lifespan,
        routes=[Route("/", redirect_to_dashboard), DashboardMount(app)],
        middleware=[Middleware(_RawPathMiddleware)],
    )
    standalone_app.router.redirect_slashes = False
    return standalone_app


class _RawPathMiddleware:
    """Middleware that makes the route table match undecoded paths."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw_path = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
            scope = {**scope, "raw_path": raw_path, "path": routed_path(raw_path)}
        await self._app(scope, receive, send)


def _page_routes(dashboard: Dashboard, pages: Iterable[PageRoute]) -> list[Route]:
    """Return one route per path, in the order in which the paths appear."""
    by_path: dict[str, dict[str, PageRoute]] = {}
    for page in pages:
        pages_by_method = by_path.setdefault(page.path, {})
        if page.method in pages_by_method:
            raise ValueError(f"duplicate page for {page.method} {page.path}")
        pages_by_method[page.method] = page
    return [
        Route(path, PageEndpoint(dashboard, pages_by_method)) for path, pages_by_method in by_path.items()
    ]

"""The dashboard of a worker, imported after the server has started.

Importing the pages and their renderer takes a tenth of a worker's startup time and is not needed by API clients.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from web.ui.app import DashboardApp
    from web.ui.options import DashboardOptions
    from web.ui.sources.api import Source


class LateDashboard:
    """The dashboard as an ASGI application, imported by `prepare` or by the first request."""

    def __init__(self, source: Source, options: DashboardOptions) -> None:
        """Create the application without importing the dashboard."""
        self._source = source
        self._options = options
        self._lock = asyncio.Lock()
        self._app: DashboardApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; its path is undecoded and without a trailing slash."""
        app = await self._import_app()
        await app(scope, receive, send)

    async def prepare(self) -> None:
        """Import the dashboard and start compiling its templates without blocking the event loop."""
        app = await self._import_app()
        app.prepare()

    async def close(self) -> None:
        """Close all streams and the source."""
        if self._app is None:
            await self._source.close()
        else:
            await self._app.close()

    async def _import_app(self) -> DashboardApp:
        async with self._lock:
            if self._app is None:
                app_class = await asyncio.to_thread(_import_class)
                self._app = app_class(self._source, self._options)
            return self._app


def _import_class() -> type[DashboardApp]:
    from web.ui.app import DashboardApp  # noqa: PLC0415 - see the module docstring

    return DashboardApp

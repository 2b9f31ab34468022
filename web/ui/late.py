"""The dashboard of a worker, which is imported when the server runs.

Importing the pages and what renders them takes a tenth of a worker's start, and no client of the API waits for them.
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
    """The dashboard as an ASGI application that is imported by `prepare`, or else by the first request."""

    def __init__(self, source: Source, options: DashboardOptions) -> None:
        """Import nothing yet."""
        self._source = source
        self._options = options
        self._lock = asyncio.Lock()
        self._app: DashboardApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; its path is undecoded and without a trailing slash."""
        app = await self._imported()
        await app(scope, receive, send)

    async def prepare(self) -> None:
        """Import the dashboard, and begin to compile its templates, while the loop handles requests."""
        app = await self._imported()
        app.prepare()

    async def close(self) -> None:
        """End all streams and close the source."""
        if self._app is None:
            await self._source.close()
        else:
            await self._app.close()

    async def _imported(self) -> DashboardApp:
        async with self._lock:
            if self._app is None:
                made = await asyncio.to_thread(_class)
                self._app = made(self._source, self._options)
            return self._app


def _class() -> type[DashboardApp]:
    from web.ui.app import DashboardApp  # noqa: PLC0415 - see the head of this module

    return DashboardApp

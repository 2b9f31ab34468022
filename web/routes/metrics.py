"""`GET /metrics` for Prometheus: the output of `kraal.metrics`, rendered in steps between other requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from kraal.metrics.text import CONTENT_TYPE
from web.resource import Resource
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request

Scrape = Callable[[], Iterator[str]]
"""Starts a scrape; each piece is rendered on demand, in a few milliseconds."""


def routes(services: Services, scrape: Scrape | None) -> list[Route]:
    """Return the route; empty without `scrape`, so that the path is unknown."""
    if scrape is None:
        return []

    under_way: asyncio.Task[bytes] | None = None

    async def metrics(services: Services, request: Request) -> Response:
        """GET /metrics: always the text format, whatever `Accept` says, as exporters do.

        Concurrent requests share one scrape, because each takes some megabytes.
        """
        del services, request
        nonlocal under_way
        if under_way is None or under_way.done():
            under_way = asyncio.create_task(_made(scrape))
        return Response(await asyncio.shield(under_way), headers={"Content-Type": CONTENT_TYPE})

    return [Route("/metrics", Resource(services, any_accept=True, GET=metrics))]


async def _made(scrape: Scrape) -> bytes:
    pieces: list[bytes] = []
    for piece in scrape():
        pieces.append(piece.encode())
        await asyncio.sleep(0)  # a scrape of thousands of tasks must not block other requests
    return b"".join(pieces)

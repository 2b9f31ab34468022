"""`GET /metrics` for Prometheus: the output of `kraal.metrics`, rendered in chunks between other requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from kraal.metrics.scrape import GATHER_S
from kraal.metrics.text import CONTENT_TYPE
from web.openapi.operation import Operation
from web.openapi.shapes import TEXT
from web.resource import Endpoint, endpoint
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request

Scrape = Callable[[], Iterator[str]]
"""Starts a scrape; each chunk is rendered on demand within a few milliseconds."""

Gather = Callable[[], Sequence[Future[Any]]]
"""Requests metrics for a scrape without blocking; returns futures to await."""


def endpoints(scrape: Scrape | None, gather: Gather | None = None) -> list[Endpoint]:
    """Return the endpoint, or none without `scrape`. `gather` is called before each scrape."""
    if scrape is None:
        return []

    pending: asyncio.Task[bytes] | None = None

    @endpoint(
        "GET",
        "/metrics",
        Operation(
            name="getMetrics",
            tag="worker",
            summary="Get the worker's metrics in the text format of Prometheus",
            responses={200: TEXT},
            media_type="text/plain",
        ),
        ignores_accept=True,
    )
    async def metrics(services: Services, request: Request) -> Response:
        """GET /metrics; always in the text format regardless of `Accept`, like other exporters.

        Concurrent requests share one scrape, because each scrape requires several megabytes of memory.
        """
        del services, request
        nonlocal pending
        if pending is None or pending.done():
            pending = asyncio.create_task(_render(scrape, gather))
        return Response(await asyncio.shield(pending), headers={"Content-Type": CONTENT_TYPE})

    return [metrics]


async def _render(scrape: Scrape, gather: Gather | None) -> bytes:
    futures = [] if gather is None else gather()
    if futures:
        await asyncio.wait([asyncio.wrap_future(future) for future in futures], timeout=GATHER_S)
    chunks: list[bytes] = []
    for chunk in scrape():
        chunks.append(chunk.encode())
        await asyncio.sleep(0)  # a scrape of thousands of tasks must not block other requests
    return b"".join(chunks)

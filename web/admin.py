"""`/` and `/health`: who this worker is, and whether it works. Source: RootResource; KIP-1017."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING

from starlette.routing import Route

from kraal.cluster.snapshot import Snapshot
from kraal.ids import Json
from web.render import json_answer, stage_sentence
from web.resource import Resource, kept
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_READS = ("GET", "HEAD")
_MOST = 100
"""So many stalled tasks are named."""


def routes(services: Services) -> list[Route]:
    """Return the route table of the worker itself. Both paths take any Content-Type, as in Java."""
    return [
        Route("/", Resource(services, any_type=_READS, GET=_root)),
        Route("/health", Resource(services, any_type=_READS, GET=_health)),
    ]


async def _root(services: Services, request: Request) -> Response:
    """GET /: answers also before anything else is known."""
    snapshot = services.published.latest
    return kept(
        services,
        snapshot,
        request,
        {
            "version": services.settings.connect_version,
            "commit": services.settings.commit,
            "kafka_cluster_id": snapshot.kafka_cluster_id,
        },
    )


async def _health(services: Services, _request: Request) -> Response:
    """GET /health: asks the herder, so that one that hangs is noticed.

    Stalled tasks, if there are any, are named beside: the worker works, and to end it would not help them.
    """
    try:
        async with asyncio.timeout(services.settings.health_timeout_s):
            await services.pulse.feel()
    except TimeoutError:
        return _unhealthy(services.published.latest)
    snapshot, oversight = services.published.latest, services.oversight
    stalled = [] if oversight is None else oversight.stalled(snapshot)
    more: dict[str, Json] = {"stalled_tasks": len(stalled), "stalled": stalled[:_MOST]} if stalled else {}
    text = "Worker has completed startup and is ready to handle requests."
    return _worker_status(HTTPStatus.OK, "healthy", text, more)


def _unhealthy(snapshot: Snapshot) -> Response:
    stage = "" if snapshot.stage is None else f" {stage_sentence(snapshot.stage)}"
    if not snapshot.ready:
        return _worker_status(
            HTTPStatus.SERVICE_UNAVAILABLE, "starting", f"Worker is still starting up.{stage}"
        )
    text = "Worker was unable to handle this request and may be unable to handle other requests."
    return _worker_status(HTTPStatus.INTERNAL_SERVER_ERROR, "unhealthy", f"{text}{stage}")


def _worker_status(
    status: HTTPStatus, word: str, message: str, more: Mapping[str, Json] = MappingProxyType({})
) -> Response:
    return json_answer({"status": word, "message": message, **more}, status=status)

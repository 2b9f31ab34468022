"""`/` and `/health`: identity and health of this worker. Source: RootResource; KIP-1017.

Both paths accept any Content-Type, as in Java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING

from kraal.cluster.views.snapshot import Snapshot
from kraal.core.ids import Json
from web.openapi.operation import Operation
from web.rendering import describe_stage, json_response
from web.resource import cached_response, endpoint
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kraal.metrics.stalls.detection import StallDetection

_MAX_LISTED = 100
"""Maximum number of stalled tasks, and of stalled connectors, to list."""


@endpoint(
    "GET",
    "/",
    Operation(
        name="getServerInfo",
        tag="worker",
        summary="Get the worker's Connect version and Kafka cluster id",
        responses={200: "ServerInfo"},
    ),
    accepts_any_content_type=True,
)
async def _root(services: Services, request: Request) -> Response:
    """GET /; available during startup."""
    snapshot = services.published.latest
    return cached_response(
        services,
        snapshot,
        request,
        {
            "version": services.settings.connect_version,
            "commit": services.settings.commit,
            "kafka_cluster_id": snapshot.kafka_cluster_id,
        },
    )


@endpoint(
    "GET",
    "/health",
    Operation(
        name="getHealth",
        tag="worker",
        summary="Check whether the worker has started and is healthy",
        responses={200: "WorkerStatus", 500: "WorkerStatus", 503: "WorkerStatus"},
    ),
    accepts_any_content_type=True,
)
async def _health(services: Services, _request: Request) -> Response:
    """GET /health; pings the herder to detect whether the herder hangs.

    Stalled instances and failed components are only listed, because the worker itself is healthy and a restart would
    not recover them. A thread pool exhausted by stuck calls makes the worker unhealthy, because only a restart helps.
    """
    problem = services.settings.start_problem()
    if problem is not None:
        return _starting_response(problem)
    try:
        async with asyncio.timeout(services.settings.health_timeout_s):
            await services.health_check.check()
    except TimeoutError:
        return _unhealthy_response(services)
    snapshot, stall_detection = services.published.latest, services.stall_detection
    reason = None if stall_detection is None else stall_detection.unhealthy_reason()
    if reason is not None:
        return _status_response(HTTPStatus.INTERNAL_SERVER_ERROR, "unhealthy", reason)
    fields: dict[str, Json] = {} if stall_detection is None else _stall_fields(stall_detection, snapshot)
    text = "Worker has completed startup and is ready to handle requests."
    return _status_response(HTTPStatus.OK, "healthy", text, fields)


def _stall_fields(stall_detection: StallDetection, snapshot: Snapshot) -> dict[str, Json]:
    """Return the fields that list stalled tasks, stalled connectors and failed components."""
    tasks, connectors = stall_detection.stalled_tasks(snapshot), stall_detection.stalled_connectors(snapshot)
    fields: dict[str, Json] = {"stalled_tasks": len(tasks), "stalled": tasks[:_MAX_LISTED]} if tasks else {}
    if connectors:
        fields["stalled_connectors"] = connectors[:_MAX_LISTED]
    if components := stall_detection.components_down():
        fields["down"] = [*components]
    return fields


def _unhealthy_response(services: Services) -> Response:
    """Return the response for an unresponsive herder. During startup, the response also names failed components."""
    snapshot, detection = services.published.latest, services.stall_detection
    stage = "" if snapshot.stage is None else f" {describe_stage(snapshot.stage)}"
    if not snapshot.ready:
        components = [] if detection is None else detection.components_down()
        causes = "".join(f" {part['part']} is down: {part['why']}." for part in components)
        return _starting_response(f"{stage}{causes}".strip(), {"down": [*components]} if components else {})
    text = "Worker was unable to handle this request and may be unable to handle other requests."
    return _status_response(HTTPStatus.INTERNAL_SERVER_ERROR, "unhealthy", f"{text}{stage}")


def _starting_response(reason: str, fields: Mapping[str, Json] = MappingProxyType({})) -> Response:
    text = f"Worker is still starting up. {reason}".strip()
    return _status_response(HTTPStatus.SERVICE_UNAVAILABLE, "starting", text, fields)


def _status_response(
    status: HTTPStatus, state: str, message: str, fields: Mapping[str, Json] = MappingProxyType({})
) -> Response:
    return json_response({"status": state, "message": message, **fields}, status=status)


ENDPOINTS = (_root, _health)

"""`/admin/assignments`: static, current and pending assignments. Kraal's extension, for KIP-987.

Only the leader has this data, so other workers forward the request to it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from actors.messages.herder import WaitUntilLive
from kraal.cluster.views.assignments import group_assignments
from kraal.core.errors import NotFound
from kraal.peers import PeerRefused
from web.openapi.assignments import ASSIGNMENTS
from web.openapi.operation import Operation
from web.requests.forward import ask_leader
from web.requests.herder_client import ask_herder
from web.resource import cached_response, endpoint
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


@endpoint(
    "GET",
    "/admin/assignments",
    Operation(
        name="getAssignments",
        tag="worker",
        summary="Get static assignments, current assignments, and unassigned work (KIP-987)",
        responses={200: ASSIGNMENTS},
        errors=(404, 409),
    ),
)
async def _get(services: Services, request: Request) -> Response:
    """GET /admin/assignments: render the leader's snapshot, or forward the request to the leader."""
    if not services.published.latest.live:
        await ask_herder(services, WaitUntilLive())
    snapshot = services.published.latest
    if snapshot.is_leader:
        return cached_response(services, snapshot, request, group_assignments(snapshot))
    try:
        return await ask_leader(services, request, snapshot.leader_url)
    except PeerRefused as exc:
        if exc.status != HTTPStatus.NOT_FOUND:
            raise
        raise NotFound(
            f"Only the leader has the assignments, but the leader at {snapshot.leader_url} does not serve them: it is "
            "an Apache Kafka worker, or it serves /admin on other listeners (admin.listeners)"
        ) from exc


ENDPOINTS = (_get,)

"""`/admin/assignments`: who may run what, what runs where, and what waits and why. Kraal's own, for KIP-987.

Only the leader knows this, so the request is forwarded to it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.routing import Route

from actors.messages.herder import AwaitLive
from kraal.cluster.views.assignments import group_assignments
from kraal.core.errors import NotFound
from kraal.peers import PeerRefused
from web.requests.forward import ask_leader
from web.requests.herder_client import ask_herder
from web.resource import Resource, kept
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


def routes(services: Services) -> list[Route]:
    """Return the route table of assignments."""
    return [Route("/admin/assignments", Resource(services, GET=_get))]


async def _get(services: Services, request: Request) -> Response:
    """GET /admin/assignments: from the snapshot of the leader."""
    if not services.published.latest.live:
        await ask_herder(services, AwaitLive())
    snapshot = services.published.latest
    if snapshot.is_leader:
        return kept(services, snapshot, request, group_assignments(snapshot))
    try:
        return await ask_leader(services, request, snapshot.leader_url)
    except PeerRefused as exc:
        if exc.status != HTTPStatus.NOT_FOUND:
            raise
        raise NotFound(
            f"Only the leader knows the assignments, and the leader at {snapshot.leader_url} does not serve them: it "
            "is a worker of Apache Kafka, or it serves /admin on other listeners (admin.listeners)"
        ) from exc

"""`GET /connectors/{c}/explain`: explains the workers and states of a connector and its tasks. Kraal's addition.

Every worker serves the endpoint. The worker requests the assignment decisions from the leader, and the stalls,
automatic restarts and causes from the workers that run the instances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.core.errors import NotFound
from kraal.core.ids import WorkerId
from kraal.journal.explanations import Sources, explain, merge
from web.openapi.explanations import EXPLANATION
from web.openapi.operation import Operation
from web.rendering import json_response
from web.requests.ask_workers import ask_workers, instance_workers, should_ask_workers
from web.requests.paths import connector_name
from web.resource import endpoint, live_snapshot
from web.routes.supervision import is_task

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kraal.cluster.views.snapshot import Snapshot
    from kraal.core.ids import ConnectorName
    from web.settings import Services


@endpoint(
    "GET",
    "/connectors/{connector}/explain",
    Operation(
        name="explainConnector",
        tag="connectors",
        summary="Explain the workers and states of a connector and its tasks",
        description="Merges the data of the leader and of the workers that run the connector and its tasks.",
        responses={200: EXPLANATION},
    ),
)
async def _explain(services: Services, request: Request) -> Response:
    """GET /connectors/{c}/explain; not cached, because stalls change over time."""
    name = connector_name(request)
    snapshot = await live_snapshot(services)
    if name not in snapshot.config.connectors:
        raise NotFound(f"Connector {name} not found")
    detection = services.stall_detection
    supervision = {} if detection is None else detection.status(snapshot, name)
    own_explanation = explain(
        Sources(snapshot=snapshot, journal=services.journal, supervision=supervision), name
    )
    workers = _workers(snapshot, name) if should_ask_workers(services, request) else set()
    responses, silent = await ask_workers(services, request, workers, "", _parse_explanation)
    return json_response({**merge(own_explanation, dict(responses)), "silent": [*silent]})


def _workers(snapshot: Snapshot, name: ConnectorName) -> set[WorkerId]:
    """Return the other workers to query: the leader and the workers that run instances of the connector."""
    workers = instance_workers(snapshot.status.statuses.get(name, ConnectorStatuses()))
    if snapshot.leader_url is not None:
        workers.add(WorkerId(urlsplit(snapshot.leader_url).netloc))
    return workers - {snapshot.worker_id}


def _parse_explanation(body: object) -> dict[str, Any] | None:
    match body:
        case {"connector": connector, "tasks": [*tasks]} if all(map(is_task, tasks)) and all(
            map(_is_instance, (connector, *tasks))
        ):
            return {"connector": connector, "tasks": tasks}
        case _:
            return None


def _is_instance(part: object) -> bool:
    match part:
        case {"placement": None | {"why": str()}, "reasons": [*reasons], "events": [*events]}:
            return all(map(_is_reason, reasons)) and all(map(_is_event, events))
        case _:
            return False


def _is_reason(part: object) -> bool:
    match part:
        case {"kind": str(), "text": str()}:
            return True
        case _:
            return False


def _is_event(part: object) -> bool:
    match part:
        case {"ms": int(), "worker_id": str(), "kind": str(), "text": str(), "by": str()}:
            return True
        case _:
            return False


ENDPOINTS = (_explain,)

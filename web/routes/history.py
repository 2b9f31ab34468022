"""`/connectors/{c}/history`, `/connectors/{c}/configs` and `/events`: the journal over REST. Kraal's addition.

Each worker returns the events since its startup. States and configs cover all workers. Authors of requests and
automatic restarts are recorded only for this worker, and reasons for rebalances only on the leader.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kraal.config.hidden import hide
from kraal.core.errors import NotFound
from kraal.core.ids import ConnectorName
from kraal.plugins.worker_plugins import hidden_keys
from web.openapi import history as shapes
from web.openapi.operation import Operation, Query
from web.rendering import json_response
from web.requests.paths import connector_name, integer_in_range
from web.resource import endpoint, live_snapshot
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kraal.cluster.views.snapshot import Snapshot

_MAX_ENTRIES: Final = 1_000
_DEFAULT_ENTRIES: Final = 100
_LIMIT_RANGE: Final = range(1, _MAX_ENTRIES + 1)
_TASK_RANGE: Final = range(2**31)
_SEQ_RANGE: Final = range(2**53)


@endpoint(
    "GET",
    "/connectors/{connector}/history",
    Operation(
        name="getConnectorHistory",
        tag="connectors",
        summary="List the states of a connector and its tasks since the worker was started, with their causes",
        description="Newest first. Also available for deleted connectors.",
        query=(shapes.limit(_MAX_ENTRIES, _DEFAULT_ENTRIES), shapes.TASK),
        responses={200: shapes.HISTORY},
        errors=(400,),
    ),
)
async def _history(services: Services, request: Request) -> Response:
    """GET /connectors/{c}/history: 404 if the connector does not exist and has no history."""
    name = connector_name(request)
    limit, task = (
        integer_in_range(request, "limit", _LIMIT_RANGE),
        integer_in_range(request, "task", _TASK_RANGE),
    )
    snapshot = await live_snapshot(services)
    journal = services.journal
    history = journal.states.read(name)
    if not history.entries:
        _require_connector(snapshot, name)
    entries = [entry for entry in reversed(history.entries) if task is None or entry.task == task]
    return json_response(
        {
            "worker_id": snapshot.worker_id,
            "since_ms": journal.since_ms,
            "states": [entry.to_json() for entry in entries[: limit or _DEFAULT_ENTRIES]],
            "dropped": history.dropped,
        }
    )


@endpoint(
    "GET",
    "/connectors/{connector}/configs",
    Operation(
        name="getConnectorConfigs",
        tag="connectors",
        summary="Get the config of a connector and its earlier versions, without their secrets",
        description="Newest first. Also available for deleted connectors.",
        responses={200: shapes.CONFIGS},
    ),
)
async def _configs(services: Services, request: Request) -> Response:
    """GET /connectors/{c}/configs: 404 if the connector does not exist and had no config."""
    name = connector_name(request)
    snapshot = await live_snapshot(services)
    journal = services.journal
    versions, entry = journal.configs.read(name), snapshot.config.connectors.get(name)
    if not versions.entries:
        _require_connector(snapshot, name)
    last_write = journal.configs.last_write(name)

    def render() -> dict[str, Any]:
        current: dict[str, Any] | None = None
        if entry is not None:
            current = {
                "ms": -1 if last_write is None else last_write.ms,
                "by": "" if last_write is None else last_write.by,
                "config": hide(entry.config, hidden_keys(services.registry, entry.config)),
            }
        earlier_versions = [
            version.to_json(hidden_keys(services.registry, version.config))
            for version in reversed(versions.entries)
        ]
        return {"current": current, "earlier": earlier_versions, "dropped": versions.dropped}

    return json_response(await asyncio.to_thread(render))  # determining the secret keys may import plugins


@endpoint(
    "GET",
    "/events",
    Operation(
        name="getEvents",
        tag="worker",
        summary="List the events of this worker: rebalances, states, configs, restarts and others",
        description="Oldest first. With `after`, the first events after that event; otherwise the latest events.",
        query=(
            shapes.limit(_MAX_ENTRIES, _DEFAULT_ENTRIES),
            Query(
                name="after",
                description="The `seq` of an event; returns the events after this one.",
                schema={"type": "integer", "minimum": 0, "maximum": _SEQ_RANGE[-1]},
            ),
        ),
        responses={200: shapes.EVENTS},
        errors=(400,),
    ),
)
async def _events(services: Services, request: Request) -> Response:
    """GET /events; available during startup."""
    limit, after = (
        integer_in_range(request, "limit", _LIMIT_RANGE),
        integer_in_range(request, "after", _SEQ_RANGE),
    )
    journal = services.journal
    events = journal.events.after(after, limit or _DEFAULT_ENTRIES)
    return json_response(
        {
            "boot": journal.boot,
            "worker_id": services.published.latest.worker_id,
            "events": [event.to_json() for event in events],
            "dropped": journal.events.dropped,
        }
    )


def _require_connector(snapshot: Snapshot, name: ConnectorName) -> None:
    if name not in snapshot.config.connectors:
        raise NotFound(f"Connector {name} not found")


ENDPOINTS = (_history, _configs, _events)

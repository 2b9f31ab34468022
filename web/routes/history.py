"""`/connectors/{c}/history`, `/connectors/{c}/configs` and `/events`: the journal over REST. Kraal's addition.

Each worker returns the events since its start: the states and configs of all workers, and, for itself, the authors of
requests, automatic restarts and, while it leads, the reasons of rebalances.
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
from web.rendering import json_answer
from web.requests.paths import connector_name, number_in
from web.resource import endpoint, live_snapshot
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kraal.cluster.views.snapshot import Snapshot

_MAX_ENTRIES: Final = 1_000
_DEFAULT_ENTRIES: Final = 100
_LIMITS: Final = range(1, _MAX_ENTRIES + 1)
_TASKS: Final = range(2**31)
_SEQS: Final = range(2**53)


@endpoint(
    "GET",
    "/connectors/{connector}/history",
    Operation(
        name="getConnectorHistory",
        tag="connectors",
        summary="List the states of a connector and its tasks since the worker was started, with their causes",
        about="Newest first. Also for a connector that was deleted.",
        query=(shapes.limit(_MAX_ENTRIES, _DEFAULT_ENTRIES), shapes.TASK),
        answers={200: shapes.HISTORY},
        errors=(400,),
    ),
)
async def _history(services: Services, request: Request) -> Response:
    """GET /connectors/{c}/history: 404 if the connector does not exist and has no history."""
    name = connector_name(request)
    limit, task = number_in(request, "limit", _LIMITS), number_in(request, "task", _TASKS)
    snapshot = await live_snapshot(services)
    journal = services.journal
    recorded = journal.states.read(name)
    if not recorded.entries:
        _refuse_unknown(snapshot, name)
    entries = [entry for entry in reversed(recorded.entries) if task is None or entry.task == task]
    return json_answer(
        {
            "worker_id": snapshot.worker_id,
            "since_ms": journal.since_ms,
            "states": [entry.to_json() for entry in entries[: limit or _DEFAULT_ENTRIES]],
            "dropped": recorded.dropped,
        }
    )


@endpoint(
    "GET",
    "/connectors/{connector}/configs",
    Operation(
        name="getConnectorConfigs",
        tag="connectors",
        summary="Get the config of a connector and its earlier versions, without their secrets",
        about="Newest first. Also for a connector that was deleted.",
        answers={200: shapes.CONFIGS},
    ),
)
async def _configs(services: Services, request: Request) -> Response:
    """GET /connectors/{c}/configs: 404 if the connector does not exist and had no config."""
    name = connector_name(request)
    snapshot = await live_snapshot(services)
    journal = services.journal
    recorded, entry = journal.configs.read(name), snapshot.config.connectors.get(name)
    if not recorded.entries:
        _refuse_unknown(snapshot, name)
    written = journal.configs.last_write(name)

    def render() -> dict[str, Any]:
        current: dict[str, Any] | None = None
        if entry is not None:
            current = {
                "ms": -1 if written is None else written.ms,
                "by": "" if written is None else written.by,
                "config": hide(entry.config, hidden_keys(services.registry, entry.config)),
            }
        earlier = [
            version.to_json(hidden_keys(services.registry, version.config))
            for version in reversed(recorded.entries)
        ]
        return {"current": current, "earlier": earlier, "dropped": recorded.dropped}

    return json_answer(await asyncio.to_thread(render))  # finding the secret keys may import plugins


@endpoint(
    "GET",
    "/events",
    Operation(
        name="getEvents",
        tag="worker",
        summary="List what happened on this worker: rebalances, states, configs, restarts and others",
        about="Oldest first: the first events after a number, or without one the latest.",
        query=(
            shapes.limit(_MAX_ENTRIES, _DEFAULT_ENTRIES),
            Query(
                name="after",
                about="The `seq` of an event: those after it.",
                schema={"type": "integer", "minimum": 0, "maximum": _SEQS[-1]},
            ),
        ),
        answers={200: shapes.EVENTS},
        errors=(400,),
    ),
)
async def _events(services: Services, request: Request) -> Response:
    """GET /events: does not wait while the worker starts."""
    limit, after = number_in(request, "limit", _LIMITS), number_in(request, "after", _SEQS)
    journal = services.journal
    events = journal.events.after(after, limit or _DEFAULT_ENTRIES)
    return json_answer(
        {
            "boot": journal.boot,
            "worker_id": services.published.latest.worker_id,
            "events": [event.to_json() for event in events],
            "dropped": journal.events.dropped,
        }
    )


def _refuse_unknown(snapshot: Snapshot, name: ConnectorName) -> None:
    if name not in snapshot.config.connectors:
        raise NotFound(f"Connector {name} not found")


ENDPOINTS = (_history, _configs, _events)

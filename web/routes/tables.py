"""`/connectors/{c}/tables`: the tables that a sink writes, as its tasks have reported them. Kraal's addition.

Only the worker that runs a task has the task's reports, so each request is also sent to the other workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.cluster.views import rest as view
from kraal.metrics.tables import Table, merge_tables, render_tables
from web.openapi.operation import Operation
from web.openapi.tables import TABLES
from web.rendering import json_response
from web.requests.ask_workers import ask_workers, instance_workers, should_ask_workers
from web.requests.paths import connector_name
from web.resource import endpoint, live_snapshot
from web.routes.progress import get_shared_response

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from web.settings import Services


@endpoint(
    "GET",
    "/connectors/{connector}/tables",
    Operation(
        name="getTables",
        tag="connectors",
        summary="Show the tables that the tasks of a sink write, and how far they are behind the topics",
        responses={200: TABLES},
        errors=(404,),
    ),
)
async def _tables(services: Services, request: Request) -> Response:
    """GET /connectors/{c}/tables."""
    name, snapshot = connector_name(request), await live_snapshot(services)
    view.connector_config(snapshot, name)  # raises NotFound
    assert services.progress is not None  # noqa: S101 - the endpoint exists only with metrics
    metrics = services.progress.metrics

    async def gather() -> dict[str, Any]:
        statuses = snapshot.status.statuses.get(name, ConnectorStatuses())
        other_workers = (
            instance_workers(statuses) - {snapshot.worker_id}
            if should_ask_workers(services, request)
            else set()
        )
        responses, silent = await ask_workers(services, request, other_workers, "", _parse_tables)
        own_tables = render_tables(metrics.current(), name, metrics.time)
        other_tables = [table for _, tables in responses for table in tables]
        return {
            "connector": name,
            "tables": merge_tables([*own_tables, *other_tables]),
            "silent": [*silent],
        }

    return json_response(await get_shared_response(services, request, ("tables", name), gather))


ENDPOINTS = (_tables,)


def _parse_tables(body: object) -> list[Table] | None:
    """Return the tables in the response of another worker; None if it is malformed."""
    match body:
        case {"tables": [*tables]} if all(map(_is_table, tables)):
            return tables
        case _:
            return None


def _is_table(entry: object) -> bool:
    """Return whether the members that `merge_tables` reads have the right types."""
    match entry:
        case {
            "table": str(),
            "version": str() | None,
            "reported_ms": int(),
            "commits": [*commits],
            "partitions": [*partitions],
            "schema_changes": [*changes],
            "totals": dict() as totals,
        }:
            return (
                all(map(_is_commit, commits))
                and all(map(_is_partition, partitions))
                and all(map(_is_schema_change, changes))
                and all(isinstance(value, int) for value in totals.values())
            )
        case _:
            return False


def _is_commit(entry: object) -> bool:
    match entry:
        case {"version": str(), "time_ms": int() | None}:
            return True
        case _:
            return False


def _is_partition(entry: object) -> bool:
    match entry:
        case {"topic": str(), "partition": int(), "offset": int() | None}:
            return True
        case _:
            return False


def _is_schema_change(entry: object) -> bool:
    match entry:
        case {"version": str(), "column": str(), "new_type": str(), "time_ms": int() | None}:
            return True
        case _:
            return False

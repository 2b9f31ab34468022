"""Task metrics of all workers: `expand=progress` and `GET /connectors/{c}/series`. Kraal's addition.

Only the worker that runs a task has the task's metrics, so each request is also sent to the other workers. Requests
within the same second share one response, unless `GET /changes` has reported changed metrics in between.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.cluster.views import rest as view
from kraal.core.ids import ConnectorName, WorkerId
from kraal.metrics.progress import ConnectorProgress, ProgressReports, merge
from kraal.metrics.scrape import GATHER_S
from kraal.metrics.series import COLUMNS, RECENT, SAMPLES, STEP_MS, Samples, Values
from web.openapi.operation import Operation, Query
from web.openapi.shapes import NUMBER
from web.rendering import json_response
from web.requests.ask_workers import all_workers, ask_workers, instance_workers, should_ask_workers
from web.requests.forward import HOP
from web.requests.paths import connector_name, nonnegative_integer
from web.resource import endpoint, live_snapshot
from web.routes.supervision import is_task

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kraal.cluster.views.snapshot import Snapshot
    from web.settings import Services

CHUNK_SIZE: Final = 50
"""Number of connectors to process before yielding to other requests."""
_QUERY: Final = "expand=progress"
_NO_STATUSES: Final = ConnectorStatuses()

T = TypeVar("T")


async def gather_progress(
    services: Services, request: Request, reports: ProgressReports, snapshot: Snapshot, name: ConnectorName
) -> dict[str, Any]:
    """Return the progress of a connector, merged over the workers that run it."""

    async def gather() -> dict[str, Any]:
        await _gather_java_metrics(reports)
        statuses = snapshot.status.statuses.get(name, _NO_STATUSES)
        other_workers = (
            instance_workers(statuses) - {snapshot.worker_id}
            if should_ask_workers(services, request)
            else set()
        )
        responses, silent = await ask_workers(services, request, other_workers, _QUERY, _parse_progress)
        return merge([reports.of(snapshot, name), *(response for _, response in responses)], silent)

    return await get_shared_response(services, request, ("progress", name), gather)


async def gather_all_progress(
    services: Services, request: Request, reports: ProgressReports, snapshot: Snapshot
) -> Mapping[str, dict[str, Any]]:
    """Return the progress of each connector, merged over all workers.

    For a request from another worker, connectors that do not run here are omitted.
    """

    async def gather() -> Mapping[str, dict[str, Any]]:
        await _gather_java_metrics(reports)
        own_id, statuses = snapshot.worker_id, snapshot.status.statuses
        if not should_ask_workers(services, request):
            own_progress = await _own_progress(reports, snapshot)
            local_names = {
                name
                for name, worker_statuses in statuses.items()
                if own_id in instance_workers(worker_statuses)
            } | own_progress.keys()
            return {name: merge([own_progress.get(name, ConnectorProgress())], ()) for name in local_names}
        other_workers = all_workers(snapshot) - {own_id}
        responses, _ = await ask_workers(services, request, other_workers, _QUERY, _parse_all_progress)
        own_progress, responses_by_worker = await _own_progress(reports, snapshot), dict(responses)
        return {
            name: _merge_connector(
                name,
                own_id,
                instance_workers(statuses.get(name, _NO_STATUSES)),
                own_progress,
                responses_by_worker,
            )
            for name in snapshot.config.connectors.keys() | statuses.keys()
        }

    return await get_shared_response(services, request, ("progress of all",), gather)


async def _own_progress(
    reports: ProgressReports, snapshot: Snapshot
) -> Mapping[ConnectorName, ConnectorProgress]:
    """Return this worker's progress; yield to other requests after each chunk of connectors."""
    progress_by_name: dict[ConnectorName, ConnectorProgress] = {}
    for name, progress in reports.connectors(snapshot):
        progress_by_name[name] = progress
        if len(progress_by_name) % CHUNK_SIZE == 0:
            await asyncio.sleep(0)
    return progress_by_name


def _merge_connector(
    name: ConnectorName,
    own_id: WorkerId,
    workers: set[WorkerId],
    own_progress: Mapping[ConnectorName, ConnectorProgress],
    responses: Mapping[WorkerId, Mapping[str, ConnectorProgress]],
) -> dict[str, Any]:
    """Merge the progress of one connector; `workers` without a report are silent."""
    reports = {worker: response[name] for worker, response in responses.items() if name in response}
    silent = sorted(workers - reports.keys() - {own_id})
    return merge([own_progress.get(name, ConnectorProgress()), *reports.values()], silent)


@endpoint(
    "GET",
    "/connectors/{connector}/series",
    Operation(
        name="getConnectorSeries",
        tag="connectors",
        summary="Get the metrics of a connector's tasks over the last ten minutes",
        description="Each sample covers 5 seconds. Samples are merged over the workers that have run the tasks.",
        query=(
            Query(
                name="since_ms",
                description="Start of the earliest sample to return, in milliseconds since the epoch.",
                schema={**NUMBER, "minimum": 0, "maximum": 10**15 - 1},
            ),
        ),
        responses={200: "ConnectorSeries"},
        errors=(400,),
    ),
)
async def _series(services: Services, request: Request) -> Response:
    """GET /connectors/{c}/series."""
    name, since_ms = connector_name(request), nonnegative_integer(request, "since_ms")
    snapshot = await live_snapshot(services)
    view.connector_config(snapshot, name)  # raises NotFound
    gather = partial(_gather_series, services, request, snapshot, name, since_ms)
    return json_response(await get_shared_response(services, request, ("series", name, since_ms), gather))


async def _gather_series(
    services: Services, request: Request, snapshot: Snapshot, name: ConnectorName, since_ms: int | None
) -> dict[str, Any]:
    """Return the samples of a connector, merged over all workers, because any of them may have run its tasks."""
    assert services.progress is not None  # noqa: S101 - the endpoint exists only with progress reports
    other_workers = (
        all_workers(snapshot) - {snapshot.worker_id} if should_ask_workers(services, request) else set()
    )
    query = "" if since_ms is None else f"since_ms={since_ms}"
    responses, silent = await ask_workers(services, request, other_workers, query, _parse_samples)
    samples = Samples.merge(
        services.progress.series.of(name, since_ms), [response for _, response in responses]
    )
    return {
        "step_ms": STEP_MS,
        "start_ms": samples.start_ms,
        "tasks": [
            {"id": task, **{column: [*columns[column]] for column in COLUMNS}}
            for task, columns in samples.tasks.items()
        ],
        "worker_ids": [*sorted([snapshot.worker_id, *(worker for worker, _ in responses)])],
        "silent": [*silent],
    }


ENDPOINTS = (_series,)


# -- shared responses --------------------------------------------------------------------------------------


async def get_shared_response(
    services: Services,
    request: Request,
    key: tuple[object, ...],
    gather: Callable[[], Coroutine[Any, Any, T]],
) -> T:
    """Return a response that requests with the same key and credentials share for a second, unless metrics change."""
    caller = (HOP in request.query_params, request.headers.get("authorization"))
    return await services.shared.get((key, caller, services.streams.metrics_seq), gather)


async def _gather_java_metrics(reports: ProgressReports) -> None:
    """Wait for the metrics of the plugins' JVMs, if any, with a short timeout."""
    futures = [] if reports.java is None else reports.java.gather()
    if futures:
        await asyncio.wait([asyncio.wrap_future(future) for future in futures], timeout=GATHER_S)


# -- responses of other workers ----------------------------------------------------------------------------


def _parse_progress(body: object) -> ConnectorProgress | None:
    match body:
        case {"progress": {"tasks": [*tasks], "recent_records_per_second": recent} as progress} if all(
            map(is_task, tasks)
        ):
            values, cause = _parse_values(recent), progress.get("stall_cause")
            if values is None or len(values) != RECENT:
                return None
            return ConnectorProgress(tasks, values, cause if isinstance(cause, str) else None)
        case _:
            return None


def _parse_all_progress(body: object) -> Mapping[str, ConnectorProgress] | None:
    if not isinstance(body, dict):
        return None
    progress_by_name = {name: _parse_progress(part) for name, part in body.items()}
    return {name: part for name, part in progress_by_name.items() if part is not None}


def _parse_samples(body: object) -> Samples | None:
    match body:
        case {"step_ms": step, "start_ms": int(start_ms), "tasks": [*tasks]} if step == STEP_MS:
            columns_by_task = {task["id"]: _parse_columns(task) for task in tasks if is_task(task)}
            valid_columns = {
                number: columns for number, columns in columns_by_task.items() if columns is not None
            }
            count = max(
                (len(values) for columns in valid_columns.values() for values in columns.values()), default=0
            )
            return Samples(start_ms=start_ms, count=count, tasks=valid_columns)
        case _:
            return None


def _parse_columns(task: Mapping[str, object]) -> Mapping[str, Values] | None:
    values_by_column = {column: _parse_values(task.get(column)) for column in COLUMNS}
    valid_values = {column: values for column, values in values_by_column.items() if values is not None}
    return valid_values if len(valid_values) == len(COLUMNS) else None


def _parse_values(value: object) -> Values | None:
    if not isinstance(value, list) or len(value) > SAMPLES or not all(map(_is_value, value)):
        return None
    return value


def _is_value(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and math.isfinite(value))

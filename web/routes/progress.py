"""Numbers of tasks over all workers: `expand=progress`, and `GET /connectors/{c}/series`. Kraal's own.

Only the worker that runs a task has its numbers, so a request asks the others. Requests of the same second share one
answer, unless readers of `GET /changes` were told in between that numbers changed.
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
from kraal.metrics.progress import ConnectorProgress, ProgressReports, merged
from kraal.metrics.scrape import GATHER_S
from kraal.metrics.series import COLUMNS, RECENT, SAMPLES, STEP_MS, Samples, Values
from web.openapi.operation import Operation, Query
from web.openapi.shapes import NUMBER
from web.rendering import json_answer
from web.requests.ask_workers import all_workers, ask_workers, asks_others, workers_of
from web.requests.forward import HOP
from web.requests.paths import connector_of, whole_number
from web.resource import endpoint, live_snapshot
from web.routes.supervision import is_task

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kraal.cluster.views.snapshot import Snapshot
    from web.settings import Services

PIECE: Final = 50
"""Number of connectors between two pauses in which other requests are answered."""
_QUERY: Final = "expand=progress"
_NO_STATUSES: Final = ConnectorStatuses()

T = TypeVar("T")


async def gathered_progress(
    services: Services, request: Request, reports: ProgressReports, snapshot: Snapshot, name: ConnectorName
) -> dict[str, Any]:
    """Return the progress of a connector: this worker's, merged with that of the others that run it."""

    async def make() -> dict[str, Any]:
        await _java_measured(reports)
        statuses = snapshot.status.statuses.get(name, _NO_STATUSES)
        others = workers_of(statuses) - {snapshot.worker_id} if asks_others(services, request) else set()
        answers, silent = await ask_workers(services, request, others, _QUERY, _progress)
        return merged([reports.of(snapshot, name), *(answer for _, answer in answers)], silent)

    return await shared_answer(services, request, ("progress", name), make)


async def progress_of_all(
    services: Services, request: Request, reports: ProgressReports, snapshot: Snapshot
) -> Mapping[str, dict[str, Any]]:
    """Return the progress of each connector, merged over all workers.

    When another worker asks, connectors that do not run here are left out.
    """

    async def make() -> Mapping[str, dict[str, Any]]:
        await _java_measured(reports)
        me, statuses = snapshot.worker_id, snapshot.status.statuses
        if not asks_others(services, request):
            own = await _own(reports, snapshot)
            here = {name for name, found in statuses.items() if me in workers_of(found)} | own.keys()
            return {name: merged([own.get(name, ConnectorProgress())], ()) for name in here}
        others = all_workers(snapshot) - {me}
        answers, _ = await ask_workers(services, request, others, _QUERY, _progress_of_each)
        own, told = await _own(reports, snapshot), dict(answers)
        return {
            name: _of_one(name, me, workers_of(statuses.get(name, _NO_STATUSES)), own, told)
            for name in snapshot.config.connectors.keys() | statuses.keys()
        }

    return await shared_answer(services, request, ("progress of all",), make)


async def _own(reports: ProgressReports, snapshot: Snapshot) -> Mapping[ConnectorName, ConnectorProgress]:
    """Return this worker's progress, made in pieces, between which other requests are answered."""
    found: dict[ConnectorName, ConnectorProgress] = {}
    for name, progress in reports.of_each(snapshot):
        found[name] = progress
        if len(found) % PIECE == 0:
            await asyncio.sleep(0)
    return found


def _of_one(
    name: ConnectorName,
    me: WorkerId,
    workers: set[WorkerId],
    own: Mapping[ConnectorName, ConnectorProgress],
    answers: Mapping[WorkerId, Mapping[str, ConnectorProgress]],
) -> dict[str, Any]:
    """Merge the progress of one connector; silent are those of its workers that say nothing about it."""
    told = {worker: answer[name] for worker, answer in answers.items() if name in answer}
    silent = sorted(workers - told.keys() - {me})
    return merged([own.get(name, ConnectorProgress()), *told.values()], silent)


@endpoint(
    "GET",
    "/connectors/{connector}/series",
    Operation(
        name="getConnectorSeries",
        tag="connectors",
        summary="Get the numbers of a connector's tasks over the last ten minutes",
        about="One sample each 5 seconds, merged over the workers that have run the tasks.",
        query=(
            Query(
                name="since_ms",
                about="Only samples that began at this time or later; milliseconds since the epoch.",
                schema={**NUMBER, "minimum": 0, "maximum": 10**15 - 1},
            ),
        ),
        answers={200: "ConnectorSeries"},
        errors=(400,),
    ),
)
async def _series(services: Services, request: Request) -> Response:
    """GET /connectors/{c}/series."""
    name, since_ms = connector_of(request), whole_number(request, "since_ms")
    snapshot = await live_snapshot(services)
    view.connector_config(snapshot, name)  # of an unknown connector there is none
    make = partial(_gathered_series, services, request, snapshot, name, since_ms)
    return json_answer(await shared_answer(services, request, ("series", name, since_ms), make))


async def _gathered_series(
    services: Services, request: Request, snapshot: Snapshot, name: ConnectorName, since_ms: int | None
) -> dict[str, Any]:
    """Return the samples of a connector, merged with those of all workers: any of them may have run its tasks."""
    assert services.progress is not None  # noqa: S101 - otherwise there is no such endpoint
    others = all_workers(snapshot) - {snapshot.worker_id} if asks_others(services, request) else set()
    query = "" if since_ms is None else f"since_ms={since_ms}"
    answers, silent = await ask_workers(services, request, others, query, _samples)
    found = Samples.merged(services.progress.series.of(name, since_ms), [answer for _, answer in answers])
    return {
        "step_ms": STEP_MS,
        "start_ms": found.start_ms,
        "tasks": [
            {"id": task, **{column: [*columns[column]] for column in COLUMNS}}
            for task, columns in found.tasks.items()
        ],
        "worker_ids": [*sorted([snapshot.worker_id, *(worker for worker, _ in answers)])],
        "silent": [*silent],
    }


ENDPOINTS = (_series,)


# -- shared by requests ------------------------------------------------------------------------------------


async def shared_answer(
    services: Services, request: Request, key: tuple[object, ...], make: Callable[[], Coroutine[Any, Any, T]]
) -> T:
    """Return an answer that requests with the same credentials share, until readers are told of other numbers."""
    caller = (HOP in request.query_params, request.headers.get("authorization"))
    return await services.shared.get((key, caller, services.streams.numbers_seq), make)


async def _java_measured(reports: ProgressReports) -> None:
    """Wait until the plugins' JVMs have told their numbers, if there are any, for a short time."""
    asked = [] if reports.java is None else reports.java.gather()
    if asked:
        await asyncio.wait([asyncio.wrap_future(each) for each in asked], timeout=GATHER_S)


# -- answers of other workers ------------------------------------------------------------------------------


def _progress(body: object) -> ConnectorProgress | None:
    match body:
        case {"progress": {"tasks": [*tasks], "recent_records_per_second": recent} as progress} if all(
            map(is_task, tasks)
        ):
            values, cause = _values(recent), progress.get("stall_cause")
            if values is None or len(values) != RECENT:
                return None
            return ConnectorProgress(tasks, values, cause if isinstance(cause, str) else None)
        case _:
            return None


def _progress_of_each(body: object) -> Mapping[str, ConnectorProgress] | None:
    if not isinstance(body, dict):
        return None
    found = {name: _progress(part) for name, part in body.items()}
    return {name: part for name, part in found.items() if part is not None}


def _samples(body: object) -> Samples | None:
    match body:
        case {"step_ms": step, "start_ms": int(start_ms), "tasks": [*tasks]} if step == STEP_MS:
            found = {task["id"]: _columns(task) for task in tasks if is_task(task)}
            columns = {number: each for number, each in found.items() if each is not None}
            count = max((len(values) for each in columns.values() for values in each.values()), default=0)
            return Samples(start_ms=start_ms, count=count, tasks=columns)
        case _:
            return None


def _columns(task: Mapping[str, object]) -> Mapping[str, Values] | None:
    found = {column: _values(task.get(column)) for column in COLUMNS}
    known = {column: values for column, values in found.items() if values is not None}
    return known if len(known) == len(COLUMNS) else None


def _values(value: object) -> Values | None:
    if not isinstance(value, list) or len(value) > SAMPLES or not all(map(_is_value, value)):
        return None
    return value


def _is_value(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and math.isfinite(value))

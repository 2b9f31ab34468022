"""Progress of this worker's tasks as JSON for `expand=progress`: rates, totals, durations, backlogs. Pure.

Only the worker that runs a task has its metrics. A Java task's metrics come from Kafka's runtime in its JVM.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kraal.cluster.views.rest import task_state
from kraal.core.ids import ConnectorName, Instance, Json, State, TargetState, TaskId, WorkerId
from kraal.core.secrets import secrets
from kraal.metrics.series import RECENT, Values, add_values
from kraal.metrics.stalls.detection import connector_stalls, task_progress, task_trace
from kraal.metrics.stalls.down_parts import find_group_outage

if TYPE_CHECKING:
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.metrics.java_plugins import JvmMetrics, TaskValues
    from kraal.metrics.registry import CurrentMetrics, MetricsRegistry
    from kraal.metrics.series import Series
    from kraal.metrics.task import TaskMetrics

NO_RATES: Values = (None,) * RECENT


@dataclass(frozen=True, slots=True)
class ConnectorProgress:
    """A connector's progress on one worker."""

    tasks: Sequence[Mapping[str, Any]] = ()
    """The tasks that run or have failed on this worker, by number."""
    recent: Values = NO_RATES
    """Total records per second of the tasks on this worker, for each of the latest samples."""
    stall_cause: str | None = None
    """Why the connector instance is stalled; None if it is not stalled or not on this worker."""
    absence_cause: str | None = None
    """Why the connector may run on no worker: this worker does not run it, and waits for an assignment."""


def merge(parts: Iterable[ConnectorProgress], silent: Iterable[WorkerId]) -> dict[str, Any]:
    """Merge a connector's progress on several workers into JSON; the first report of each task is kept. Pure.

    `silent` contains the workers that did not respond.
    """
    tasks: dict[int, Mapping[str, Any]] = {}
    recent, cause, absence_cause = NO_RATES, None, None
    for part in parts:
        cause = cause or part.stall_cause
        absence_cause = absence_cause or part.absence_cause
        for task in part.tasks:
            tasks.setdefault(task["id"], task)
        recent = part.recent if recent is NO_RATES else add_values(recent, part.recent)
    return {
        "tasks": [tasks[number] for number in sorted(tasks)],
        "stall_cause": cause or (None if tasks else absence_cause),
        "recent_records_per_second": recent,
        "silent": [*silent],
    }


class JavaMetrics(Protocol):
    """Source of the metrics of the plugins' JVMs."""

    def current(self, instances: Container[Instance]) -> JvmMetrics:
        """Return the latest metrics of the instances that run or have failed on this worker."""

    def gather(self) -> Sequence[Future[bool]]:
        """Request the JVMs' metrics; return futures to wait for up to `GATHER_S`."""


@dataclass(frozen=True, slots=True)
class ProgressReports:
    """The progress of this worker's tasks. Thread-safe; sends no messages."""

    metrics: MetricsRegistry
    series: Series
    java: JavaMetrics | None = None
    """None if the worker has no Java plugins."""

    def of(self, snapshot: Snapshot, name: ConnectorName) -> ConnectorProgress:
        """Return a connector's progress on this worker."""
        return next((progress for _, progress in self._iterate(snapshot, name)), ConnectorProgress())

    def connectors(self, snapshot: Snapshot) -> Iterator[tuple[ConnectorName, ConnectorProgress]]:
        """Yield the progress of each connector with metrics on this worker, from one consistent view."""
        return self._iterate(snapshot, None)

    def _iterate(
        self, snapshot: Snapshot, only: ConnectorName | None
    ) -> Iterator[tuple[ConnectorName, ConnectorProgress]]:
        current, now_s = self.metrics.current(), self.metrics.time.now()
        java = {} if self.java is None else self.java.current(current.plugin_versions).tasks
        recent = self.series.recent()
        tasks: dict[ConnectorName, list[TaskId]] = {name: [] for name in recent}
        for task in sorted(current.tasks):
            tasks.setdefault(task.connector, []).append(task)
        stalls = {
            name: stall.cause
            for name, stall in connector_stalls(snapshot, current, now_s, self.metrics.stall_timeout_s, only)
            if stall is not None
        }
        absences = self._find_absences(snapshot, current)
        names = [*tasks, *((stalls.keys() | absences.keys()) - tasks.keys())]
        for name in names if only is None else {only}.intersection(names):
            task_reports: list[dict[str, Json]] = []
            for task in tasks.get(name, ()):
                values = (
                    _java_progress(java[task])
                    if task in java
                    else _python_progress(current.tasks[task], now_s)
                )
                state = _state_fields(self.metrics, snapshot, current, task, now_s)
                task_reports.append({"id": task.task, "worker_id": snapshot.worker_id, **values, **state})
            cause = stalls.get(name)
            cause = None if cause is None else secrets.scrub(cause)
            yield (
                name,
                ConnectorProgress(task_reports, recent.get(name, NO_RATES), cause, absences.get(name)),
            )

    def _find_absences(self, snapshot: Snapshot, current: CurrentMetrics) -> Mapping[ConnectorName, str]:
        """Return the causes for started connectors that this worker does not run while it waits for an assignment."""
        return {
            name: f"No worker may run it: {part.why}"
            for part in find_group_outage(self.metrics)
            for name, entry in snapshot.config.connectors.items()
            if entry.target is TargetState.STARTED and name not in current.plugin_versions
        }


def _python_progress(metrics: TaskMetrics, now_s: float) -> dict[str, Json]:
    errors = metrics.errors
    return {
        "records_per_second": _number(metrics.records.rate(now_s)),
        "records_total": metrics.records_total,
        "read_total": metrics.read_total,
        "poll_ms": _number(metrics.poll.latest_ms),
        "write_ms": _number(metrics.write.latest_ms),
        "commit_ms": _number(metrics.commit.latest_ms),
        "commits_total": metrics.commits_total,
        "errors": {
            "failed": errors.errors,
            "skipped": errors.skipped,
            "logged": errors.logged,
            "dead_lettered": errors.dead_letters,
        },
    }


def _java_progress(values: TaskValues | None) -> dict[str, Json]:
    """Return the progress of a Java task; durations are means of recent batches, and missing values are null."""

    def first_value(*attributes: str) -> float | None:
        by_attribute = {} if values is None else values
        return next((by_attribute[name] for name in attributes if name in by_attribute), None)

    return {
        "records_per_second": _number(first_value("source-record-write-rate", "sink-record-send-rate")),
        "records_total": _integer(first_value("source-record-write-total", "sink-record-send-total")),
        "read_total": _integer(first_value("source-record-poll-total", "sink-record-read-total")),
        "poll_ms": _number(first_value("poll-batch-avg-time-ms")),
        "write_ms": _number(first_value("put-batch-avg-time-ms")),
        "commit_ms": _number(first_value("offset-commit-avg-time-ms")),
        "commits_total": _integer(first_value("offset-commit-completion-total")),
        "errors": {
            "failed": _integer(first_value("total-record-errors")),
            "skipped": _integer(first_value("total-records-skipped")),
            "logged": _integer(first_value("total-errors-logged")),
            "dead_lettered": _integer(first_value("deadletterqueue-produce-requests")),
        },
    }


def _state_fields(
    metrics: MetricsRegistry, snapshot: Snapshot, current: CurrentMetrics, task: TaskId, now_s: float
) -> dict[str, Json]:
    state = task_state(snapshot, task)
    backlog = current.backlogs.get(task) if state is State.RUNNING else None
    progress = task_progress(current, task, state, now_s, metrics.stall_timeout_s, task_trace(snapshot, task))
    return {
        "backlog_records": None if backlog is None else backlog.records,
        "stalled": progress.stalled,
        "stall_cause": progress.cause,
        "step_ms": _ms(progress.step_s),
        "last_batch_age_ms": _ms(progress.batch_age_s),
    }


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 2)


def _integer(value: float | None) -> int | None:
    return None if value is None or not math.isfinite(value) else round(value)

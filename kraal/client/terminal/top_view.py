"""View of `kraal top`: the tasks of a cluster with their metrics, and totals by worker. Pure functions.

Source: `GET /connectors?expand=status&expand=progress`, docs/metrics.md; Java workers have no progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kraal.client.status_tables import FAILED, NONE, RUNNING, failure_cause
from kraal.client.terminal.screen import fit_lines
from kraal.client.text import cut, table
from kraal.core.printable import printable

WORKER_HEAD = ("WORKER", "CONNECTORS", "TASKS", "REC/S", "BACKLOG")
TASK_HEAD = (
    *("NAME", "TASK", "STATE", "WORKER", "REC/S", "BACKLOG"),
    *("POLL MS", "WRITE MS", "COMMIT MS", "ERRORS", "AGE", "NOTE"),
)
_RIGHT_ALIGNED_COLUMNS = {"CONNECTORS", "TASKS", "TASK", *TASK_HEAD[4:-1]}
_AGE_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_WORKERS_DIVISOR = 3
"""The worker table occupies at most a third of the screen."""


@dataclass(frozen=True, slots=True)
class Row:
    """A task, or a connector instance that has no tasks or is not running."""

    name: str
    type: str
    task: int | None
    """Task number; None for a connector instance."""
    state: str
    worker: str
    trace: str
    """Root cause in the trace."""
    progress: Mapping[str, Any] | None
    """The task's metrics; None if no worker reported them."""

    def number(self, field: str) -> float | None:
        """Return a metric; None if it is unknown."""
        value = None if self.progress is None else self.progress.get(field)
        return value if isinstance(value, int | float) else None

    @property
    def errors(self) -> int | None:
        """Number of records with errors; None if it is unknown."""
        failed_count = None if self.progress is None else self.progress.get("errors", {}).get("failed")
        return failed_count if isinstance(failed_count, int) else None


@dataclass(frozen=True, slots=True)
class Cluster:
    """State of a cluster, as reported by a worker."""

    rows: Sequence[Row]
    connectors: Mapping[str, int]
    """Number of connector instances by worker."""
    silent: Sequence[str]
    """Workers that did not report metrics."""


@dataclass(frozen=True, slots=True)
class Sort:
    """Sort order of the rows."""

    label: str
    """Key to press and name of the order, as shown in the second line."""
    key: Callable[[Row], Any]

    def sorted(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows in this order; rows with equal values are sorted by name."""
        by_name = sorted(rows, key=lambda row: (row.name, -1 if row.task is None else row.task))
        return sorted(by_name, key=self.key)


def _largest_first(field: str) -> Callable[[Row], float]:
    """Return a sort key that puts the largest value first and rows without a value last."""

    def key(row: Row) -> float:
        number = row.number(field)
        return 1.0 if number is None else -number

    return key


SORTS: Mapping[str, Sort] = {
    "rate": Sort("r rate", _largest_first("records_per_second")),
    "backlog": Sort("b backlog", _largest_first("backlog_records")),
    "errors": Sort("e errors", lambda row: 1 if row.errors is None else -row.errors),
    "age": Sort("a age", _largest_first("last_batch_age_ms")),
    "state": Sort("s state", lambda row: (row.state == RUNNING, row.state != FAILED, row.state)),
    "worker": Sort("w worker", lambda row: row.worker),
    "name": Sort("n name", lambda row: row.name),
}
KEYS = {sort.label[0]: name for name, sort in SORTS.items()}
"""Sort order by key."""


def parse_cluster(response: Mapping[str, Any], patterns: Sequence[str] = ()) -> Cluster:
    """Parse the worker's response; with patterns, keep only connectors whose names match one of them."""
    rows: list[Row] = []
    counts: dict[str, int] = {}
    silent_workers: dict[str, None] = {}
    for name, entry in response.items():
        if patterns and not any(fnmatchcase(name, pattern) for pattern in patterns):
            continue
        status, progress = entry.get("status") or {}, entry.get("progress") or {}
        kind, connector = str(status.get("type", NONE)), status.get("connector") or {}
        worker = _worker(connector)
        counts[worker] = counts.get(worker, 0) + 1
        silent_workers |= dict.fromkeys(map(str, progress.get("silent", ())))
        metrics = {task["id"]: task for task in progress.get("tasks", ())}
        tasks = status.get("tasks") or ()
        if not tasks or connector.get("state") != RUNNING:
            rows.append(_build_row(name, kind, None, connector, None))
        rows += (_build_row(name, kind, task["id"], task, metrics.get(task["id"])) for task in tasks)
    return Cluster(rows, counts, list(silent_workers))


def worker_sums(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the totals of each worker, sorted by worker."""
    tasks_by_worker: dict[str, list[Row]] = {}
    for row in cluster.rows:
        worker_tasks = tasks_by_worker.setdefault(row.worker, [])
        if row.task is not None:
            worker_tasks.append(row)
    return [
        {
            "worker_id": worker,
            "connectors": cluster.connectors.get(worker, 0),
            "tasks": len(worker_tasks := tasks_by_worker.get(worker, [])),
            "running": sum(row.state == RUNNING for row in worker_tasks),
            "failed": sum(row.state == FAILED for row in worker_tasks),
            "records_per_second": _sum(worker_tasks, "records_per_second"),
            "backlog_records": _sum(worker_tasks, "backlog_records"),
        }
        for worker in sorted({*cluster.connectors, *tasks_by_worker})
    ]


def as_data(cluster: Cluster, sort: Sort) -> dict[str, Any]:
    """Return the cluster as data for scripts; `progress` is the worker's object, unchanged."""
    return {
        "workers": worker_sums(cluster),
        "tasks": [
            {
                "connector": row.name,
                "type": row.type,
                "task": row.task,
                "state": row.state,
                "worker_id": row.worker,
                "trace": row.trace or None,
                "progress": row.progress,
            }
            for row in sort.sorted(cluster.rows)
        ],
        "silent": [*cluster.silent],
    }


def worker_table(
    sums: Sequence[Mapping[str, Any]], columns: int | None = None, *, colored: bool = False
) -> list[str]:
    """Return the lines of the worker table."""
    rows = [
        (
            *(totals["worker_id"], str(totals["connectors"]), _task_counts(totals)),
            *(_format_decimal(totals["records_per_second"]), _format_integer(totals["backlog_records"])),
        )
        for totals in sums
    ]
    return _align(WORKER_HEAD, rows, columns, colored=colored)


def task_table(rows: Iterable[Row], columns: int | None = None, *, colored: bool = False) -> list[str]:
    """Return the lines of the task table."""
    return _align(TASK_HEAD, [_row_cells(row) for row in rows], columns, colored=colored)


def frame(
    title: str,
    cluster: Cluster,
    sort: Sort,
    problem: str,
    *,
    columns: int,
    lines: int,
    colored: bool = False,
) -> list[str]:
    """Return the lines of a screen: title, problems, workers, tasks, and counts of omitted lines."""
    orders = (f"[{order.label}]" if order is sort else order.label for order in SORTS.values())
    notes = [title, f"sort by: {'   '.join(orders)}"]
    notes += [f"{problem}; showing the last known metrics"] if problem else []
    notes += (
        [f"no metrics from {', '.join(cluster.silent)}: stopped, or Java workers"] if cluster.silent else []
    )
    head = [*(cut(printable(note), columns) for note in notes), ""]
    if not cluster.rows:
        return [*head, "No connectors."]
    sums, max_lines = worker_sums(cluster), max(lines // _WORKERS_DIVISOR, 2)
    workers = worker_table(sums[:max_lines], columns, colored=colored)
    head += [*fit_lines(workers, max_lines, columns, "workers", left_out=len(sums[max_lines:])), ""]
    max_lines = max(lines - len(head) - 1, 2)  # the last line is reserved for the cursor
    rows = sort.sorted(cluster.rows)
    # Lay out only the rows that fit, because computing display widths is slow.
    tasks = task_table(rows[:max_lines], columns, colored=colored)
    return head + fit_lines(tasks, max_lines, columns, "tasks", left_out=len(rows[max_lines:]))


def _build_row(
    name: str, kind: str, task: int | None, part: Mapping[str, Any], progress: Mapping[str, Any] | None
) -> Row:
    state, trace = str(part.get("state", NONE)), failure_cause(part)
    return Row(name, kind, task, state, _worker(part), trace, progress)


def _worker(part: Mapping[str, Any]) -> str:
    return str(part.get("worker_id") or NONE)


def _sum(rows: Iterable[Row], field: str) -> float | None:
    values = [number for row in rows if (number := row.number(field)) is not None]
    return round(sum(values), 2) if values else None


def _task_counts(sums: Mapping[str, Any]) -> str:
    failed_text = f", {sums['failed']} failed" if sums["failed"] else ""
    return f"{sums['running']}/{sums['tasks']}{failed_text}"


def _row_cells(row: Row) -> tuple[str, ...]:
    return (
        *(row.name, NONE if row.task is None else str(row.task), row.state, row.worker),
        *(_format_decimal(row.number("records_per_second")), _format_integer(row.number("backlog_records"))),
        *(_format_decimal(row.number(field)) for field in ("poll_ms", "write_ms", "commit_ms")),
        *(_format_integer(row.errors), _format_age(row.number("last_batch_age_ms")), _row_note(row)),
    )


def _row_note(row: Row) -> str:
    if row.progress is not None and row.progress.get("stalled"):
        cause = row.progress.get("stall_cause")
        return (
            f"stalled: {printable(str(cause))}"
            if cause
            else f"stalled for {_format_age(row.number('step_ms'))}"
        )
    return row.trace


def _format_decimal(value: float | None) -> str:
    return NONE if value is None else f"{value:,.1f}"


def _format_integer(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def _format_age(milliseconds: float | None) -> str:
    if milliseconds is None:
        return NONE
    seconds = milliseconds / 1000
    return next((f"{seconds // unit:.0f}{sign}" for unit, sign in _AGE_UNITS if seconds >= unit), "0s")


def _align(
    head: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None, *, colored: bool
) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    aligned_rows = [
        tuple(
            cell.rjust(width) if title in _RIGHT_ALIGNED_COLUMNS else cell
            for title, cell, width in zip(head, line, widths, strict=True)
        )
        for line in (head, *rows)
    ]
    return table(aligned_rows[0], aligned_rows[1:], columns, colored=colored)

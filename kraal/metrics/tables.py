"""Tables that sinks write: the response to `GET /connectors/NAME/tables`, and metric families. Pure.

Only the worker that runs a task has the task's reports. Connect has no such metrics, so the names start with `kraal_`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from kraal.core.ids import State
from kraal.metrics.partition_lags import measure_lag
from kraal.metrics.table_reports import MAX_SCHEMA_CHANGES
from kraal.metrics.text import Family, labels

if TYPE_CHECKING:
    from kraal.core.ids import ConnectorName, TaskId
    from kraal.core.offsets import TopicPartition
    from kraal.metrics.partition_lags import PartitionLags
    from kraal.metrics.registry import CurrentMetrics
    from kraal.metrics.table_reports import TableCommit, TableReport, TableSchemaChange, TableTotals
    from kraal.metrics.task import Time

Table = Mapping[str, Any]
"""A table as in the response."""


def render_tables(current: CurrentMetrics, name: ConnectorName, time: Time) -> list[Table]:
    """Return the tables of a connector's tasks on this worker, one entry for each task and table."""
    return [
        _render_table(task, report, _measure_lags(current, task, report, time))
        for task, report in _list_reports(current)
        if task.connector == name
    ]


def merge_tables(entries: Iterable[Table]) -> list[Table]:
    """Merge the entries of several tasks and workers: one entry for each table, sorted by name.

    The metadata are those of the report with the latest commit, and totals are sums. A partition that several tasks
    report is listed once, with its highest offset.
    """
    entries_by_name: dict[str, list[Table]] = {}
    for entry in entries:
        entries_by_name.setdefault(entry["table"], []).append(entry)
    return [_merge_table(entries_by_name[name]) for name in sorted(entries_by_name)]


def table_families(current: CurrentMetrics, time: Time) -> Iterator[Family]:
    """Yield the families of all tables that tasks of this worker have reported."""
    reports = [
        ((("connector", task.connector), ("task", str(task.task)), ("table", report.table)), task, report)
        for task, report in _list_reports(current)
    ]
    lags = [
        (labels(*pairs), [*_measure_lags(current, task, report, time).values()])
        for pairs, task, report in reports
        if not _is_paused(current, task)
    ]
    lagging = [(label, each) for label, each in lags if each]
    yield Family(
        "kraal_table_lag_records",
        "gauge",
        "Offsets between a table and the end of the partitions of a task.",
        [(label, sum(records for records, _ in each)) for label, each in lagging],
    )
    yield Family(
        "kraal_table_lag_seconds",
        "gauge",
        "Maximum time by which a table is behind a partition of a task.",
        [(label, max(seconds for _, seconds in each)) for label, each in lagging],
    )
    names = [(labels(*pairs), report) for pairs, _, report in reports]
    yield Family(
        "kraal_table_rows",
        "gauge",
        "Rows of a table, according to its metadata.",
        [(name, report.rows) for name, report in names if report.rows is not None],
    )
    yield Family(
        "kraal_table_files",
        "gauge",
        "Data files of a table, according to its metadata.",
        [(name, report.files) for name, report in names if report.files is not None],
    )
    for name, text, attribute in _COUNTERS:
        yield Family(
            name, "counter", text, [(label, getattr(report.totals, attribute)) for label, report in names]
        )
    for name, text, changes in _COUNTERS_BY_CHANGE:
        rows = [
            (labels(*pairs, ("change", change)), getattr(report.totals, attribute))
            for pairs, _, report in reports
            for change, attribute in changes.items()
        ]
        yield Family(name, "counter", text, rows)


_COUNTERS: Final = (
    ("kraal_table_commits_total", "Commits of a task to a table since the task was started.", "commits"),
    ("kraal_table_commit_seconds_total", "Total duration of these commits.", "commit_s"),
    (
        "kraal_table_conflicts_total",
        "Commits that were repeated because another writer had committed.",
        "conflicts",
    ),
    ("kraal_table_schema_changes_total", "Columns that were added or widened.", "schema_changes"),
)
"""Names, descriptions, and fields of `TableTotals`."""
_COUNTERS_BY_CHANGE: Final = (
    (
        "kraal_table_changed_rows_total",
        "Rows that the commits of a task have added, updated and deleted.",
        {"added": "rows_added", "updated": "rows_updated", "deleted": "rows_deleted"},
    ),
    (
        "kraal_table_changed_files_total",
        "Data files that the commits of a task have added and removed.",
        {"added": "files_added", "removed": "files_removed"},
    ),
)


def _list_reports(current: CurrentMetrics) -> list[tuple[TaskId, TableReport]]:
    """Return the reports of the tasks that run or have failed on this worker."""
    return [
        (task, current.tables[task][table])
        for task in sorted(current.tables)
        if task in current.plugin_versions
        for table in sorted(current.tables[task])
    ]


def _is_paused(current: CurrentMetrics, task: TaskId) -> bool:
    instance = current.instance_states.get(task)
    return instance is not None and instance.state is State.PAUSED


def _measure_lags(
    current: CurrentMetrics, task: TaskId, report: TableReport, time: Time
) -> dict[TopicPartition, tuple[int, float]]:
    """Return how far a table is behind the known ends of its partitions, in records and seconds.

    A commit of another table of the task also shows that records up to its timestamp are written.
    """
    lags: PartitionLags = current.lags.get(task, {})
    now_s, now_ms = time.now(), time.wall_ms()
    measured = {}
    for partition in sorted(lags.keys() & report.offsets.keys()):
        written_ms = [
            other.timestamps_ms[partition]
            for other in current.tables[task].values()
            if partition in other.timestamps_ms
        ]
        age_s = (now_ms - max(written_ms)) / 1000 if written_ms else None
        measured[partition] = measure_lag(lags[partition], report.offsets[partition] or 0, age_s, now_s)
    return measured


# --- entries of the response ------------------------------------------------------------------------------


def _render_table(
    task: TaskId, report: TableReport, lags: Mapping[TopicPartition, tuple[int, float]]
) -> Table:
    return {
        "table": report.table,
        "format": report.format,
        "version": report.version,
        "reported_ms": report.time_ms,
        "rows": report.rows,
        "files": report.files,
        "size_bytes": report.size_bytes,
        "columns": [{"name": name, "type": type_name} for name, type_name in report.columns.items()],
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "task": task.task,
                "offset": offset,
                "lag_records": lags[partition][0] if partition in lags else None,
                "lag_ms": round(lags[partition][1] * 1000) if partition in lags else None,
            }
            for partition, offset in sorted(report.offsets.items())
        ],
        "commits": [_render_commit(commit) for commit in report.commits],
        "schema_changes": [_render_schema_change(change) for change in report.schema_changes],
        "totals": _render_totals(report.totals),
    }


def _render_commit(commit: TableCommit) -> dict[str, Any]:
    offsets = None
    if commit.offsets is not None:
        offsets = [
            {"topic": partition.topic, "partition": partition.partition, "offset": offset}
            for partition, offset in sorted(commit.offsets.items())
        ]
    return {**asdict(replace(commit, offsets=None)), "offsets": offsets}


def _render_schema_change(change: TableSchemaChange) -> dict[str, Any]:
    return asdict(change)


def _render_totals(totals: TableTotals) -> dict[str, int]:
    fields = asdict(totals)
    commit_s: float = fields.pop("commit_s")
    return {**fields, "commit_ms": round(commit_s * 1000)}


def _get_time(entry: Table) -> tuple[int, int]:
    """Return the times of the latest commit and of the report."""
    commits = entry["commits"]
    return (commits[0]["time_ms"] or 0) if commits else 0, entry["reported_ms"]


def _get_latest(entries: Sequence[Table]) -> Table:
    """Return the entry with the latest version.

    An entry is outdated if another one lists its version among its older commits. Times decide only between the others,
    because the clocks of writers may differ.
    """
    older_versions = {commit["version"] for entry in entries for commit in entry["commits"][1:]}
    return max([each for each in entries if each["version"] not in older_versions] or entries, key=_get_time)


def _merge_table(entries: Sequence[Table]) -> Table:
    latest = _get_latest(entries)
    partitions: dict[tuple[str, int], Mapping[str, Any]] = {}
    for partition in (each for entry in entries for each in entry["partitions"]):
        key = partition["topic"], partition["partition"]
        if key not in partitions or (partitions[key]["offset"] or 0) < (partition["offset"] or 0):
            partitions[key] = partition
    changes = {
        (change["version"], change["column"], change["new_type"]): change
        for entry in entries
        for change in entry["schema_changes"]
    }
    newest = sorted(changes.values(), key=lambda change: change["time_ms"] or 0, reverse=True)
    return {
        **latest,
        "partitions": [partitions[key] for key in sorted(partitions)],
        "schema_changes": newest[:MAX_SCHEMA_CHANGES],
        "totals": {
            field: sum(entry["totals"].get(field, 0) for entry in entries) for field in latest["totals"]
        },
    }

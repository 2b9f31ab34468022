"""Reports what a task has written to a table, and what the table's metadata says about it.

The information of a commit (offsets, numbers of rows, schema changes) is part of the commit itself, so the reports of
all tasks and workers contain the same commits, also after a restart.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kraal.metrics.table_reports import MAX_SCHEMA_CHANGES
from kraal.plugins.api import TableReport, TableSchemaChange, TableTotals, TopicPartition

if TYPE_CHECKING:
    from kraal.connectors.tables.table import LakeTable

log = logging.getLogger(__name__)

SCHEMA_CHANGES: Final = "kraal.schema-changes"
"""The property of a commit with its changes of the schema, as JSON."""
_FIELDS: Final = ("record", "column", "old_type", "new_type")


class TableReporter:
    """Publishes the state of one table after each batch of a task. Not thread-safe. A failure never fails the task."""

    def __init__(
        self,
        table: LakeTable,
        publish: Callable[[TableReport], None],
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._table, self._publish, self._now_ms = table, publish, now_ms
        self._assigned: Collection[TopicPartition] = ()
        self._latest: TableReport | None = None
        self._totals = TableTotals()
        self._timestamps_ms: dict[TopicPartition, int] = {}
        self._schema_changes: Sequence[TableSchemaChange] = ()
        self._is_committed = False
        """Whether the next reported version is a commit of this task that is not part of the totals yet."""

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Replace the partitions that reports contain."""
        self._assigned = partitions

    def reassign(self, partitions: Collection[TopicPartition]) -> None:
        """Replace the partitions that reports contain, and publish the latest report without those that are lost."""
        self._assigned = partitions
        if self._latest is not None:
            offsets, timestamps_ms = self._latest.offsets, self._latest.timestamps_ms
            self._publish_report(
                replace(
                    self._latest,
                    offsets={each: offset for each, offset in offsets.items() if each in partitions},
                    timestamps_ms={each: time for each, time in timestamps_ms.items() if each in partitions},
                )
            )

    def record_conflict(self) -> None:
        """Record a commit that failed because another writer had committed."""
        self._totals = replace(self._totals, conflicts=self._totals.conflicts + 1)

    def record_commit(self, duration_s: float, schema_changes: int) -> None:
        """Record a commit, whose version must be reported next."""
        totals = self._totals
        self._totals = replace(
            totals,
            commits=totals.commits + 1,
            commit_s=totals.commit_s + duration_s,
            schema_changes=totals.schema_changes + schema_changes,
        )
        self._is_committed = True

    def record_timestamps(self, records: pa.Table) -> None:
        """Record the maximum timestamp of each partition, if the records have timestamps."""
        if "timestamp" not in records.column_names:
            return
        grouped = records.group_by(["topic", "partition"]).aggregate([("timestamp", "max")])
        milliseconds = grouped["timestamp_max"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        for topic, partition, time_ms in zip(
            grouped["topic"].to_pylist(),
            grouped["partition"].to_pylist(),
            milliseconds.to_pylist(),
            strict=True,
        ):
            if time_ms is not None:
                self._timestamps_ms[TopicPartition(topic, partition)] = time_ms

    def report(self, handle: Any, offsets: Mapping[TopicPartition, int]) -> None:
        """Publish the state of a version, with the next offsets of the assigned partitions.

        `handle` is the library's object for the version; None if the table does not exist.
        """
        try:
            description = (
                TableReport(table=self._table.name, format=self._table.format)
                if handle is None
                else self._table.describe(handle)
            )
        except Exception as error:  # noqa: BLE001 - the library may raise anything, and the batch is written
            log.warning("%s: Failed to read the metadata for reports: %s", self._table.name, error)
            return
        if self._is_committed:
            self._is_committed = False
            self._totals = _add_commit(self._totals, description)
        self._schema_changes = _merge_changes(description.schema_changes, self._schema_changes)
        self._publish_report(
            replace(
                description,
                time_ms=self._now_ms(),
                schema_changes=self._schema_changes,
                offsets={partition: offsets.get(partition) for partition in self._assigned},
                timestamps_ms={
                    partition: time_ms
                    for partition, time_ms in self._timestamps_ms.items()
                    if partition in self._assigned
                },
                totals=self._totals,
            )
        )

    def _publish_report(self, report: TableReport) -> None:
        self._latest = report
        self._publish(report)


def _add_commit(totals: TableTotals, description: TableReport) -> TableTotals:
    """Return totals with the counts of the latest commit."""
    if not description.commits:
        return totals
    commit = description.commits[0]
    return replace(
        totals,
        rows_added=totals.rows_added + (commit.rows_added or 0),
        rows_updated=totals.rows_updated + (commit.rows_updated or 0),
        rows_deleted=totals.rows_deleted + (commit.rows_deleted or 0),
        files_added=totals.files_added + (commit.files_added or 0),
        files_removed=totals.files_removed + (commit.files_removed or 0),
    )


def _merge_changes(
    found: Sequence[TableSchemaChange], known: Sequence[TableSchemaChange]
) -> Sequence[TableSchemaChange]:
    """Return the changes in the metadata, followed by known ones that it no longer contains."""
    versions = {change.version for change in found}
    return [*found, *(change for change in known if change.version not in versions)][:MAX_SCHEMA_CHANGES]


def format_schema_changes(changes: Sequence[TableSchemaChange]) -> str:
    """Return changes as JSON, without version and time, which are those of the commit."""
    entries = [{name: getattr(change, name) for name in _FIELDS} for change in changes[:MAX_SCHEMA_CHANGES]]
    return json.dumps(entries, separators=(",", ":"))


def parse_schema_changes(text: str, version: str, time_ms: int | None) -> list[TableSchemaChange]:
    """Return the changes that `format_schema_changes` has written to a commit. Raises ValueError and TypeError."""
    return [TableSchemaChange(**entry, version=version, time_ms=time_ms) for entry in json.loads(text)]


def get_count(properties: Mapping[str, Any], name: str, default: int | None = None) -> int | None:
    """Return a property that is a whole number."""
    value = properties.get(name)
    return default if value is None else int(value)

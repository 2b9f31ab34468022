"""Reports of sink tasks about the tables that they write; part of the plugin API (`TaskContext.report_table`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from typing_extensions import override

from kraal.core.offsets import TopicPartition

MAX_COMMITS: Final = 20
"""Maximum number of commits in a report."""
MAX_SCHEMA_CHANGES: Final = 100
"""Maximum number of schema changes in a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchemaChange:
    """A column that was added to a table, or whose type was changed."""

    record: str
    """The record that required the change, as `topic-partition@offset`."""
    column: str
    """The column; a nested field has a path such as `address.street`."""
    old_type: str | None
    """None for a new column."""
    new_type: str
    version: str = ""
    """The version of the table that has the change; empty before the commit."""
    time_ms: int | None = None
    """Time of the commit in milliseconds since the epoch; None before the commit."""

    @override
    def __str__(self) -> str:
        if self.old_type is None:
            return f"add column {self.column} {self.new_type}, because of {self.record}"
        return f"widen column {self.column} from {self.old_type} to {self.new_type}, because of {self.record}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """A commit to a table, by this task or any other writer. Counts are None if the table does not contain them."""

    version: str
    time_ms: int | None
    """Milliseconds since the epoch."""
    operation: str
    """The name that the format gives to the operation, such as `append`."""
    offsets: Mapping[TopicPartition, int] | None = None
    """The next offsets of the connector that the commit contains; None if it contains none."""
    rows_added: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    files_added: int | None = None
    files_removed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTotals:
    """What a task has done to a table since the task was started."""

    commits: int = 0
    commit_s: float = 0.0
    """Total duration of the commits, in seconds."""
    rows_added: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files_added: int = 0
    files_removed: int = 0
    conflicts: int = 0
    """Commits that were repeated because another writer had committed."""
    schema_changes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """The state of a table, and what a task has done to it."""

    table: str
    format: str
    """The format in lower case, such as `iceberg`."""
    version: str | None = None
    """The version that the report describes; None if the table does not exist yet."""
    time_ms: int = 0
    """Time of the report in milliseconds since the epoch."""
    rows: int | None = None
    files: int | None = None
    size_bytes: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    """The type of each column, in the order of the table."""
    commits: Sequence[TableCommit] = ()
    """The latest commits, up to `MAX_COMMITS`, newest first."""
    schema_changes: Sequence[TableSchemaChange] = ()
    """The latest changes of the schema, up to `MAX_SCHEMA_CHANGES`, newest first."""
    offsets: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    """The next offset of each of the task's partitions, as the table contains it; None if it contains none."""
    timestamps_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The timestamps of the latest records that this task has written, by partition."""
    totals: TableTotals = TableTotals()


def find_new_changes(before: TableReport, after: TableReport) -> list[TableSchemaChange]:
    """Return the changes of the schema that records of the task's partitions required since a report, oldest first."""
    known = {change.version for change in before.schema_changes}
    partitions = {f"{partition.topic}-{partition.partition}" for partition in after.offsets}
    return [
        change
        for change in reversed(after.schema_changes)
        if change.version not in known and change.record.rpartition("@")[0] in partitions
    ]


def ignore_report(report: TableReport) -> None:
    """Drop a report, because there is no runtime."""
    del report

"""The write paths for a batch of a sink, and the pure function that chooses between them.

A *tail* consists of records that the consumer has fetched; a *backlog* is a range of offsets that Spark reads. A
tail with a header whose name is not UTF-8 is treated as a backlog, because librdkafka's Python client cannot return
such names.

| path | class | transforms and converters run |
|---|---|---|
| `DIRECT` | `direct.DirectWriter` | not at all: the plugin accepts tables, with the bytes unchanged |
| `TAIL` | `plain.PlainWriter` | as columns, over an Arrow table |
| `TAIL_BY_RECORDS` | `transformed.TailByRecords` | in this process |
| `BACKLOG` | `plain.PlainWriter` | as columns |
| `BACKLOG_BY_COLUMNS` | `transformed.BacklogByColumns` | as columns, if all records have the form of a sample |
| `BACKLOG_BY_RECORDS` | `transformed.BacklogByRecords` | in Spark's Python workers |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from kraal.engine.records.steps import Summary
from kraal.engine.session.row_counts import RowCounts
from kraal.engine.sink.ranges import Ranges
from kraal.engine.write_path_choice import Choice

if TYPE_CHECKING:
    import pyarrow as pa

    from kraal.engine.session.session import Spark

Put = Callable[..., None]
"""Calls the plugin: `put(frame, key_schema, value_schema, values=…, records=…, table=…)`. All arguments are optional
except the frame, which is None with a table."""


GetSpark = Callable[[], "Spark"]
"""Returns Spark, in the task's job group; called only for batches that require a job. Raises SparkUnavailable."""


class RecordPathRequired(Exception):
    """The batch requires the record path, and the plugin has received none of its records."""


class WritePath(Enum):
    """A write path; the value is its description in `kraal describe`."""

    DIRECT = "read by the consumer, without a job"
    TAIL = "read by the consumer, converted by columns"
    TAIL_BY_RECORDS = "read by the consumer, record by record in the worker"
    BACKLOG = "read by Spark, converted by columns"
    BACKLOG_BY_COLUMNS = "read by Spark, transformed by columns"
    BACKLOG_BY_RECORDS = "read by Spark, record by record in Spark's Python processes"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFacts:
    """The properties of all batches of a task, from its plugins and configs."""

    by_records: str | None = None
    """Why records are processed one by one unless a batch has a column form; None if columns have the same result."""
    has_column_form: bool = False
    """Whether a batch of transformed records may have a column form."""
    is_direct: bool = False
    """Whether a tail can be passed to the plugin as a table, without Spark."""
    can_wait: bool = False
    """Whether to wait for records instead of polling: a tail requires no job, and the config sets no poll interval."""


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """The records of a batch."""

    ranges: Ranges
    records: int
    """The number of records; for a backlog, an upper bound, because a range may have gaps."""
    table: pa.Table | None = None
    """The records of a tail; None if Spark must read the ranges."""
    is_tail: bool = False
    """Whether the consumer has fetched the records; Spark reads them again if `table` is None."""
    reads: RowCounts | None = field(default=None, compare=False)
    """Counts the rows that Spark reads, on write paths whose writer does not count them; None to count nothing."""


class SinkWriter(Protocol):
    """Writes the batches of one run on one write path."""

    def write(self, batch: ReadBatch, spark: GetSpark, put: Put) -> Summary | None:
        """Write a batch through the plugin; return the outcomes of its records, or None if all were written.

        Must be called on a job thread. Raises RecordPathRequired, and the errors of the plugin, of records and of dead
        letters.
        """


def choose(task: SinkFacts, batch: ReadBatch, *, differs: bool = False) -> Choice[WritePath]:
    """Choose the write path for a batch; `differs` is whether its records do not have the form of the sample."""
    if batch.table is not None:
        cause = "few new records"
        if task.by_records is None:
            return Choice(WritePath.DIRECT if task.is_direct else WritePath.TAIL, cause)
        return Choice(WritePath.TAIL_BY_RECORDS, f"{cause}, {task.by_records}")
    cause = "records with a header name that is not UTF-8" if batch.is_tail else "many new records"
    if task.by_records is None:
        return Choice(WritePath.BACKLOG, cause)
    if task.has_column_form and not differs:
        return Choice(
            WritePath.BACKLOG_BY_COLUMNS, f"{cause}, and their schema and transforms have a column form"
        )
    reason = "some of which differ in form from the first record" if task.has_column_form else task.by_records
    return Choice(WritePath.BACKLOG_BY_RECORDS, f"{cause}, {reason}")

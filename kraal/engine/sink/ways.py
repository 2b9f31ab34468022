"""The ways to have a sink write a batch, and the choice between them. The choice is pure.

A *tail* is records that the consumer has fetched already; a *backlog* is a range of offsets that Spark reads. A tail
with a header whose name is not UTF-8 passes as a backlog, because librdkafka's Python client cannot return such names.

| way | class | transforms and converters run |
|---|---|---|
| `DIRECT` | `direct.Direct` | not needed: the plugin takes tables, and the bytes as they are |
| `TAIL` | `plain.Plain` | as columns, over an Arrow table |
| `TAIL_BY_RECORDS` | `transformed.TailByRecords` | in this process |
| `BACKLOG` | `plain.Plain` | as columns |
| `BACKLOG_BY_COLUMNS` | `transformed.BacklogByColumns` | as columns, if all records have the form of a sample |
| `BACKLOG_BY_RECORDS` | `transformed.BacklogByRecords` | in Spark's Python processes |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from kraal.engine.records.steps import Summary
from kraal.engine.sink.ranges import Ranges
from kraal.engine.way import Choice

if TYPE_CHECKING:
    import pyarrow as pa

    from kraal.engine.session.session import Spark

Put = Callable[..., None]
"""Has the plugin write: `put(frame, key_schema, value_schema, values=…, records=…, table=…)`; all but the frame, which
is None with a table, may be left out."""


GetSpark = Callable[[], "Spark"]
"""Returns Spark, in the task's job group; a batch that needs no job does not call it. Raises SparkUnavailable."""


class NotByColumns(Exception):
    """The batch needs the record path, and the plugin has received none of its records."""


class Way(Enum):
    """A way to have a batch written; the value is its text in `kraal describe`."""

    DIRECT = "read by the consumer, without a job"
    TAIL = "read by the consumer, converted by columns"
    TAIL_BY_RECORDS = "read by the consumer, record by record in the worker"
    BACKLOG = "read by Spark, converted by columns"
    BACKLOG_BY_COLUMNS = "read by Spark, transformed by columns"
    BACKLOG_BY_RECORDS = "read by Spark, record by record in Spark's Python processes"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """The properties of all batches of a task, from its plugins and configs."""

    by_records: str | None = None
    """Why records pass one by one unless a batch has a column form; None: columns do the same."""
    column_form: bool = False
    """Whether a batch of transformed records may have a column form."""
    direct: bool = False
    """Whether few records need no Spark: the plugin takes tables in the form that they have."""
    waits: bool = False
    """Whether to wait for records in place of polls: few need no job, and the connector sets no poll interval."""


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """The records of a batch."""

    ranges: Ranges
    records: int
    """The number of records; of a backlog at most, because a range may have gaps."""
    table: pa.Table | None = None
    """The records of a tail; None: Spark reads the ranges."""
    is_tail: bool = False
    """Whether the consumer has fetched the records. Without a table, Spark has to read them again."""


class SinkWay(Protocol):
    """One way to have batches of one run written."""

    def write(self, batch: ReadBatch, spark: GetSpark, put: Put) -> Summary | None:
        """Have the plugin write a batch; return the outcomes of its records, None if all were written. Job thread.

        Raises NotByColumns, and the errors of the plugin, of records and of dead letters.
        """


def choose(task: TaskFacts, batch: ReadBatch, *, differs: bool = False) -> Choice[Way]:
    """Choose how to have a batch written; `differs`: its records do not have the form of a sample."""
    if batch.table is not None:
        cause = "few records wait"
        if task.by_records is None:
            return Choice(Way.DIRECT if task.direct else Way.TAIL, cause)
        return Choice(Way.TAIL_BY_RECORDS, f"{cause}, {task.by_records}")
    cause = "a header's name is not UTF-8" if batch.is_tail else "many records wait"
    if task.by_records is None:
        return Choice(Way.BACKLOG, cause)
    if task.column_form and not differs:
        return Choice(Way.BACKLOG_BY_COLUMNS, f"{cause}, and their schema and transforms have a column form")
    reason = "some have another form than the first one" if task.column_form else task.by_records
    return Choice(Way.BACKLOG_BY_RECORDS, f"{cause}, {reason}")

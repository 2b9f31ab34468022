"""The write paths for a batch of a source, and the pure function that chooses between them.

| path | class | records come from | transforms and converters run |
|---|---|---|---|
| `LANE` | `queued.QueuedTable` | the plugin | not at all: the records are already bytes |
| `WORKER_PRODUCER` | `queued.QueuedTable` | the plugin | not at all, as for `LANE` |
| `COALESCED` | `queued.QueuedTable` | the plugin | as columns in a job shared with other tasks |
| `IN_WORKER` | `in_worker.InWorker` | the plugin | in this process; the rows then take one of the paths above |
| `OWN_JOB` | `own_job.OwnJob` | Spark, or the plugin | as columns, else in Spark's Python workers |
| `TRANSACTION` | `exactly_once.TransactionWriter` | Spark, or the plugin | as above; sent by the task's producer |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from kraal.engine.executor import JobResult
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.lanes.rows import MAX_ROWS, is_small
from kraal.engine.write_path_choice import Choice
from kraal.plugins.api import SourceBatch

MAX_WORKER_ROWS = 5000
"""Maximum number of records of a batch that the worker processes, in 0.1 to 0.2 s, which is less than a Spark job."""


class WritePath(Enum):
    """A write path; the value is its description in `kraal describe`."""

    LANE = "through the lane, without a job"
    WORKER_PRODUCER = "by a producer in the worker, without Spark"
    COALESCED = "by columns, in a Spark job shared with other tasks"
    IN_WORKER = "record by record in the worker, then without a job or in a Spark job shared with other tasks"
    OWN_JOB = "in a separate Spark job"
    TRANSACTION = "in a transaction of the task's producer"


JOBLESS: Final = frozenset({WritePath.LANE, WritePath.WORKER_PRODUCER})
"""The write paths that need no Spark job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """The properties of all batches of a task, from its plugins and configs."""

    by_records: str | None = None
    """Why records are processed one by one unless a batch has a column form; None if columns have the same result."""
    transactional: bool = False

    @property
    def allows_jobless_writes(self) -> bool:
        """Whether small batches may be sent without a job."""
        return self.by_records is None and not self.transactional


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledBatch:
    """A batch that the plugin returned."""

    batch: SourceBatch
    number: int
    """The number of the batch in this run, from 1."""
    poll_s: float
    """The duration of the poll."""
    plan: WritePlan | None = None
    """The plan to write the columns of this table, without producer options; None for other write paths."""
    topic: str | None = None
    """The topic of all records that the plan writes; None if there is a `topic` column."""
    by_columns: bool = False
    """Whether the plan contains the transforms in their column form."""
    is_plain: bool = False
    """Whether the table's keys and values are the bytes to write."""
    is_convertible: bool = False
    """Whether this small table is not plain, and the worker can convert it with the same result as Spark."""
    jobless_path: WritePath | None = None
    """The path on which this small table, once converted, can now be sent without a job, or None."""
    size: int = 0
    """The size of the table in bytes; 0 without a table."""

    @property
    def row_count(self) -> int | None:
        """The number of records; None if Spark reads them."""
        return None if self.batch.table is None else int(self.batch.table.num_rows)

    @property
    def is_small(self) -> bool:
        """Whether the batch is small enough to be sent without a job."""
        return self.row_count is not None and is_small(self.row_count, self.size)


class SourceWriter(Protocol):
    """Writes the batches of one run on one write path."""

    def write(self, polled: PolledBatch, done: Callable[[JobResult], None]) -> None:
        """Start writing the batch; `done` receives a BatchDone, None or an error, on any thread. Returns at once."""


def choose(task: SourceFacts, polled: PolledBatch) -> Choice[WritePath]:
    """Choose the write path for a batch."""
    row_count = polled.row_count
    if task.transactional:
        return Choice(WritePath.TRANSACTION, "the worker has exactly-once support")
    if row_count is None:
        reason = "Spark reads the records"
        return Choice(
            WritePath.OWN_JOB, reason if task.by_records is None else f"{reason}, {task.by_records}"
        )
    if task.allows_jobless_writes and polled.jobless_path is not None:
        if polled.is_plain:
            return Choice(polled.jobless_path, f"at most {MAX_ROWS} records, which require no conversion")
        if polled.is_convertible:
            return Choice(WritePath.IN_WORKER, f"at most {MAX_ROWS} records, which require only conversion")
    if task.by_records is None:
        return Choice(WritePath.COALESCED, "the plugin returns the records")
    if polled.by_columns:
        return Choice(WritePath.COALESCED, "every transform has a column form for these records")
    if row_count <= MAX_WORKER_ROWS:
        return Choice(WritePath.IN_WORKER, f"at most {MAX_WORKER_ROWS} records, {task.by_records}")
    return Choice(WritePath.OWN_JOB, f"more than {MAX_WORKER_ROWS} records, {task.by_records}")

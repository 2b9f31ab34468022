"""The ways to write a batch of a source, and the choice between them. The choice is pure.

| way | class | records come from | transforms and converters run |
|---|---|---|---|
| `LANE` | `queued.QueuedTable` | the plugin | not at all: the records are already bytes |
| `WORKER_PRODUCER` | `queued.QueuedTable` | the plugin | as for `LANE`, without Spark |
| `COALESCED` | `queued.QueuedTable` | the plugin | as columns in a job shared with other tasks |
| `IN_WORKER` | `in_worker.InWorker` | the plugin | in this process; the rows are then sent in one of the above ways |
| `OWN_JOB` | `own_job.OwnJob` | Spark, or the plugin | as columns, else in Spark's Python workers |
| `TRANSACTION` | `exactly_once.TransactionWay` | both | as in the other ways; the task's own producer sends the rows |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kraal.engine.executor import JobResult
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.lanes.rows import MAX_ROWS, is_small
from kraal.engine.way import Choice
from kraal.plugins.api import SourceBatch

MAX_WORKER_ROWS = 5000
"""Maximum number of records that the worker processes itself, which takes 0.1 to 0.2 s, less than Spark's overhead."""


class Way(Enum):
    """A way to write a batch; the value is its description in `kraal describe`."""

    LANE = "through the lane, without a job"
    WORKER_PRODUCER = "by a producer in the worker, without Spark"
    COALESCED = "by columns, in a Spark job shared with other tasks"
    IN_WORKER = "record by record in the worker, then without a job or in a Spark job shared with other tasks"
    OWN_JOB = "in a Spark job of its own"
    TRANSACTION = "in a transaction of the task's own producer"


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
    """The plan to write the columns of this table, without producer options; None if there is none (yet)."""
    topic: str | None = None
    """The topic of all records that the plan writes; None if there is a column."""
    by_columns: bool = False
    """Whether the plan contains the transforms in their column form."""
    is_plain: bool = False
    """Whether the table's keys and values are the bytes to write."""
    passes_here: bool = False
    """Whether the worker can convert the records of this small table with the same result as Spark."""
    without_job: Way | None = None
    """The way to send this small table now without a job, once its records are bytes; None if there is none."""
    size: int = 0
    """The size of the table in bytes; 0 without one."""

    @property
    def rows(self) -> int | None:
        """The number of records; None if Spark reads them."""
        return None if self.batch.table is None else int(self.batch.table.num_rows)

    @property
    def is_small(self) -> bool:
        """Whether the batch is small enough to be sent without a job."""
        return self.rows is not None and is_small(self.rows, self.size)


class SourceWay(Protocol):
    """A way to write batches, for one run."""

    def write(self, polled: PolledBatch, done: Callable[[JobResult], None]) -> None:
        """Start writing the batch; `done` receives a BatchDone, None or an error, on any thread. Returns at once."""


def choose(task: SourceFacts, polled: PolledBatch) -> Choice[Way]:
    """Choose the way to write a batch."""
    rows = polled.rows
    if task.transactional:
        return Choice(Way.TRANSACTION, "the worker has exactly-once support")
    if rows is None:
        reason = "Spark reads the records"
        return Choice(Way.OWN_JOB, reason if task.by_records is None else f"{reason}, {task.by_records}")
    if task.allows_jobless_writes and polled.without_job is not None:
        if polled.is_plain:
            return Choice(polled.without_job, f"at most {MAX_ROWS} records, which require no conversion")
        if polled.passes_here:
            return Choice(Way.IN_WORKER, f"at most {MAX_ROWS} records, which require only conversion")
    if task.by_records is None:
        return Choice(Way.COALESCED, "the plugin returns the records")
    if polled.by_columns:
        return Choice(Way.COALESCED, "every transform has a column form for these records")
    if rows <= MAX_WORKER_ROWS:
        return Choice(Way.IN_WORKER, f"at most {MAX_WORKER_ROWS} records, {task.by_records}")
    return Choice(Way.OWN_JOB, f"more than {MAX_WORKER_ROWS} records, {task.by_records}")

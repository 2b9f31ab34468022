"""The ways to write a batch of a source, and the choice between them. The choice is pure.

| way | class | records come from | transforms and converters run |
|---|---|---|---|
| `LANE` | `queued.QueuedTable` | the plugin | not needed: the records are bytes already |
| `WORKER_PRODUCER` | `queued.QueuedTable` | the plugin | as for `LANE`, without Spark |
| `COALESCED` | `queued.QueuedTable` | the plugin | as columns in a job shared with other tasks |
| `IN_WORKER` | `in_worker.InWorker` | the plugin | in this process; then as the other ways |
| `OWN_JOB` | `own_job.OwnJob` | Spark, or the plugin | as columns, else in Spark's Python processes |
| `TRANSACTION` | `exactly_once.TransactionWay` | both | as in the others; the task's own producer sends the rows |
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
"""Up to this many records pass in the worker: it takes about 0.1 to 0.2 s, less than Spark would add."""


class Way(Enum):
    """A way to write a batch; the value is its text in `kraal describe`."""

    LANE = "through the lane, without a job"
    WORKER_PRODUCER = "by a producer in the worker, without Spark"
    COALESCED = "by columns, in a Spark job shared with other tasks"
    IN_WORKER = "record by record in the worker, then without a job or in a Spark job shared with other tasks"
    OWN_JOB = "in a Spark job of its own"
    TRANSACTION = "in a transaction of the task's own producer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """The properties of all batches of a task, from its plugins and configs."""

    by_records: str | None = None
    """Why records pass one by one unless a batch has a column form; None: columns do the same."""
    transactional: bool = False

    @property
    def may_go_without_job(self) -> bool:
        """Whether small batches may be sent without a job as they are."""
        return self.by_records is None and not self.transactional


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledBatch:
    """A batch that the plugin returned."""

    batch: SourceBatch
    number: int
    """The number of the batch in this run, from 1."""
    poll_s: float
    """How long the plugin took to return it."""
    plan: WritePlan | None = None
    """How a job writes the columns of this table, without its options; None: it is not decided, or not by columns."""
    topic: str | None = None
    """The topic of all records that the plan writes; None: each has its own."""
    by_columns: bool = False
    """Whether the plan contains the transforms in their column form."""
    is_plain: bool = False
    """Whether the table's keys and values are the bytes to write."""
    passes_here: bool = False
    """Whether the worker converts the records of this small table as Spark would."""
    without_job: Way | None = None
    """The way that would send this small table now without a job if its records were bytes; None: none does."""
    size: int = 0
    """The size of the table in bytes; 0 without one."""

    @property
    def rows(self) -> int | None:
        """The number of records; None: Spark reads them."""
        return None if self.batch.table is None else int(self.batch.table.num_rows)

    @property
    def is_small(self) -> bool:
        """Whether it may be sent without a job."""
        return self.rows is not None and is_small(self.rows, self.size)


class SourceWay(Protocol):
    """One way to write batches of one run."""

    def write(self, polled: PolledBatch, done: Callable[[JobResult], None]) -> None:
        """Start to write the batch; `done` receives a BatchDone, None, or an error on any thread. Returns at once."""


def choose(task: TaskFacts, polled: PolledBatch) -> Choice[Way]:
    """Choose how to write a batch."""
    rows = polled.rows
    if task.transactional:
        return Choice(Way.TRANSACTION, "the worker has exactly-once support")
    if rows is None:
        reads = "Spark reads the records"
        return Choice(Way.OWN_JOB, reads if task.by_records is None else f"{reads}, {task.by_records}")
    if task.may_go_without_job and polled.without_job is not None:
        if polled.is_plain:
            return Choice(polled.without_job, f"at most {MAX_ROWS} records, which need no conversion")
        if polled.passes_here:
            return Choice(Way.IN_WORKER, f"at most {MAX_ROWS} records, which need only conversion")
    if task.by_records is None:
        return Choice(Way.COALESCED, "the plugin returns the records")
    if polled.by_columns:
        return Choice(Way.COALESCED, "every transform has a column form for these records")
    if rows <= MAX_WORKER_ROWS:
        return Choice(Way.IN_WORKER, f"at most {MAX_WORKER_ROWS} records, {task.by_records}")
    return Choice(Way.OWN_JOB, f"more than {MAX_WORKER_ROWS} records, {task.by_records}")

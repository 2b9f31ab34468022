"""Coalesces small source batches of many tasks into one Spark job.

A job takes about 30 ms regardless of its size, so a hundred tasks with ten records per second each would overload the
machine. Batches that are Arrow tables and share a plan (`WritePlan.identity` and columns) are queued. A pool thread
takes all queued batches, up to `MAX_ROWS`, and writes them as one job with a `topic` column. Normally, each plan has
one running job. The batch of an otherwise idle worker is therefore written alone and at once; the busier the tasks are,
the more batches share a job. A second job starts if the first one is late, for example because a topic has no leader.
If a shared job fails, each batch is retried alone, so that only the invalid batch fails. The other batches may be
written twice, as after any failure.

Order: a task has at most one batch in flight, and a job has one Spark partition, so the records of a task are written
in order within each topic partition. Cancellation: a batch that is cancelled while it is queued is not written.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from typing_extensions import override

from kraal.core.ids import TaskId, TopicName
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import BatchDone
from kraal.engine.executor import ABANDON_TIMEOUT_S, JobResult, run_job
from kraal.engine.failure_trace import is_bridge_failure
from kraal.engine.kafka_io.writer import WritePlan, kafka_frame, options_for
from kraal.engine.session.jobs import cancel_group, job_group
from kraal.engine.session.row_counts import RowCounts
from kraal.engine.session.session import Session, SparkUnavailable
from kraal.engine.thread_pool import Owner, Pool
from kraal.ledger.counts import BatchEntry, Counts

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

MAX_ROWS = 50_000
LATE_TIMEOUT_S = 0.5
"""A job that has been running for longer than this is late, and no longer delays the next job."""
MAX_JOBS = 2
"""Maximum number of concurrent jobs of one plan. Another job starts only if all running jobs are late."""


@dataclass(slots=True, kw_only=True, eq=False)
class PendingBatch:
    """A small batch of one task."""

    task: TaskId
    table: pa.Table
    topic: str | None
    offsets: Mapping[SourcePartition, Offset]
    plan: WritePlan
    done: Callable[[JobResult], None]
    poll_s: float = 0.0
    read: int | None = None
    """Number of records that the plugin returned; None if the caller counts them."""
    is_counted: bool = False
    """Whether a job that writes the batch counts its rows."""
    size: int = 0
    """Size of the table in bytes; senders limit the total size."""
    carrier: Carrier | None = None
    """The sender of the batch; None if a job writes it."""
    producer_configs: Mapping[str, str] | None = None
    """The configs of the carrier's producer, named as in its client library."""
    is_cancelled: bool = False
    job: _Job | None = None
    """The job that writes the batch, once it is running."""
    group: str = ""
    start_s: float = field(default_factory=time.monotonic)

    def identity(self) -> tuple[object, ...]:
        """Return the key that must be equal for batches that share a job."""
        names = tuple((f.name, str(f.type)) for f in self.table.schema if f.name != "topic")
        return (self.plan.identity(), names)

    def with_topic(self) -> pa.Table:
        """Return the table with `topic` as its first column."""
        import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

        table = self.table
        if self.topic is not None:
            if "topic" in table.column_names:
                table = table.drop_columns(["topic"])
            column = pa.repeat(pa.scalar(self.topic, pa.string()), table.num_rows)
            return table.add_column(0, pa.field("topic", pa.string()), column)
        other_names = [name for name in table.column_names if name != "topic"]
        return table.select(["topic", *other_names])

    def result(self, acknowledged: int | None) -> BatchDone:
        """Return the report for a batch that was written to Kafka.

        `acknowledged` is the number of rows that the producer or the Spark job has written; None if it is unknown.
        """
        topics = {self.topic} if self.topic is not None else set(self.table["topic"].to_pylist())
        return BatchDone(
            offsets=self.offsets,
            records=self.table.num_rows,
            topics=frozenset(TopicName(name) for name in topics) if self.table.num_rows else frozenset(),
            duration_s=time.monotonic() - self.start_s,
            poll_s=self.poll_s,
            entry=BatchEntry(counts=Counts(read=self.read, written=acknowledged)),
        )


class Carrier(Protocol):
    """Sends small batches without a Spark job. Thread-safe; methods do not block on brokers or Spark."""

    def put(self, batch: PendingBatch, run: object) -> None:
        """Send a batch of `run`, an object that identifies the run; `batch.done` receives the result."""

    def cancel(self, batch: PendingBatch) -> bool:
        """Drop the unsent records of a batch; return False if the carrier no longer has the batch."""


class _Job(Owner):
    """A Spark job that writes batches of one queue; the owner of its calls on pool threads."""

    def __init__(self) -> None:
        super().__init__("small batches")
        self.is_late = False
        self.batches: list[PendingBatch] = []
        """The batches that the job writes."""

    @override
    def __str__(self) -> str:
        return ", ".join(str(batch.task) for batch in self.batches)

    @property
    def is_cancelled(self) -> bool:
        """Whether all batches of the job are cancelled."""
        return all(batch.is_cancelled for batch in self.batches)


@dataclass(slots=True)
class _Queue:
    batches: deque[PendingBatch] = field(default_factory=deque)
    jobs: list[_Job] = field(default_factory=list)

    def next_job(self) -> _Job | None:
        """Add a job for the queued batches and return it; return None if the queue is empty or the job must wait."""
        if not self.batches or len(self.jobs) >= MAX_JOBS or not all(job.is_late for job in self.jobs):
            return None
        job = _Job()
        self.jobs.append(job)
        return job


class Coalescer:
    """Queues batches by their identity, and writes them on threads of a pool."""

    def __init__(
        self,
        session: Session,
        pool: Pool,
        canceller: Pool,
        call_later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        """Create a coalescer; `call_later` calls a function after a delay, on a thread that must not block."""
        self._session = session
        self._pool = pool
        self._canceller = canceller
        self._call_later = call_later
        self._lock = threading.Lock()
        self._queues: dict[tuple[object, ...], _Queue] = {}
        self._numbers = itertools.count(1)
        self.jobs = 0
        """Number of jobs that were started, for tests and metrics."""

    def put(self, batch: PendingBatch) -> None:
        """Queue a batch; `batch.done` receives its result on a pool thread."""
        identity = batch.identity()
        with self._lock:
            queue = self._queues.setdefault(identity, _Queue())
            queue.batches.append(batch)
            job = queue.next_job()
        self._start(identity, job)

    def cancel(self, batch: PendingBatch) -> bool:
        """Cancel a batch, and its job if all batches of the job are cancelled; return whether the job is cancelled."""
        with self._lock:
            batch.is_cancelled = True
            job = batch.job
            is_cancelled = job is not None and batch in job.batches and job.is_cancelled
        if job is not None and is_cancelled:
            self._canceller.submit(lambda: cancel_group(self._session, batch.group), job)
            self._call_later(ABANDON_TIMEOUT_S, lambda: self._abandon(job))
        return is_cancelled

    def _start(self, identity: tuple[object, ...], job: _Job | None) -> None:
        if job is not None:
            self._pool.submit(lambda: self._run_job(identity, job), job)

    def _run_job(self, identity: tuple[object, ...], job: _Job) -> None:
        """Write queued batches as one job, then start the next job for batches that were queued meanwhile."""
        self._call_later(LATE_TIMEOUT_S, lambda: self._handle_late_job(identity, job))
        batches = self._take_batches(identity, job)
        if batches:
            self._run(batches)
        self._finish(identity, job)

    def _finish(self, identity: tuple[object, ...], job: _Job) -> None:
        """Remove a job that has ended, and start the next one unless it was started already."""
        with self._lock:
            queue = self._queues.get(identity)
            if queue is None or job not in queue.jobs:
                return
            queue.jobs.remove(job)
            next_job = queue.next_job()
            if not queue.jobs:
                del self._queues[identity]
        self._start(identity, next_job)

    def _handle_late_job(self, identity: tuple[object, ...], job: _Job) -> None:
        """Start the next job if this one is still running after `LATE_TIMEOUT_S`."""
        with self._lock:
            queue = self._queues.get(identity)
            if queue is None or job not in queue.jobs:
                return
            job.is_late = True
            next_job = queue.next_job()
        self._start(identity, next_job)

    def _abandon(self, job: _Job) -> None:
        """Replace the threads of a cancelled job."""
        self._pool.abandon(job)
        self._canceller.abandon(job)
        for identity in list(self._queues):
            self._finish(identity, job)

    def _take_batches(self, identity: tuple[object, ...], job: _Job) -> list[PendingBatch]:
        batches: list[PendingBatch] = []
        row_count = 0
        with self._lock:
            queued_batches = self._queues[identity].batches
            while queued_batches and (
                not batches or row_count + queued_batches[0].table.num_rows <= MAX_ROWS
            ):
                batch = queued_batches.popleft()
                batches.append(batch)
                row_count += batch.table.num_rows
            job.batches = batches
            for batch in batches:
                batch.job = job
        return batches

    def _run(self, batches: Sequence[PendingBatch]) -> None:
        active_batches: list[PendingBatch] = []
        for batch in batches:  # reads `is_cancelled` once, as it may change at any time
            if batch.is_cancelled:
                batch.done(None)
            else:
                active_batches.append(batch)
        if not active_batches:
            return
        rows: int | None = None

        def write() -> None:
            nonlocal rows
            rows = self._write(active_batches)

        outcome = run_job(write)
        if not isinstance(outcome, BaseException):
            for batch in active_batches:
                batch.done(run_job(partial(batch.result, count_written(batch, active_batches, rows))))
        elif len(active_batches) == 1 or isinstance(outcome, SparkUnavailable) or is_bridge_failure(outcome):
            for batch in active_batches:
                batch.done(outcome)
        else:
            log.warning(
                "A job of %d small batches failed; retrying each batch in a separate job", len(active_batches)
            )
            for batch in active_batches:
                self._run([batch])

    def _write(self, batches: Sequence[PendingBatch]) -> int | None:
        """Write batches as one job; return the number of rows that the job has written, or None if it is unknown."""
        import pyarrow as pa  # noqa: PLC0415 - as above

        spark = self._session.spark()
        plan = batches[0].plan
        table = pa.concat_tables([batch.with_topic() for batch in batches])
        group = f"together#{next(self._numbers)}"
        with self._lock:
            for batch in batches:
                batch.group = group
            if batches[0].job is not None:
                batches[0].job.batches = list(batches)
        with job_group(spark, pool="together", group=group, description=f"{len(batches)} small batches"):
            self.jobs += 1
            frame = spark.tiny.createDataFrame(table).coalesce(1)
            options = options_for(frame, plan)
            frame, rows = kafka_frame(frame, plan, None), RowCounts()
            if any(batch.is_counted for batch in batches):
                frame = rows.observe(frame)
            frame.write.format("kafka").options(**options).mode("append").save()
            return rows.get()


def count_written(batch: PendingBatch, batches: Sequence[PendingBatch], rows: int | None) -> int | None:
    """Return how many rows of a batch a job of several batches has written, or None if this is unknown.

    `rows` is the number of rows that the job has written. If it differs from the sum of the batches, the difference is
    attributed to each batch, because it may belong to any of them.
    """
    if rows is None:
        return None
    expected = sum(int(each.table.num_rows) for each in batches)
    return int(batch.table.num_rows) + rows - expected

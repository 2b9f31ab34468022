"""Many small source batches, one Spark job.

A job costs about 30 ms whatever is in it, so a hundred tasks with ten lines a second each would need more
than the machine has. Batches that are Arrow tables already and share a plan (`WritePlan.identity` and
columns) wait in a queue; a pool thread takes all that wait, up to `MAX_ROWS`, and writes them as one job
with a `topic` column. One job of a plan is at work, so an idle task's batch goes alone and at once, and the
busier they are the more go together. A second one starts beside a job that is late, as when a topic has no
leader. If a shared job fails, each batch is run again alone, so a bad one fails by itself; the good ones may
then be written twice, as after any failure.

Order: a task has at most one batch in flight, and a job has one Spark partition, so each topic partition
gets a task's records in their order. Lease and cancellation: a batch given up while it waits is not run.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kraal.ids import TaskId, TopicName
from kraal.offsets import Offset, SourcePartition
from kraal.spark.api import BatchDone
from kraal.spark.jobs import cancel_group, job_group
from kraal.spark.kafka_writer import WritePlan, kafka_frame, options_for
from kraal.spark.pool import Pool
from kraal.spark.session import Session
from kraal.spark.trace import is_bridge_failure
from kraal.spark.work import Outcome, outcome_of

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

MAX_ROWS = 50_000
LATE_S = 0.5
"""A job that is at work for longer does not hold up the next one."""
AT_ONCE = 2
"""Jobs of one plan at the same time, all but the last of them late."""


@dataclass(slots=True, kw_only=True, eq=False)
class Part:
    """One task's small batch."""

    task: TaskId
    table: pa.Table
    topic: str | None
    offsets: Mapping[SourcePartition, Offset]
    plan: WritePlan
    done: Callable[[Outcome], None]
    poll_s: float = 0.0
    given_up: bool = False
    job: list[Part] = field(default_factory=list)
    """The parts that go in the same job, once it runs."""
    group: str = ""
    began: float = field(default_factory=time.monotonic)

    def identity(self) -> tuple[object, ...]:
        """Return what must be equal for two parts to go in one job."""
        names = tuple((f.name, str(f.type)) for f in self.table.schema if f.name != "topic")
        return (self.plan.identity(), names)

    def with_topic(self) -> pa.Table:
        """Return the table with its column `topic`, which comes first."""
        import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

        table = self.table
        if self.topic is not None:
            if "topic" in table.column_names:
                table = table.drop_columns(["topic"])
            column = pa.repeat(pa.scalar(self.topic, pa.string()), table.num_rows)
            return table.add_column(0, pa.field("topic", pa.string()), column)
        rest = [name for name in table.column_names if name != "topic"]
        return table.select(["topic", *rest])

    def result(self) -> BatchDone:
        """Return what to report once the table is in Kafka."""
        named = {self.topic} if self.topic is not None else set(self.table["topic"].to_pylist())
        return BatchDone(
            offsets=self.offsets,
            records=self.table.num_rows,
            topics=frozenset(TopicName(name) for name in named) if self.table.num_rows else frozenset(),
            duration_s=time.monotonic() - self.began,
            poll_s=self.poll_s,
        )


@dataclass(slots=True, eq=False)
class _Job:
    late: bool = False


@dataclass(slots=True)
class _Queue:
    parts: deque[Part] = field(default_factory=deque)
    jobs: list[_Job] = field(default_factory=list)

    def next_job(self) -> _Job | None:
        """Return a job for what waits, now one of `jobs`; None if it has to wait on, or if nothing does."""
        if not self.parts or len(self.jobs) >= AT_ONCE or not all(job.late for job in self.jobs):
            return None
        job = _Job()
        self.jobs.append(job)
        return job


class Together:
    """Queues parts by identity and has the pool write them."""

    def __init__(
        self,
        session: Session,
        pool: Pool,
        canceller: Pool,
        after: Callable[[float, Callable[[], None]], None],
    ) -> None:
        """`after`: calls a function in so many seconds, on a thread that must not wait."""
        self._session = session
        self._pool = pool
        self._canceller = canceller
        self._after = after
        self._lock = threading.Lock()
        self._queues: dict[tuple[object, ...], _Queue] = {}
        self._numbers = itertools.count(1)
        self.jobs = 0
        """How many jobs were run; for tests and metrics."""

    def put(self, part: Part) -> None:
        """Queue `part`; `part.done` hears its outcome on a pool thread."""
        identity = part.identity()
        with self._lock:
            queue = self._queues.setdefault(identity, _Queue())
            queue.parts.append(part)
            job = queue.next_job()
        self._start(identity, job)

    def give_up(self, part: Part) -> None:
        """Do not run `part`; a running job is cancelled when nobody wants any of its parts."""
        with self._lock:
            part.given_up = True
            unwanted = bool(part.job) and all(other.given_up for other in part.job)
        if unwanted:
            self._canceller.submit(lambda: cancel_group(self._session, part.group))

    def _start(self, identity: tuple[object, ...], job: _Job | None) -> None:
        if job is not None:
            self._pool.submit(lambda: self._drain(identity, job))

    def _drain(self, identity: tuple[object, ...], job: _Job) -> None:
        """Run one job over what waits; what came meanwhile queues behind other tasks' work."""
        self._after(LATE_S, lambda: self._overdue(identity, job))
        parts = self._take(identity)
        if parts:
            self._run(parts)
        with self._lock:
            queue = self._queues[identity]
            queue.jobs.remove(job)
            following = queue.next_job()
            if not queue.jobs:
                del self._queues[identity]
        self._start(identity, following)

    def _overdue(self, identity: tuple[object, ...], job: _Job) -> None:
        """Let the next job start if this one is still at work."""
        with self._lock:
            queue = self._queues.get(identity)
            if queue is None or job not in queue.jobs:
                return
            job.late = True
            following = queue.next_job()
        self._start(identity, following)

    def _take(self, identity: tuple[object, ...]) -> list[Part]:
        taken: list[Part] = []
        rows = 0
        with self._lock:
            waiting = self._queues[identity].parts
            while waiting and (not taken or rows + waiting[0].table.num_rows <= MAX_ROWS):
                part = waiting.popleft()
                taken.append(part)
                rows += part.table.num_rows
        return taken

    def _run(self, parts: Sequence[Part]) -> None:
        live = [part for part in parts if not part.given_up]
        for part in parts:
            if part.given_up:
                part.done(None)
        if not live:
            return
        outcome = outcome_of(lambda: self._write(live))
        if not isinstance(outcome, BaseException):
            for part in live:
                part.done(part.result())
        elif len(live) == 1 or is_bridge_failure(outcome):
            for part in live:
                part.done(outcome)
        else:
            log.warning("a job of %d small batches failed; each is run again alone", len(live))
            for part in live:
                self._run([part])

    def _write(self, parts: Sequence[Part]) -> None:
        import pyarrow as pa  # noqa: PLC0415 - as above

        spark = self._session.spark()
        plan = parts[0].plan
        table = pa.concat_tables([part.with_topic() for part in parts])
        group = f"together#{next(self._numbers)}"
        with self._lock:
            for part in parts:
                part.job, part.group = list(parts), group
        with job_group(spark, pool="together", group=group, what=f"{len(parts)} small batches"):
            self.jobs += 1
            frame = spark.tiny.createDataFrame(table).coalesce(1)
            options = options_for(frame, plan)
            kafka_frame(frame, plan, None).write.format("kafka").options(**options).mode("append").save()

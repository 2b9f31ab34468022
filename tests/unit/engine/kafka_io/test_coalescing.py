"""Small batches share a job while another one is running, and do not wait for a stuck one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from typing_extensions import override

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.kafka_io.coalescing import Coalescer, PendingBatch
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.thread_pool import WORKER_OWNER, Owner, Pool
from tests.fakes.spark.late_give_up import LateCancelledBatch

WAIT_S = 30.0
PLAN = WritePlan(converters=None, options={}, key_schema=None, value_schema=None)


class Gate:
    """A session in which each job blocks until it is released, and then fails."""

    def __init__(self) -> None:
        self.here: queue.SimpleQueue[threading.Event] = queue.SimpleQueue()

    def spark(self) -> SimpleNamespace:
        """Block until released, then fail."""
        let = threading.Event()
        self.here.put(let)
        assert let.wait(WAIT_S)
        raise ValueError("no Spark here")

    def next_job(self) -> threading.Event:
        """Wait for the next job, and return the event that releases it."""
        return self.here.get(timeout=WAIT_S)


class CountingPool(Pool):
    """A pool that counts its jobs."""

    jobs = 0

    @override
    def submit(self, function: Callable[[], None], owner: Owner = WORKER_OWNER) -> None:
        self.jobs += 1
        super().submit(function, owner)


class IdlePool(Pool):
    """A pool that runs no functions."""

    @override
    def submit(self, function: Callable[[], None], owner: Owner = WORKER_OWNER) -> None:
        del function, owner


class Stage:
    """A coalescer with a manual timer."""

    def __init__(self, pool: CountingPool) -> None:
        self.pool = pool
        self.gate = Gate()
        self.late: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        session: Any = self.gate
        self.together = Coalescer(
            session, pool, IdlePool(0, "deaf"), lambda _, function: self.late.put(function)
        )
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()

    def put(self, name: str, batch_class: type[PendingBatch] = PendingBatch) -> PendingBatch:
        """Queue a batch of a task."""
        part = batch_class(
            task=TaskId(ConnectorName(name), 0),
            table=pa.table({"value": [b"a"]}),
            topic=name,
            offsets={},
            plan=PLAN,
            done=lambda _: self.ended.put(name),
        )
        self.together.put(part)
        return part

    def next_completed(self) -> str:
        """Return the task of the next completed batch."""
        return self.ended.get(timeout=WAIT_S)

    def make_next_late(self) -> None:
        """Make the oldest job that is not late yet late."""
        self.late.get(timeout=WAIT_S)()


@pytest.fixture
def stage() -> Iterator[Stage]:
    pool = CountingPool(4, "test")
    yield Stage(pool)
    pool.close(WAIT_S)


def test_batches_queued_during_a_job_share_the_next_one(stage: Stage) -> None:
    stage.put("first")
    first = stage.gate.next_job()
    stage.put("second")
    stage.put("third")
    assert stage.pool.jobs == 1
    first.set()
    assert stage.next_completed() == "first"
    both = stage.gate.next_job()
    assert stage.pool.jobs == 2
    both.set()
    for name in ("second", "third"):  # their shared job failed, so each batch is written alone
        stage.gate.next_job().set()
        assert stage.next_completed() == name


def test_late_job_does_not_delay_other_jobs(stage: Stage) -> None:
    stage.put("stuck")
    stuck = stage.gate.next_job()
    stage.put("waits")
    assert stage.pool.jobs == 1
    stage.make_next_late()
    stage.gate.next_job().set()
    assert stage.next_completed() == "waits"
    stage.put("goes at once")
    stage.gate.next_job().set()
    assert stage.next_completed() == "goes at once"
    stuck.set()
    assert stage.next_completed() == "stuck"


def test_job_that_ends_in_time_is_not_late(stage: Stage) -> None:
    stage.put("first")
    stage.gate.next_job().set()
    assert stage.next_completed() == "first"
    stage.put("second")
    second = stage.gate.next_job()
    stage.put("third")
    stage.make_next_late()  # the first batch has timed out
    assert stage.pool.jobs == 2
    second.set()
    assert stage.next_completed() == "second"
    stage.gate.next_job().set()
    assert stage.next_completed() == "third"


def test_at_most_two_jobs_run_concurrently(stage: Stage) -> None:
    gates = []
    for name in ("first", "second"):
        stage.put(name)
        gates.append(stage.gate.next_job())
        stage.make_next_late()
    stage.put("third")
    assert stage.pool.jobs == 2
    gates[1].set()
    assert stage.next_completed() == "second"
    stage.gate.next_job().set()
    assert stage.next_completed() == "third"
    gates[0].set()
    assert stage.next_completed() == "first"


def test_batch_cancelled_at_the_start_of_its_job_has_one_result(stage: Stage) -> None:
    stage.put("first", LateCancelledBatch)
    stage.gate.next_job().set()
    assert stage.next_completed() == "first"
    stage.put("second")
    stage.gate.next_job().set()
    assert stage.next_completed() == "second"


def test_abandoned_jobs_do_not_delay_other_jobs(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    gates, parts = [], []
    for name in ("first", "second"):
        parts.append(stage.put(name))
        gates.append(stage.gate.next_job())
        stage.make_next_late()
    stage.put("third")
    for part in parts:
        stage.together.cancel(part)
    assert stage.ended.empty()
    for _ in parts:
        stage.make_next_late()  # the time limit for cancelled jobs has passed
    stage.gate.next_job().set()
    assert stage.next_completed() == "third"
    assert [call.owner for call in stage.pool.state().stuck] == ["first-0", "second-0"]
    assert "first-0: Abandoning thread" in caplog.text
    for gate in gates:
        gate.set()
    assert {stage.next_completed(), stage.next_completed()} == {"first", "second"}

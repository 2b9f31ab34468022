"""Tests that small batches share a job while another job is running, and do not wait for a stuck job."""

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
        self.entered: queue.SimpleQueue[threading.Event] = queue.SimpleQueue()

    def spark(self) -> SimpleNamespace:
        """Block until released, then fail."""
        release = threading.Event()
        self.entered.put(release)
        assert release.wait(WAIT_S)
        raise ValueError("no Spark here")

    def next_job(self) -> threading.Event:
        """Wait for the next job, and return the event that releases it."""
        return self.entered.get(timeout=WAIT_S)


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


class Bench:
    """A coalescer with a manual timer."""

    def __init__(self, pool: CountingPool) -> None:
        self.pool = pool
        self.gate = Gate()
        self.timers: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        session: Any = self.gate
        self.coalescer = Coalescer(
            session, pool, IdlePool(0, "deaf"), lambda _, function: self.timers.put(function)
        )
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()

    def put(self, name: str, batch_class: type[PendingBatch] = PendingBatch) -> PendingBatch:
        """Queue a batch of a task."""
        batch = batch_class(
            task=TaskId(ConnectorName(name), 0),
            table=pa.table({"value": [b"a"]}),
            topic=name,
            offsets={},
            plan=PLAN,
            done=lambda _: self.ended.put(name),
        )
        self.coalescer.put(batch)
        return batch

    def next_completed(self) -> str:
        """Return the task of the next completed batch."""
        return self.ended.get(timeout=WAIT_S)

    def make_next_late(self) -> None:
        """Make the oldest job that is not late yet late."""
        self.timers.get(timeout=WAIT_S)()


@pytest.fixture
def bench() -> Iterator[Bench]:
    pool = CountingPool(4, "test")
    yield Bench(pool)
    pool.close(WAIT_S)


def test_batches_queued_during_a_job_share_the_next_one(bench: Bench) -> None:
    bench.put("first")
    first = bench.gate.next_job()
    bench.put("second")
    bench.put("third")
    assert bench.pool.jobs == 1
    first.set()
    assert bench.next_completed() == "first"
    both = bench.gate.next_job()
    assert bench.pool.jobs == 2
    both.set()
    for name in ("second", "third"):  # their shared job failed, so each batch is written alone
        bench.gate.next_job().set()
        assert bench.next_completed() == name


def test_late_job_does_not_delay_other_jobs(bench: Bench) -> None:
    bench.put("stuck")
    stuck = bench.gate.next_job()
    bench.put("waits")
    assert bench.pool.jobs == 1
    bench.make_next_late()
    bench.gate.next_job().set()
    assert bench.next_completed() == "waits"
    bench.put("goes at once")
    bench.gate.next_job().set()
    assert bench.next_completed() == "goes at once"
    stuck.set()
    assert bench.next_completed() == "stuck"


def test_job_that_ends_in_time_is_not_late(bench: Bench) -> None:
    bench.put("first")
    bench.gate.next_job().set()
    assert bench.next_completed() == "first"
    bench.put("second")
    second = bench.gate.next_job()
    bench.put("third")
    bench.make_next_late()  # the first batch has timed out
    assert bench.pool.jobs == 2
    second.set()
    assert bench.next_completed() == "second"
    bench.gate.next_job().set()
    assert bench.next_completed() == "third"


def test_at_most_two_jobs_run_concurrently(bench: Bench) -> None:
    gates = []
    for name in ("first", "second"):
        bench.put(name)
        gates.append(bench.gate.next_job())
        bench.make_next_late()
    bench.put("third")
    assert bench.pool.jobs == 2
    gates[1].set()
    assert bench.next_completed() == "second"
    bench.gate.next_job().set()
    assert bench.next_completed() == "third"
    gates[0].set()
    assert bench.next_completed() == "first"


def test_batch_cancelled_at_the_start_of_its_job_has_one_result(bench: Bench) -> None:
    bench.put("first", LateCancelledBatch)
    bench.gate.next_job().set()
    assert bench.next_completed() == "first"
    bench.put("second")
    bench.gate.next_job().set()
    assert bench.next_completed() == "second"


def test_abandoned_jobs_do_not_delay_other_jobs(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    gates, batches = [], []
    for name in ("first", "second"):
        batches.append(bench.put(name))
        gates.append(bench.gate.next_job())
        bench.make_next_late()
    bench.put("third")
    for batch in batches:
        bench.coalescer.cancel(batch)
    assert bench.ended.empty()
    for _ in batches:
        bench.make_next_late()  # the time limit for cancelled jobs has passed
    bench.gate.next_job().set()
    assert bench.next_completed() == "third"
    assert [call.owner for call in bench.pool.state().stuck] == ["first-0", "second-0"]
    assert "first-0: Abandoning thread" in caplog.text
    for gate in gates:
        gate.set()
    assert {bench.next_completed(), bench.next_completed()} == {"first", "second"}

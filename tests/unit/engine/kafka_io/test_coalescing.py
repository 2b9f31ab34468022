"""Tests that batches queued during a job share the next job, and that they do not wait for a stuck job."""

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


class BlockingSession:
    """A session in which each job blocks until it is released, and then fails."""

    def __init__(self) -> None:
        self.releases: queue.SimpleQueue[threading.Event] = queue.SimpleQueue()

    def spark(self) -> SimpleNamespace:
        """Block until the job is released, then fail."""
        release = threading.Event()
        self.releases.put(release)
        assert release.wait(WAIT_S)
        raise ValueError("no Spark here")

    def next_job(self) -> threading.Event:
        """Wait for the next job, and return the event that releases it."""
        return self.releases.get(timeout=WAIT_S)


class CountingPool(Pool):
    """A pool that counts the submitted jobs."""

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
        self.session = BlockingSession()
        self.timers: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        session: Any = self.session
        self.coalescer = Coalescer(
            session, pool, IdlePool(0, "idle"), lambda _, function: self.timers.put(function)
        )
        self.completed: queue.SimpleQueue[str] = queue.SimpleQueue()

    def put(self, name: str, batch_class: type[PendingBatch] = PendingBatch) -> PendingBatch:
        """Queue a batch of the connector `name`."""
        batch = batch_class(
            task=TaskId(ConnectorName(name), 0),
            table=pa.table({"value": [b"a"]}),
            topic=name,
            offsets={},
            plan=PLAN,
            done=lambda _: self.completed.put(name),
        )
        self.coalescer.put(batch)
        return batch

    def next_completed(self) -> str:
        """Wait for the next batch to complete, and return the name of its connector."""
        return self.completed.get(timeout=WAIT_S)

    def make_next_late(self) -> None:
        """Fire the oldest timer, which marks its job as late if the job is still running."""
        self.timers.get(timeout=WAIT_S)()


@pytest.fixture
def bench() -> Iterator[Bench]:
    pool = CountingPool(4, "test")
    yield Bench(pool)
    pool.close(WAIT_S)


def test_batches_queued_during_a_job_share_the_next_one(bench: Bench) -> None:
    bench.put("first")
    release_first = bench.session.next_job()
    bench.put("second")
    bench.put("third")
    assert bench.pool.jobs == 1
    release_first.set()
    assert bench.next_completed() == "first"
    release_shared_job = bench.session.next_job()
    assert bench.pool.jobs == 2
    release_shared_job.set()
    for name in ("second", "third"):  # after the shared job has failed, separate jobs write the batches
        bench.session.next_job().set()
        assert bench.next_completed() == name


def test_late_job_does_not_delay_other_jobs(bench: Bench) -> None:
    bench.put("stuck")
    release_stuck = bench.session.next_job()
    bench.put("waiting")
    assert bench.pool.jobs == 1
    bench.make_next_late()
    bench.session.next_job().set()
    assert bench.next_completed() == "waiting"
    bench.put("immediate")
    bench.session.next_job().set()
    assert bench.next_completed() == "immediate"
    release_stuck.set()
    assert bench.next_completed() == "stuck"


def test_job_that_ends_in_time_is_not_late(bench: Bench) -> None:
    bench.put("first")
    bench.session.next_job().set()
    assert bench.next_completed() == "first"
    bench.put("second")
    release_second = bench.session.next_job()
    bench.put("third")
    bench.make_next_late()  # the timer of the first job, which has ended
    assert bench.pool.jobs == 2
    release_second.set()
    assert bench.next_completed() == "second"
    bench.session.next_job().set()
    assert bench.next_completed() == "third"


def test_at_most_two_jobs_run_concurrently(bench: Bench) -> None:
    releases = []
    for name in ("first", "second"):
        bench.put(name)
        releases.append(bench.session.next_job())
        bench.make_next_late()
    bench.put("third")
    assert bench.pool.jobs == 2
    releases[1].set()
    assert bench.next_completed() == "second"
    bench.session.next_job().set()
    assert bench.next_completed() == "third"
    releases[0].set()
    assert bench.next_completed() == "first"


def test_batch_cancelled_at_the_start_of_its_job_has_one_result(bench: Bench) -> None:
    bench.put("first", LateCancelledBatch)
    bench.session.next_job().set()
    assert bench.next_completed() == "first"
    bench.put("second")
    bench.session.next_job().set()
    assert bench.next_completed() == "second"


def test_abandoned_jobs_do_not_delay_other_jobs(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    releases, batches = [], []
    for name in ("first", "second"):
        batches.append(bench.put(name))
        releases.append(bench.session.next_job())
        bench.make_next_late()
    bench.put("third")
    for batch in batches:
        bench.coalescer.cancel(batch)
    assert bench.completed.empty()
    for _ in batches:
        bench.make_next_late()  # the time limit for cancelled jobs has passed
    bench.session.next_job().set()
    assert bench.next_completed() == "third"
    assert [call.owner for call in bench.pool.state().stuck] == ["first-0", "second-0"]
    assert "first-0: Abandoning thread" in caplog.text
    for release in releases:
        release.set()
    assert {bench.next_completed(), bench.next_completed()} == {"first", "second"}

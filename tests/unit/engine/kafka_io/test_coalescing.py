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
from kraal.engine.kafka_io.coalescing import Coalescer, PendingBatch, count_written
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


class Harness:
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
def harness() -> Iterator[Harness]:
    pool = CountingPool(4, "test")
    yield Harness(pool)
    pool.close(WAIT_S)


def test_batches_queued_during_a_job_share_the_next_one(harness: Harness) -> None:
    harness.put("first")
    release_first = harness.session.next_job()
    harness.put("second")
    harness.put("third")
    assert harness.pool.jobs == 1
    release_first.set()
    assert harness.next_completed() == "first"
    release_shared_job = harness.session.next_job()
    assert harness.pool.jobs == 2
    release_shared_job.set()
    for name in ("second", "third"):  # after the shared job has failed, separate jobs write the batches
        harness.session.next_job().set()
        assert harness.next_completed() == name


def test_late_job_does_not_delay_other_jobs(harness: Harness) -> None:
    harness.put("stuck")
    release_stuck = harness.session.next_job()
    harness.put("waiting")
    assert harness.pool.jobs == 1
    harness.make_next_late()
    harness.session.next_job().set()
    assert harness.next_completed() == "waiting"
    harness.put("immediate")
    harness.session.next_job().set()
    assert harness.next_completed() == "immediate"
    release_stuck.set()
    assert harness.next_completed() == "stuck"


def test_job_that_ends_in_time_is_not_late(harness: Harness) -> None:
    harness.put("first")
    harness.session.next_job().set()
    assert harness.next_completed() == "first"
    harness.put("second")
    release_second = harness.session.next_job()
    harness.put("third")
    harness.make_next_late()  # the timer of the first job, which has ended
    assert harness.pool.jobs == 2
    release_second.set()
    assert harness.next_completed() == "second"
    harness.session.next_job().set()
    assert harness.next_completed() == "third"


def test_at_most_two_jobs_run_concurrently(harness: Harness) -> None:
    releases = []
    for name in ("first", "second"):
        harness.put(name)
        releases.append(harness.session.next_job())
        harness.make_next_late()
    harness.put("third")
    assert harness.pool.jobs == 2
    releases[1].set()
    assert harness.next_completed() == "second"
    harness.session.next_job().set()
    assert harness.next_completed() == "third"
    releases[0].set()
    assert harness.next_completed() == "first"


def test_batch_cancelled_at_the_start_of_its_job_has_one_result(harness: Harness) -> None:
    harness.put("first", LateCancelledBatch)
    harness.session.next_job().set()
    assert harness.next_completed() == "first"
    harness.put("second")
    harness.session.next_job().set()
    assert harness.next_completed() == "second"


def test_abandoned_jobs_do_not_delay_other_jobs(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    releases, batches = [], []
    for name in ("first", "second"):
        batches.append(harness.put(name))
        releases.append(harness.session.next_job())
        harness.make_next_late()
    harness.put("third")
    for batch in batches:
        harness.coalescer.cancel(batch)
    assert harness.completed.empty()
    for _ in batches:
        harness.make_next_late()  # the time limit for cancelled jobs has passed
    harness.session.next_job().set()
    assert harness.next_completed() == "third"
    assert [call.owner for call in harness.pool.state().stuck] == ["first-0", "second-0"]
    assert "first-0: Abandoning thread" in caplog.text
    for release in releases:
        release.set()
    assert {harness.next_completed(), harness.next_completed()} == {"first", "second"}


@pytest.mark.parametrize(("rows", "expected"), [(5, 2), (4, 1), (6, 3), (None, None)])
def test_difference_of_a_shared_job_is_attributed_to_each_batch(
    rows: int | None, expected: int | None
) -> None:
    batches = [
        PendingBatch(
            task=TaskId(ConnectorName("c"), 0),
            table=pa.table({"value": [b"a"] * count}),
            topic="t",
            offsets={},
            plan=PLAN,
            done=lambda _: None,
        )
        for count in (2, 3)
    ]
    assert count_written(batches[0], batches, rows) == expected

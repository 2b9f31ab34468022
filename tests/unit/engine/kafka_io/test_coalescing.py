"""How small batches wait for each other: in one job while one is running, and not behind one that is stuck."""

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
from kraal.engine.thread_pool import NOBODY, Owner, Pool
from tests.fakes.spark.late_give_up import LateGiveUp

WAIT_S = 30.0
PLAN = WritePlan(converters=None, options={}, key_schema=None, value_schema=None)


class Gate:
    """Stands for Spark's session: each job that asks for it stands until it is let through, and fails then."""

    def __init__(self) -> None:
        self.here: queue.SimpleQueue[threading.Event] = queue.SimpleQueue()

    def spark(self) -> SimpleNamespace:
        """Stand, and fail."""
        let = threading.Event()
        self.here.put(let)
        assert let.wait(WAIT_S)
        raise ValueError("no Spark here")

    def arrived(self) -> threading.Event:
        """Return what lets the next job through, when it is here."""
        return self.here.get(timeout=WAIT_S)


class Counting(Pool):
    """A pool that says how many jobs it was given."""

    jobs = 0

    @override
    def submit(self, function: Callable[[], None], owner: Owner = NOBODY) -> None:
        self.jobs += 1
        super().submit(function, owner)


class Deaf(Pool):
    """A pool that runs nothing."""

    @override
    def submit(self, function: Callable[[], None], owner: Owner = NOBODY) -> None:
        del function, owner


class Stage:
    """A queue of batches, with a clock that is moved by hand."""

    def __init__(self, pool: Counting) -> None:
        self.pool = pool
        self.gate = Gate()
        self.late: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        session: Any = self.gate
        self.together = Coalescer(session, pool, Deaf(0, "deaf"), lambda _, function: self.late.put(function))
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()

    def put(self, name: str, batch_class: type[PendingBatch] = PendingBatch) -> PendingBatch:
        """Queue a task's batch."""
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

    def next_ended(self) -> str:
        """Return whose batch ended next."""
        return self.ended.get(timeout=WAIT_S)

    def next_is_late(self) -> None:
        """Let the oldest job whose time was not up yet be late."""
        self.late.get(timeout=WAIT_S)()


@pytest.fixture
def stage() -> Iterator[Stage]:
    pool = Counting(4, "test")
    yield Stage(pool)
    pool.close(WAIT_S)


def test_batches_that_arrive_during_a_job_share_the_next_one(stage: Stage) -> None:
    stage.put("first")
    first = stage.gate.arrived()
    stage.put("second")
    stage.put("third")
    assert stage.pool.jobs == 1
    first.set()
    assert stage.next_ended() == "first"
    both = stage.gate.arrived()
    assert stage.pool.jobs == 2
    both.set()
    for name in ("second", "third"):  # the job of both failed, so each goes alone
        stage.gate.arrived().set()
        assert stage.next_ended() == name


def test_late_job_does_not_delay_other_jobs(stage: Stage) -> None:
    stage.put("stuck")
    stuck = stage.gate.arrived()
    stage.put("waits")
    assert stage.pool.jobs == 1
    stage.next_is_late()
    stage.gate.arrived().set()
    assert stage.next_ended() == "waits"
    stage.put("goes at once")
    stage.gate.arrived().set()
    assert stage.next_ended() == "goes at once"
    stuck.set()
    assert stage.next_ended() == "stuck"


def test_a_job_that_ended_in_time_is_not_late(stage: Stage) -> None:
    stage.put("first")
    stage.gate.arrived().set()
    assert stage.next_ended() == "first"
    stage.put("second")
    second = stage.gate.arrived()
    stage.put("third")
    stage.next_is_late()  # the first one's time is up
    assert stage.pool.jobs == 2
    second.set()
    assert stage.next_ended() == "second"
    stage.gate.arrived().set()
    assert stage.next_ended() == "third"


def test_two_jobs_are_at_work_at_most(stage: Stage) -> None:
    gates = []
    for name in ("first", "second"):
        stage.put(name)
        gates.append(stage.gate.arrived())
        stage.next_is_late()
    stage.put("third")
    assert stage.pool.jobs == 2
    gates[1].set()
    assert stage.next_ended() == "second"
    stage.gate.arrived().set()
    assert stage.next_ended() == "third"
    gates[0].set()
    assert stage.next_ended() == "first"


def test_a_batch_given_up_when_its_job_starts_gets_one_result(stage: Stage) -> None:
    stage.put("first", LateGiveUp)
    stage.gate.arrived().set()
    assert stage.next_ended() == "first"
    stage.put("second")
    stage.gate.arrived().set()
    assert stage.next_ended() == "second"


def test_abandoned_jobs_do_not_delay_other_jobs(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    gates, parts = [], []
    for name in ("first", "second"):
        parts.append(stage.put(name))
        gates.append(stage.gate.arrived())
        stage.next_is_late()
    stage.put("third")
    for part in parts:
        stage.together.give_up(part)
    assert stage.ended.empty()
    for _ in parts:
        stage.next_is_late()  # the time is up that they have to end
    stage.gate.arrived().set()
    assert stage.next_ended() == "third"
    assert [call.owner for call in stage.pool.state().stuck] == ["first-0", "second-0"]
    assert "first-0: Abandoning thread" in caplog.text
    for gate in gates:
        gate.set()
    assert {stage.next_ended(), stage.next_ended()} == {"first", "second"}

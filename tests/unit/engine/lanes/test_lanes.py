"""Tests for small batches that a simulated lane sends."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from typing_extensions import override

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import BatchDone
from kraal.engine.executor import JobResult
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.lanes import lanes as module
from kraal.engine.lanes import sender
from kraal.engine.lanes.bridge import ENDED, READY, LaneResult
from kraal.engine.lanes.lanes import Lanes
from kraal.ledger.counts import BatchEntry, Counts
from tests.fakes.spark.late_give_up import LateCancelledBatch

WAIT_S = 30.0
PLAN = WritePlan(converters=None, options={}, key_schema=None, value_schema=None)
ROW = pa.table({"value": [b"a"]})


class Bridge:
    """A fake bridge that yields the results which the test queues in `outcomes`, and records the other calls."""

    def __init__(self) -> None:
        self.outcomes: queue.SimpleQueue[LaneResult | Exception] = queue.SimpleQueue()
        self.pushed: queue.SimpleQueue[tuple[str, Mapping[str, str], list[int]]] = queue.SimpleQueue()
        self.discarded: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.removed_producers: list[str] = []
        self.push_error: Exception | None = None

    def push(self, producer: str, configs: Mapping[str, str], stream: bytes) -> None:
        """Record the numbers of the batches."""
        if self.push_error is not None:
            raise self.push_error
        with pa.ipc.open_stream(stream) as reader:
            numbers = list(dict.fromkeys(reader.read_all()["batch"].to_pylist()))
        self.pushed.put((producer, configs, numbers))

    def results(self) -> Iterator[LaneResult]:
        """Yield the results that the test queues."""
        while True:
            result = self.outcomes.get()
            if isinstance(result, Exception):
                raise result
            yield result
            if result.number == ENDED:
                return

    def end(self) -> None:
        """Record the call."""
        self.discarded.put("all")

    def remove_producer(self, producer: str) -> None:
        """Record the call."""
        self.removed_producers.append(producer)

    def discard(self, producer: str) -> None:
        """Record the call."""
        self.discarded.put(producer)


class Harness:
    """A worker's lanes, the bridges of started lanes, and the batches that jobs write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bridges: queue.SimpleQueue[Bridge] = queue.SimpleQueue()
        self.jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.session = SimpleNamespace(current=object(), kill=str)
        monkeypatch.setattr(module, "LaneBridge", self._bridge)
        coalescer: Any = SimpleNamespace(put=lambda batch: self.jobs.put(batch.task.connector))
        canceller: Any = SimpleNamespace(submit=lambda function: function())
        session: Any = self.session
        self.lanes = Lanes(session, coalescer, canceller, is_local=True)
        self.done: queue.SimpleQueue[tuple[str, JobResult]] = queue.SimpleQueue()

    def _bridge(self, _: object) -> Bridge:
        bridge = Bridge()
        self.bridges.put(bridge)
        return bridge

    def start_lane(self) -> Bridge:
        """Start a lane, and wait until it accepts batches."""
        assert not self.lanes.accepts(1, 5)
        bridge = self.bridges.get(timeout=WAIT_S)
        self.report_ready(bridge)
        return bridge

    def report_ready(self, bridge: Bridge) -> None:
        """Report the start of a lane's Spark task."""
        bridge.outcomes.put(LaneResult(READY, None))
        bridge.outcomes.put(LaneResult(999, None))  # no batch has this number; read after the first result
        while not bridge.outcomes.empty() or not self.lanes.accepts(1, 5):
            pass

    def put(
        self,
        name: str,
        *,
        table: pa.Table = ROW,
        batch_class: type[PendingBatch] = PendingBatch,
        **configs: str,
    ) -> PendingBatch:
        """Send a batch of a task."""
        batch = batch_class(
            task=TaskId(ConnectorName(name), 0),
            table=table,
            topic=name,
            offsets={},
            plan=PLAN,
            done=lambda result: self.done.put((name, result)),
            producer_configs=configs,
        )
        self.lanes.put(batch, name)
        return batch

    def result(self) -> tuple[str, JobResult]:
        """Wait for the result of a batch; return the name of its connector, and the result."""
        return self.done.get(timeout=WAIT_S)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    harness = Harness(monkeypatch)
    yield harness
    harness.lanes.close()


def test_job_writes_batches_until_the_lane_is_running(harness: Harness) -> None:
    assert not harness.lanes.accepts(1, 5)
    harness.put("a")
    assert harness.jobs.get(timeout=WAIT_S) == "a"


def test_batch_completes_with_the_result_of_the_lane(harness: Harness) -> None:
    bridge = harness.start_lane()
    harness.put("a", acks="all")
    producer, configs, [number] = bridge.pushed.get(timeout=WAIT_S)
    assert configs == {"acks": "all"}
    assert harness.done.empty()
    bridge.outcomes.put(LaneResult(number, None, 1))
    name, result = harness.result()
    assert name == "a"
    assert isinstance(result, BatchDone)
    assert (result.records, set(result.topics)) == (1, {"a"})
    assert result.entry == BatchEntry(counts=Counts(read=None, written=1))
    assert producer


def test_tasks_with_the_same_configs_share_a_producer(harness: Harness) -> None:
    bridge = harness.start_lane()
    producers = {}
    for name, acks in (("a", "all"), ("b", "1"), ("c", "all")):
        harness.put(name, acks=acks)
        producers[name] = bridge.pushed.get(timeout=WAIT_S)[0]
    assert producers["a"] == producers["c"] != producers["b"]


def test_producer_is_closed_when_its_last_run_has_ended(harness: Harness) -> None:
    bridge = harness.start_lane()

    def write_batch(name: str, acks: str) -> str:
        harness.put(name, acks=acks)
        producer, _, [number] = bridge.pushed.get(timeout=WAIT_S)
        bridge.outcomes.put(LaneResult(number, None))
        harness.result()
        return producer

    shared_producer, separate_producer = write_batch("a", "all"), write_batch("b", "1")
    assert write_batch("c", "all") == shared_producer
    harness.lanes.release_producers("a")
    assert bridge.removed_producers == []
    harness.lanes.release_producers("b")
    assert bridge.removed_producers == [separate_producer]
    harness.lanes.release_producers("c")
    assert bridge.removed_producers == [separate_producer, shared_producer]
    assert write_batch("a", "all") not in {shared_producer, separate_producer}
    harness.lanes.release_producers("never wrote")
    assert len(bridge.removed_producers) == 2


def test_busy_lane_pushes_batches_together(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = harness.start_lane()
    sleeps: queue.SimpleQueue[float] = queue.SimpleQueue()
    resume = threading.Event()

    def sleep(seconds: float) -> None:
        sleeps.put(seconds)
        assert resume.wait(WAIT_S)

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 100.0, sleep=sleep))
    harness.put("a")
    assert len(bridge.pushed.get(timeout=WAIT_S)[2]) == 1
    harness.put("b")
    assert sleeps.get(timeout=WAIT_S) == pytest.approx(module.LINGER_S)
    harness.put("c")
    resume.set()
    assert len(bridge.pushed.get(timeout=WAIT_S)[2]) == 2


def test_batch_that_fails_in_the_lane_is_repeated_by_a_job(harness: Harness) -> None:
    bridge = harness.start_lane()
    harness.put("a")
    [number] = bridge.pushed.get(timeout=WAIT_S)[2]
    bridge.outcomes.put(LaneResult(number, "RecordTooLargeException"))
    assert harness.jobs.get(timeout=WAIT_S) == "a"
    assert harness.done.empty()


def test_batch_that_cannot_be_pushed_is_repeated_by_a_job(harness: Harness) -> None:
    harness.start_lane().push_error = ValueError("no")
    harness.put("a")
    assert harness.jobs.get(timeout=WAIT_S) == "a"


def test_cancelling_a_sent_batch_discards_its_producer(harness: Harness) -> None:
    bridge = harness.start_lane()
    batch = harness.put("a")
    producer, _, [number] = bridge.pushed.get(timeout=WAIT_S)
    assert harness.lanes.cancel(batch)
    assert bridge.discarded.get(timeout=WAIT_S) == producer
    bridge.outcomes.put(LaneResult(number, "KafkaException: Producer is closed forcefully."))
    assert harness.result() == ("a", None)
    assert harness.jobs.empty()


def test_cancelling_a_batch_during_its_push_discards_its_producer(
    harness: Harness,
) -> None:
    bridge = harness.start_lane()
    harness.put("a", batch_class=LateCancelledBatch)
    producer, _, [number] = bridge.pushed.get(timeout=WAIT_S)
    assert bridge.discarded.get(timeout=WAIT_S) == producer
    bridge.outcomes.put(LaneResult(number, "the records were discarded"))
    assert harness.result() == ("a", None)
    assert harness.jobs.empty()


def test_failed_push_ends_the_lane_and_jobs_write_its_batches(harness: Harness) -> None:
    bridge = harness.start_lane()

    class Broken(PendingBatch):
        """A batch whose submission to the lane fails."""

        @override
        def __getattribute__(self, name: str) -> Any:
            if name == "producer_configs" and threading.current_thread() is not threading.main_thread():
                raise ValueError("no configs")
            return super().__getattribute__(name)

    harness.put("a", batch_class=Broken)
    assert bridge.discarded.get(timeout=WAIT_S) == "all"
    bridge.outcomes.put(LaneResult(ENDED, "its Spark task has ended"))
    assert harness.jobs.get(timeout=WAIT_S) == "a"


def test_completed_or_unknown_batch_cannot_be_cancelled(harness: Harness) -> None:
    bridge = harness.start_lane()
    batch = harness.put("a")
    [number] = bridge.pushed.get(timeout=WAIT_S)[2]
    bridge.outcomes.put(LaneResult(number, None))
    harness.result()
    assert not harness.lanes.cancel(batch)
    assert bridge.discarded.empty()


def test_dead_jvm_fails_the_sent_batches(harness: Harness) -> None:
    bridge = harness.start_lane()
    harness.put("a")
    bridge.pushed.get(timeout=WAIT_S)
    error = ConnectionResetError("Answer from Java side is empty")
    bridge.outcomes.put(error)
    assert harness.result() == ("a", error)


def test_lane_with_unreadable_results_stops_before_jobs_repeat_its_batches(harness: Harness) -> None:
    bridge = harness.start_lane()
    harness.put("a")
    bridge.pushed.get(timeout=WAIT_S)
    bridge.outcomes.put(ValueError("not a number"))
    assert harness.jobs.get(timeout=WAIT_S) == "a"
    assert bridge.discarded.get_nowait() == "all"


def test_jobs_write_the_batches_of_an_ended_lane_that_restarts_after_a_delay(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert harness.lanes.down() is None, "no lane was requested"
    bridge = harness.start_lane()
    assert harness.lanes.down() is None
    harness.put("a")
    bridge.pushed.get(timeout=WAIT_S)
    bridge.outcomes.put(LaneResult(ENDED, "its Spark task has ended"))
    assert harness.jobs.get(timeout=WAIT_S) == "a"
    down = harness.lanes.down()
    assert down is not None
    assert (down.name, down.why) == ("lane", "its Spark task has ended")
    harness.put("b")
    assert harness.jobs.get(timeout=WAIT_S) == "b"
    assert not harness.lanes.accepts(1, 5)
    assert harness.bridges.empty()
    monkeypatch.setattr(module, "RESTART_DELAY_S", 0.0)
    harness.start_lane()
    assert harness.lanes.down() is None


def test_new_spark_session_starts_a_new_lane_at_once(harness: Harness) -> None:
    bridge = harness.start_lane()
    harness.session.current = object()
    bridge.outcomes.put(ConnectionResetError("gone"))
    harness.start_lane()


def test_lane_rejects_large_batches_and_requires_a_session(harness: Harness) -> None:
    harness.start_lane()
    assert not harness.lanes.accepts(1001, 5)
    harness.session.current = None
    assert not harness.lanes.accepts(1, 5)


def test_lane_rejects_batches_while_too_many_bytes_are_waiting(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.start_lane()
    monkeypatch.setattr(sender, "MAX_WAITING_BYTES", -1)
    assert not harness.lanes.accepts(1, 5)

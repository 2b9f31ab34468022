"""When a small batch goes through the lane, and what becomes of it, with a lane in memory instead of Spark's."""

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
from tests.fakes.spark.late_give_up import LateGiveUp

WAIT_S = 30.0
PLAN = WritePlan(converters=None, options={}, key_schema=None, value_schema=None)
ROW = pa.table({"value": [b"a"]})


class Bridge:
    """A lane whose results a test gives."""

    def __init__(self) -> None:
        self.outcomes: queue.SimpleQueue[LaneResult | Exception] = queue.SimpleQueue()
        self.pushed: queue.SimpleQueue[tuple[str, Mapping[str, str], list[int]]] = queue.SimpleQueue()
        self.discarded: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.forgotten: list[str] = []
        self.push_fails: Exception | None = None

    def push(self, producer: str, configs: Mapping[str, str], stream: bytes) -> None:
        """Note the numbers of the batches."""
        if self.push_fails is not None:
            raise self.push_fails
        with pa.ipc.open_stream(stream) as reader:
            numbers = list(dict.fromkeys(reader.read_all()["batch"].to_pylist()))
        self.pushed.put((producer, configs, numbers))

    def results(self) -> Iterator[LaneResult]:
        """Wait for what the test gives."""
        while True:
            result = self.outcomes.get()
            if isinstance(result, Exception):
                raise result
            yield result
            if result.number == ENDED:
                return

    def end(self) -> None:
        """Note it."""
        self.discarded.put("all")

    def forget(self, producer: str) -> None:
        """Note it."""
        self.forgotten.append(producer)

    def discard(self, producer: str) -> None:
        """Note it."""
        self.discarded.put(producer)


class Stage:
    """A worker's lanes, the bridges of the lanes that were started, and the batches that went to jobs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bridges: queue.SimpleQueue[Bridge] = queue.SimpleQueue()
        self.jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.session = SimpleNamespace(current=object(), kill=str)
        monkeypatch.setattr(module, "LaneBridge", self._bridge)
        coalescer: Any = SimpleNamespace(put=lambda batch: self.jobs.put(batch.task.connector))
        now: Any = SimpleNamespace(submit=lambda function: function())
        session: Any = self.session
        self.lanes = Lanes(session, coalescer, now, is_local=True)
        self.done: queue.SimpleQueue[tuple[str, JobResult]] = queue.SimpleQueue()

    def _bridge(self, _: object) -> Bridge:
        bridge = Bridge()
        self.bridges.put(bridge)
        return bridge

    def started(self) -> Bridge:
        """Have a lane started, and wait until it takes batches."""
        assert not self.lanes.takes(1, 5)
        bridge = self.bridges.get(timeout=WAIT_S)
        self.is_ready(bridge)
        return bridge

    def is_ready(self, bridge: Bridge) -> None:
        """Let a lane's Spark task start."""
        bridge.outcomes.put(LaneResult(READY, None))
        bridge.outcomes.put(LaneResult(999, None))  # of no batch: it is read after the first one
        while not bridge.outcomes.empty() or not self.lanes.takes(1, 5):
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
            producer=configs,
        )
        self.lanes.put(batch, name)
        return batch

    def result(self) -> tuple[str, JobResult]:
        """Return the next task with a result, and the result."""
        return self.done.get(timeout=WAIT_S)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage = Stage(monkeypatch)
    yield stage
    stage.lanes.close()


def test_a_batch_goes_by_a_job_until_the_lane_runs(stage: Stage) -> None:
    assert not stage.lanes.takes(1, 5)
    stage.put("a")
    assert stage.jobs.get(timeout=WAIT_S) == "a"


def test_a_batch_is_done_when_the_lane_says_so(stage: Stage) -> None:
    bridge = stage.started()
    stage.put("a", acks="all")
    producer, configs, [number] = bridge.pushed.get(timeout=WAIT_S)
    assert configs == {"acks": "all"}
    assert stage.done.empty()
    bridge.outcomes.put(LaneResult(number, None))
    name, result = stage.result()
    assert name == "a"
    assert isinstance(result, BatchDone)
    assert (result.records, set(result.topics)) == (1, {"a"})
    assert producer


def test_tasks_with_the_same_configs_share_a_producer(stage: Stage) -> None:
    bridge = stage.started()
    producers = {}
    for name, acks in (("a", "all"), ("b", "1"), ("c", "all")):
        stage.put(name, acks=acks)
        producers[name] = bridge.pushed.get(timeout=WAIT_S)[0]
    assert producers["a"] == producers["c"] != producers["b"]


def test_producer_is_closed_when_its_last_run_has_ended(stage: Stage) -> None:
    bridge = stage.started()

    def written(name: str, acks: str) -> str:
        stage.put(name, acks=acks)
        producer, _, [number] = bridge.pushed.get(timeout=WAIT_S)
        bridge.outcomes.put(LaneResult(number, None))
        stage.result()
        return producer

    shared, separate = written("a", "all"), written("b", "1")
    assert written("c", "all") == shared
    stage.lanes.leave("a")
    assert bridge.forgotten == []
    stage.lanes.leave("b")
    assert bridge.forgotten == [separate]
    stage.lanes.leave("c")
    assert bridge.forgotten == [separate, shared]
    assert written("a", "all") not in {shared, separate}
    stage.lanes.leave("never wrote")
    assert len(bridge.forgotten) == 2


def test_batches_that_come_soon_after_a_hand_over_go_together(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = stage.started()
    slept: queue.SimpleQueue[float] = queue.SimpleQueue()
    go_on = threading.Event()

    def sleep(seconds: float) -> None:
        slept.put(seconds)
        assert go_on.wait(WAIT_S)

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 100.0, sleep=sleep))
    stage.put("a")
    assert len(bridge.pushed.get(timeout=WAIT_S)[2]) == 1
    stage.put("b")
    assert slept.get(timeout=WAIT_S) == pytest.approx(module.LINGER_S)
    stage.put("c")
    go_on.set()
    assert len(bridge.pushed.get(timeout=WAIT_S)[2]) == 2


def test_a_batch_that_fails_in_the_lane_is_repeated_by_a_job(stage: Stage) -> None:
    bridge = stage.started()
    stage.put("a")
    [number] = bridge.pushed.get(timeout=WAIT_S)[2]
    bridge.outcomes.put(LaneResult(number, "RecordTooLargeException"))
    assert stage.jobs.get(timeout=WAIT_S) == "a"
    assert stage.done.empty()


def test_a_batch_that_cannot_be_handed_over_is_repeated_by_a_job(stage: Stage) -> None:
    stage.started().push_fails = ValueError("no")
    stage.put("a")
    assert stage.jobs.get(timeout=WAIT_S) == "a"


def test_a_batch_that_was_sent_and_is_given_up_takes_its_producer_with_it(stage: Stage) -> None:
    bridge = stage.started()
    batch = stage.put("a")
    producer, _, [number] = bridge.pushed.get(timeout=WAIT_S)
    assert stage.lanes.give_up(batch)
    assert bridge.discarded.get(timeout=WAIT_S) == producer
    bridge.outcomes.put(LaneResult(number, "KafkaException: Producer is closed forcefully."))
    assert stage.result() == ("a", None)
    assert stage.jobs.empty()


def test_a_batch_given_up_while_it_is_handed_over_discards_its_producer_and_gets_a_result(
    stage: Stage,
) -> None:
    bridge = stage.started()
    stage.put("a", batch_class=LateGiveUp)
    producer, _, [number] = bridge.pushed.get(timeout=WAIT_S)
    assert bridge.discarded.get(timeout=WAIT_S) == producer
    bridge.outcomes.put(LaneResult(number, "the records were discarded"))
    assert stage.result() == ("a", None)
    assert stage.jobs.empty()


def test_a_failed_hand_over_ends_the_lane_and_jobs_write_its_batches(stage: Stage) -> None:
    bridge = stage.started()

    class Broken(PendingBatch):
        """A batch that cannot be handed over."""

        @override
        def __getattribute__(self, name: str) -> Any:
            if name == "producer" and threading.current_thread() is not threading.main_thread():
                raise ValueError("no configs")
            return super().__getattribute__(name)

    stage.put("a", batch_class=Broken)
    assert bridge.discarded.get(timeout=WAIT_S) == "all"
    bridge.outcomes.put(LaneResult(ENDED, "its Spark task has ended"))
    assert stage.jobs.get(timeout=WAIT_S) == "a"


def test_a_batch_that_is_done_or_elsewhere_cannot_be_given_up_here(stage: Stage) -> None:
    bridge = stage.started()
    batch = stage.put("a")
    [number] = bridge.pushed.get(timeout=WAIT_S)[2]
    bridge.outcomes.put(LaneResult(number, None))
    stage.result()
    assert not stage.lanes.give_up(batch)
    assert bridge.discarded.empty()


def test_a_dead_jvm_fails_the_batches_that_were_sent(stage: Stage) -> None:
    bridge = stage.started()
    stage.put("a")
    bridge.pushed.get(timeout=WAIT_S)
    gone = ConnectionResetError("Answer from Java side is empty")
    bridge.outcomes.put(gone)
    assert stage.result() == ("a", gone)


def test_a_lane_whose_results_cannot_be_read_sends_nothing_once_jobs_repeat_its_batches(stage: Stage) -> None:
    bridge = stage.started()
    stage.put("a")
    bridge.pushed.get(timeout=WAIT_S)
    bridge.outcomes.put(ValueError("not a number"))
    assert stage.jobs.get(timeout=WAIT_S) == "a"
    assert bridge.discarded.get_nowait() == "all"


def test_a_lane_that_ends_leaves_its_batches_to_jobs_and_is_not_started_again_at_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stage.lanes.down() is None, "none was wanted"
    bridge = stage.started()
    assert stage.lanes.down() is None
    stage.put("a")
    bridge.pushed.get(timeout=WAIT_S)
    bridge.outcomes.put(LaneResult(ENDED, "its Spark task has ended"))
    assert stage.jobs.get(timeout=WAIT_S) == "a"
    down = stage.lanes.down()
    assert down is not None
    assert (down.name, down.why) == ("lane", "its Spark task has ended")
    stage.put("b")
    assert stage.jobs.get(timeout=WAIT_S) == "b"
    assert not stage.lanes.takes(1, 5)
    assert stage.bridges.empty()
    monkeypatch.setattr(module, "RESTART_DELAY_S", 0.0)
    stage.started()
    assert stage.lanes.down() is None


def test_a_new_spark_session_gets_a_lane_of_its_own_at_once(stage: Stage) -> None:
    bridge = stage.started()
    stage.session.current = object()
    bridge.outcomes.put(ConnectionResetError("gone"))
    stage.started()


def test_a_large_batch_and_a_worker_without_a_session_have_no_lane(stage: Stage) -> None:
    stage.started()
    assert not stage.lanes.takes(1001, 5)
    stage.session.current = None
    assert not stage.lanes.takes(1, 5)


def test_the_lane_takes_no_more_while_much_is_waiting(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.started()
    monkeypatch.setattr(sender, "MAX_WAITING_BYTES", -1)
    assert not stage.lanes.takes(1, 5)

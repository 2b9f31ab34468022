"""Tests for small batches on the lane and through the worker's producers, on real Spark and a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Failed, Opened, Stopped
from kraal.engine.lanes import lanes
from kraal.engine.lanes.rows import MAX_ROWS
from kraal.engine.source.ways import Way
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.schema import STRING
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import Opening, Stage

PARTITION = SourcePartition.of({"list": "a"})
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
TEXT = {"key.converter": STRINGS, "value.converter": STRINGS}
HEADER = {**TEXT, "transforms": "a", "transforms.a.type": "InsertHeader", "transforms.a.header": "h"}
HEADER |= {"transforms.a.value.literal": "x"}
JSON = {"key.converter": STRINGS, "value.converter": "org.apache.kafka.connect.json.JsonConverter"}
MAX_BATCHES = 200


class Task:
    """A source task whose batches contain consecutive numbers."""

    def __init__(self, stage: Stage, topic: str | None, config: Mapping[str, str] = TEXT) -> None:
        self.name = f"lane-{uuid.uuid4().hex[:8]}"
        self.topic = topic
        self.opening: Opening = stage.open(self.name, config=config)
        self.opening.expect(Opened)
        self.written = 0

    def request(self, count: int = 3, **columns: Any) -> None:
        """Provide a batch and request it."""
        numbers = range(self.written, self.written + count)
        self.written += count
        table = pa.table({"value": [str(number) for number in numbers]} | columns)
        offsets = {PARTITION: {"position": self.written}}
        batch = SourceBatch(
            offsets=offsets,
            table=table,
            topic=self.topic,
            key_schema=STRING if "key" in columns else None,
            value_schema=STRING,
        )
        plugins.BATCHES[self.name].append(batch)
        self.opening.run.next()

    def write(self, count: int = 3, **columns: Any) -> BatchDone:
        """Write a batch."""
        self.request(count, **columns)
        return self.opening.expect(BatchDone)

    def reach_lane(self) -> None:
        """Write batches until one goes through the lane, which starts in the background."""
        self.reach(Way.LANE)

    def reach(self, write_path: Way) -> None:
        """Write batches until one takes this write path."""
        for _ in range(MAX_BATCHES):
            if self.write().way.startswith(write_path.value):
                return
        raise AssertionError(f"no batch was written: {write_path.value}")

    def stop(self) -> None:
        """Stop the task."""
        self.opening.run.stop()
        assert self.opening.expect(Stopped).clean


def uses_lane(done: BatchDone) -> bool:
    return done.way.startswith(Way.LANE.value)


@pytest.fixture(params=[Way.LANE, Way.WORKER_PRODUCER], ids=lambda write_path: write_path.name)
def write_path(request: pytest.FixtureRequest, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Way:
    """Return a write path of small batches that requires no Spark job."""
    if request.param is Way.WORKER_PRODUCER:
        monkeypatch.setattr(stage.engine.lanes, "accepts", lambda *_: False)
    return Way(request.param)


def texts(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_batches_with_and_without_jobs_are_written_in_order(stage: Stage, write_path: Way) -> None:
    topic = stage.topic()
    task = Task(stage, topic)
    task.reach(write_path)
    assert task.write(MAX_ROWS + 1).way.startswith(Way.COALESCED.value)
    for _ in range(20):
        batch_done = task.write()
        assert batch_done.way.startswith(write_path.value)
        assert batch_done.offsets == {PARTITION: {"position": task.written}}
        assert (batch_done.records, set(batch_done.topics)) == (3, {topic})
    assert stage.values(topic, task.written) == texts(task.written)
    task.stop()


def test_keys_headers_partitions_and_topics_are_written(stage: Stage, write_path: Way) -> None:
    first, second = stage.topic(), stage.topic(3)
    task = Task(stage, None)
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = pa.array(
        [[{"key": "h", "value": b"\xff"}, {"key": "h", "value": None}], None], pa.large_list(pair)
    )
    topics = pa.array([first, second], pa.large_string())
    columns = {"topic": topics, "partition": pa.array([None, 2], pa.int64()), "headers": headers}
    for _ in range(MAX_BATCHES):
        if task.write(2, **columns).way.startswith(write_path.value):
            break
    messages = stage.messages(first, task.written // 2)
    assert messages[-1].headers() == [("h", b"\xff"), ("h", None)]
    assert messages[-1].key() is None
    assert messages[-1].value() == str(task.written - 2).encode()
    task.stop()


def test_partition_of_a_key_does_not_depend_on_the_write_path(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, keys = stage.topic(7), ["", *(f"key-{number}" for number in range(49))]
    task = Task(stage, topic)
    task.reach_lane()
    write_paths = [task.write(50, key=keys).way]
    monkeypatch.setattr(stage.engine.lanes, "accepts", lambda *_: False)
    write_paths.append(task.write(50, key=keys).way)
    monkeypatch.setattr(stage.engine.worker_producers, "accepts", lambda *_: False)
    write_paths.append(task.write(50, key=keys).way)
    assert [write_path.split(":")[0] for write_path in write_paths] == [
        write_path.value for write_path in (Way.LANE, Way.WORKER_PRODUCER, Way.COALESCED)
    ]
    partitions: dict[bytes, set[int]] = {}
    for message in stage.messages(topic, task.written, partitions=7):
        if message.key() is not None:
            partitions.setdefault(message.key(), set()).add(message.partition())
    assert partitions.keys() == {key.encode() for key in keys}
    assert all(len(numbers) == 1 for numbers in partitions.values())
    task.stop()


def test_records_processed_one_by_one_are_sent_through_the_lane(stage: Stage) -> None:
    topic = stage.topic()
    plain, task = Task(stage, stage.topic()), Task(stage, topic, HEADER)
    plain.reach_lane()
    jobs = stage.engine.coalescer.jobs
    batch_done = task.write()
    assert batch_done.way.startswith(Way.IN_WORKER.value)
    assert stage.engine.coalescer.jobs == jobs
    assert [message.headers() for message in stage.messages(topic, 3)] == [[("h", b"x")]] * 3
    plain.stop()
    task.stop()


@pytest.mark.parametrize("schemas_enable", ["true", "false"])
def test_few_json_records_require_no_job_and_match_the_records_of_a_job(
    stage: Stage, schemas_enable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = stage.topic()
    config = JSON | {"value.converter.schemas.enable": schemas_enable}
    plain, task = Task(stage, stage.topic()), Task(stage, topic, config)
    plain.reach_lane()
    unusual = pa.array(['"\\\u2028\x01', "", "\U0001f600"])
    in_worker = task.write(3, value=unusual)
    monkeypatch.setattr(stage.engine.lanes, "accepts", lambda *_: False)
    monkeypatch.setattr(stage.engine.worker_producers, "accepts", lambda *_: False)
    by_job = task.write(3, value=unusual)
    monkeypatch.undo()
    write_paths = [done.way.split(":")[0] for done in (in_worker, by_job)]
    assert write_paths == [Way.IN_WORKER.value, Way.COALESCED.value]
    assert in_worker.offsets == {PARTITION: {"position": 3}}
    values = [message.value() for message in stage.messages(topic, 6)]
    assert values[:3] == values[3:]
    plain.stop()
    task.stop()


def test_failed_batch_without_a_job_has_the_error_of_a_job(stage: Stage, write_path: Way) -> None:
    topic = stage.topic()
    good, bad = Task(stage, topic), Task(stage, "not a topic!")
    good.reach(write_path)
    bad.request()
    trace = bad.opening.expect(Failed).trace
    assert trace.startswith("org.apache.kafka.common.errors.InvalidTopicException: ")
    assert good.write().way.startswith(write_path.value)
    assert stage.values(topic, good.written) == texts(good.written)
    good.stop()


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"topic": [None]}, "null topic"),
        ({"partition": pa.array([-1], pa.int64())}, "Invalid partition: -1"),
    ],
    ids=["topic", "partition"],
)
def test_rejected_record_fails_only_its_task(
    stage: Stage, write_path: Way, columns: Mapping[str, Any], error: str
) -> None:
    topic = stage.topic()
    good, bad = Task(stage, topic), Task(stage, None if "topic" in columns else topic)
    good.reach(write_path)
    bad.request(1, **columns)
    assert error in bad.opening.expect(Failed).trace
    assert good.write().way.startswith(write_path.value)
    good.stop()


def test_jobs_write_while_a_killed_lane_restarts(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = stage.topic()
    task = Task(stage, topic)
    task.reach_lane()
    SparkSession.builder.getOrCreate().sparkContext.cancelAllJobs()
    for _ in range(5):
        task.write()
    monkeypatch.setattr(lanes, "RESTART_DELAY_S", 0.0)
    task.reach_lane()
    values = stage.values(topic, task.written)
    assert list(dict.fromkeys(values)) == texts(task.written), (
        "records must be in order; a batch may be written twice"
    )
    task.stop()


def test_lane_with_unreadable_results_is_replaced(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = stage.topic()
    task = Task(stage, topic)
    task.reach_lane()
    handle_result, failed = lanes.Lanes._handle_result, list[Any]()

    def fail_once(self: lanes.Lanes, *args: Any) -> None:
        if not failed:
            failed.append(args)
            raise ValueError("not a number")
        handle_result(self, *args)

    monkeypatch.setattr(lanes.Lanes, "_handle_result", fail_once)
    monkeypatch.setattr(lanes, "RESTART_DELAY_S", 0.0)
    task.write()
    assert failed
    task.reach_lane()
    values = stage.values(topic, task.written)
    assert list(dict.fromkeys(values)) == texts(task.written), (
        "records must be in order; a batch may be written twice"
    )
    task.stop()


def test_ended_task_closes_its_producer_in_the_lane(stage: Stage) -> None:
    client = f"lane-{uuid.uuid4().hex[:8]}"
    jvm: Any = SparkSession.builder.getOrCreate().sparkContext._jvm

    def is_open() -> bool:
        threads = jvm.java.lang.Thread.getAllStackTraces().keySet()
        return any(thread.getName().endswith(f"| {client}") for thread in threads)

    task = Task(stage, stage.topic(), {**TEXT, "producer.override.client.id": client})
    task.reach_lane()
    assert is_open()
    task.stop()
    deadline_s = time.monotonic() + 60
    while is_open():
        assert time.monotonic() < deadline_s


def test_lane_serves_other_tasks_after_a_task_is_cancelled(stage: Stage) -> None:
    topic = stage.topic()
    task, other = Task(stage, topic), Task(stage, stage.topic())
    task.reach_lane()
    other.request()
    other.opening.run.cancel()
    other.opening.expect(Stopped)
    for _ in range(3):
        task.write()
    values = stage.values(topic, task.written)
    assert list(dict.fromkeys(values)) == texts(task.written)
    task.stop()

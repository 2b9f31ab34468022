"""Tests for small batches that are written through the lane or the worker's producers, on a real broker."""

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
from kraal.engine.source.write_paths import WritePath
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.schema import STRING
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import RunObserver, TaskHarness

PARTITION = SourcePartition.of({"list": "a"})
STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
STRING_CONVERTERS = {"key.converter": STRING_CONVERTER, "value.converter": STRING_CONVERTER}
HEADER_CONFIG = {
    **STRING_CONVERTERS,
    "transforms": "a",
    "transforms.a.type": "InsertHeader",
    "transforms.a.header": "h",
}
HEADER_CONFIG |= {"transforms.a.value.literal": "x"}
JSON_CONVERTERS = {
    "key.converter": STRING_CONVERTER,
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
REACH_TIMEOUT_S = 60.0


class Task:
    """A source task whose batches contain consecutive numbers."""

    def __init__(
        self, harness: TaskHarness, topic: str | None, config: Mapping[str, str] = STRING_CONVERTERS
    ) -> None:
        self.name = f"lane-{uuid.uuid4().hex[:8]}"
        self.topic = topic
        self.observer: RunObserver = harness.open(self.name, config=config)
        self.observer.expect(Opened)
        self.record_count = 0

    def request(self, count: int = 3, **columns: Any) -> None:
        """Add a batch to the plugin's batches, and request it."""
        numbers = range(self.record_count, self.record_count + count)
        self.record_count += count
        table = pa.table({"value": [str(number) for number in numbers]} | columns)
        offsets = {PARTITION: {"position": self.record_count}}
        batch = SourceBatch(
            offsets=offsets,
            table=table,
            topic=self.topic,
            key_schema=STRING if "key" in columns else None,
            value_schema=STRING,
        )
        plugins.BATCHES[self.name].append(batch)
        self.observer.run.next()

    def write(self, count: int = 3, **columns: Any) -> BatchDone:
        """Write a batch."""
        self.request(count, **columns)
        return self.observer.expect(BatchDone)

    def reach_lane(self) -> None:
        """Write batches until one goes through the lane, which starts in the background."""
        self.reach(WritePath.LANE)

    def reach(self, write_path: WritePath, count: int = 3, **columns: Any) -> None:
        """Write batches until one takes this write path."""
        deadline_s = time.monotonic() + REACH_TIMEOUT_S
        while not self.write(count, **columns).write_path.startswith(write_path.value):
            assert time.monotonic() < deadline_s, f"no batch was written: {write_path.value}"

    def stop(self) -> None:
        """Stop the task."""
        self.observer.run.stop()
        assert self.observer.expect(Stopped).clean


@pytest.fixture(params=[WritePath.LANE, WritePath.WORKER_PRODUCER], ids=lambda write_path: write_path.name)
def write_path(
    request: pytest.FixtureRequest, harness: TaskHarness, monkeypatch: pytest.MonkeyPatch
) -> WritePath:
    """Return a write path of small batches that requires no Spark job."""
    if request.param is WritePath.WORKER_PRODUCER:
        monkeypatch.setattr(harness.engine.lanes, "accepts", lambda *_: False)
    return WritePath(request.param)


def number_texts(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_batches_with_and_without_jobs_are_written_in_order(
    harness: TaskHarness, write_path: WritePath
) -> None:
    topic = harness.topic()
    task = Task(harness, topic)
    task.reach(write_path)
    assert task.write(MAX_ROWS + 1).write_path.startswith(WritePath.COALESCED.value)
    for _ in range(20):
        batch_done = task.write()
        assert batch_done.write_path.startswith(write_path.value)
        assert batch_done.offsets == {PARTITION: {"position": task.record_count}}
        assert (batch_done.records, set(batch_done.topics)) == (3, {topic})
    assert harness.values(topic, task.record_count) == number_texts(task.record_count)
    task.stop()


def test_headers_and_topics_of_records_are_written(harness: TaskHarness, write_path: WritePath) -> None:
    first, second = harness.topic(), harness.topic(3)
    task = Task(harness, None)
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = pa.array(
        [[{"key": "h", "value": b"\xff"}, {"key": "h", "value": None}], None], pa.large_list(pair)
    )
    topics = pa.array([first, second], pa.large_string())
    columns = {"topic": topics, "partition": pa.array([None, 2], pa.int64()), "headers": headers}
    task.reach(write_path, 2, **columns)
    messages = harness.messages(first, task.record_count // 2)
    assert messages[-1].headers() == [("h", b"\xff"), ("h", None)]
    assert messages[-1].key() is None
    assert messages[-1].value() == str(task.record_count - 2).encode()
    task.stop()


def test_partition_of_a_key_does_not_depend_on_the_write_path(
    harness: TaskHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, keys = harness.topic(7), ["", *(f"key-{number}" for number in range(49))]
    task = Task(harness, topic)
    task.reach_lane()
    write_paths = [task.write(50, key=keys).write_path]
    monkeypatch.setattr(harness.engine.lanes, "accepts", lambda *_: False)
    write_paths.append(task.write(50, key=keys).write_path)
    monkeypatch.setattr(harness.engine.worker_producers, "accepts", lambda *_: False)
    write_paths.append(task.write(50, key=keys).write_path)
    assert [write_path.split(":")[0] for write_path in write_paths] == [
        write_path.value for write_path in (WritePath.LANE, WritePath.WORKER_PRODUCER, WritePath.COALESCED)
    ]
    partitions: dict[bytes, set[int]] = {}
    for message in harness.messages(topic, task.record_count, partitions=7):
        if message.key() is not None:
            partitions.setdefault(message.key(), set()).add(message.partition())
    assert partitions.keys() == {key.encode() for key in keys}
    assert all(len(numbers) == 1 for numbers in partitions.values())
    task.stop()


def test_records_processed_one_by_one_are_sent_through_the_lane(harness: TaskHarness) -> None:
    topic = harness.topic()
    other_task, task = Task(harness, harness.topic()), Task(harness, topic, HEADER_CONFIG)
    other_task.reach_lane()
    job_count = harness.engine.coalescer.jobs
    batch_done = task.write()
    assert batch_done.write_path.startswith(WritePath.IN_WORKER.value)
    assert harness.engine.coalescer.jobs == job_count
    assert [message.headers() for message in harness.messages(topic, 3)] == [[("h", b"x")]] * 3
    other_task.stop()
    task.stop()


@pytest.mark.parametrize("schemas_enable", ["true", "false"])
def test_few_json_records_require_no_job_and_match_the_records_of_a_job(
    harness: TaskHarness, schemas_enable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = harness.topic()
    config = JSON_CONVERTERS | {"value.converter.schemas.enable": schemas_enable}
    other_task, task = Task(harness, harness.topic()), Task(harness, topic, config)
    other_task.reach_lane()
    unusual_values = pa.array(['"\\\u2028\x01', "", "\U0001f600"])
    worker_batch = task.write(3, value=unusual_values)
    monkeypatch.setattr(harness.engine.lanes, "accepts", lambda *_: False)
    monkeypatch.setattr(harness.engine.worker_producers, "accepts", lambda *_: False)
    job_batch = task.write(3, value=unusual_values)
    monkeypatch.undo()
    write_paths = [done.write_path.split(":")[0] for done in (worker_batch, job_batch)]
    assert write_paths == [WritePath.IN_WORKER.value, WritePath.COALESCED.value]
    assert worker_batch.offsets == {PARTITION: {"position": 3}}
    values = [message.value() for message in harness.messages(topic, 6)]
    assert values[:3] == values[3:]
    other_task.stop()
    task.stop()


def test_failed_batch_without_a_job_has_the_error_of_a_job(
    harness: TaskHarness, write_path: WritePath
) -> None:
    topic = harness.topic()
    good_task, bad_task = Task(harness, topic), Task(harness, "not a topic!")
    good_task.reach(write_path)
    bad_task.request()
    trace = bad_task.observer.expect(Failed).trace
    assert trace.startswith("org.apache.kafka.common.errors.InvalidTopicException: ")
    assert good_task.write().write_path.startswith(write_path.value)
    assert harness.values(topic, good_task.record_count) == number_texts(good_task.record_count)
    good_task.stop()


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"topic": [None]}, "null topic"),
        ({"partition": pa.array([-1], pa.int64())}, "Invalid partition: -1"),
    ],
    ids=["topic", "partition"],
)
def test_rejected_record_fails_only_its_task(
    harness: TaskHarness, write_path: WritePath, columns: Mapping[str, Any], error: str
) -> None:
    topic = harness.topic()
    good_task, bad_task = Task(harness, topic), Task(harness, None if "topic" in columns else topic)
    good_task.reach(write_path)
    bad_task.request(1, **columns)
    assert error in bad_task.observer.expect(Failed).trace
    assert good_task.write().write_path.startswith(write_path.value)
    good_task.stop()


def test_jobs_write_while_a_killed_lane_restarts(
    harness: TaskHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = harness.topic()
    task = Task(harness, topic)
    task.reach_lane()
    SparkSession.builder.getOrCreate().sparkContext.cancelAllJobs()
    for _ in range(5):
        task.write()
    monkeypatch.setattr(lanes, "RESTART_DELAY_S", 0.0)
    task.reach_lane()
    values = harness.values(topic, task.record_count)
    assert list(dict.fromkeys(values)) == number_texts(task.record_count), (
        "records must be in order; a batch may be written twice"
    )
    task.stop()


def test_lane_with_unreadable_results_is_replaced(
    harness: TaskHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = harness.topic()
    task = Task(harness, topic)
    task.reach_lane()
    handle_result, failed_calls = lanes.Lanes._handle_result, list[Any]()

    def fail_once(self: lanes.Lanes, *args: Any) -> None:
        if not failed_calls:
            failed_calls.append(args)
            raise ValueError("not a number")
        handle_result(self, *args)

    monkeypatch.setattr(lanes.Lanes, "_handle_result", fail_once)
    monkeypatch.setattr(lanes, "RESTART_DELAY_S", 0.0)
    task.write()
    assert failed_calls
    task.reach_lane()
    values = harness.values(topic, task.record_count)
    assert list(dict.fromkeys(values)) == number_texts(task.record_count), (
        "records must be in order; a batch may be written twice"
    )
    task.stop()


def test_ended_task_closes_its_producer_in_the_lane(harness: TaskHarness) -> None:
    client_id = f"lane-{uuid.uuid4().hex[:8]}"
    jvm: Any = SparkSession.builder.getOrCreate().sparkContext._jvm

    def is_open() -> bool:
        threads = jvm.java.lang.Thread.getAllStackTraces().keySet()
        return any(thread.getName().endswith(f"| {client_id}") for thread in threads)

    task = Task(harness, harness.topic(), {**STRING_CONVERTERS, "producer.override.client.id": client_id})
    task.reach_lane()
    assert is_open()
    task.stop()
    deadline_s = time.monotonic() + 60
    while is_open():
        assert time.monotonic() < deadline_s


def test_lane_serves_other_tasks_after_a_task_is_cancelled(harness: TaskHarness) -> None:
    topic = harness.topic()
    task, cancelled_task = Task(harness, topic), Task(harness, harness.topic())
    task.reach_lane()
    cancelled_task.request()
    cancelled_task.observer.run.cancel()
    cancelled_task.observer.expect(Stopped)
    for _ in range(3):
        task.write()
    values = harness.values(topic, task.record_count)
    assert list(dict.fromkeys(values)) == number_texts(task.record_count)
    task.stop()

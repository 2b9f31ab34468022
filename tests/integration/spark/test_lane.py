"""Small batches through the lane: on the suite's Spark and a real broker."""

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

PLACE = SourcePartition.of({"list": "a"})
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
TEXT = {"key.converter": STRINGS, "value.converter": STRINGS}
HEADER = {**TEXT, "transforms": "a", "transforms.a.type": "InsertHeader", "transforms.a.header": "h"}
HEADER |= {"transforms.a.value.literal": "x"}
JSON = {"key.converter": STRINGS, "value.converter": "org.apache.kafka.connect.json.JsonConverter"}
TRIES = 200


class Task:
    """A task whose batches a test gives, and the numbers that it has written."""

    def __init__(self, stage: Stage, topic: str | None, config: Mapping[str, str] = TEXT) -> None:
        self.name = f"lane-{uuid.uuid4().hex[:8]}"
        self.topic = topic
        self.opening: Opening = stage.open(self.name, config=config)
        self.opening.expect(Opened)
        self.written = 0

    def ask(self, count: int = 3, **columns: Any) -> None:
        """Give a batch, and ask for it."""
        numbers = range(self.written, self.written + count)
        self.written += count
        table = pa.table({"value": [str(number) for number in numbers]} | columns)
        offsets = {PLACE: {"position": self.written}}
        batch = SourceBatch(offsets=offsets, table=table, topic=self.topic, value_schema=STRING)
        plugins.BATCHES[self.name].append(batch)
        self.opening.run.next()

    def write(self, count: int = 3, **columns: Any) -> BatchDone:
        """Write a batch."""
        self.ask(count, **columns)
        return self.opening.expect(BatchDone)

    def reach_lane(self) -> None:
        """Write batches until one goes through the lane: the first ones go by jobs, while it starts."""
        for _ in range(TRIES):
            if by_lane(self.write()):
                return
        raise AssertionError("the lane takes nothing")

    def end(self) -> None:
        """Stop the task."""
        self.opening.run.stop()
        assert self.opening.expect(Stopped).clean


def by_lane(done: BatchDone) -> bool:
    return done.way.startswith(Way.LANE.value)


def texts(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_batches_by_jobs_and_through_the_lane_arrive_in_order(stage: Stage) -> None:
    topic = stage.topic()
    task = Task(stage, topic)
    task.reach_lane()
    assert not by_lane(task.write(MAX_ROWS + 1))
    for _ in range(20):
        done = task.write()
        assert by_lane(done)
        assert done.offsets == {PLACE: {"position": task.written}}
        assert (done.records, set(done.topics)) == (3, {topic})
    assert stage.values(topic, task.written) == texts(task.written)
    task.end()


def test_keys_headers_partitions_and_topics_of_records_are_kept(stage: Stage) -> None:
    first, second = stage.topic(), stage.topic(3)
    task = Task(stage, None)
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = pa.array(
        [[{"key": "h", "value": b"\xff"}, {"key": "h", "value": None}], None], pa.large_list(pair)
    )
    topics = pa.array([first, second], pa.large_string())
    columns = {"topic": topics, "partition": pa.array([None, 2], pa.int64()), "headers": headers}
    for _ in range(TRIES):
        if by_lane(task.write(2, **columns)):
            break
    messages = stage.messages(first, task.written // 2)
    assert messages[-1].headers() == [("h", b"\xff"), ("h", None)]
    assert messages[-1].key() is None
    assert messages[-1].value() == str(task.written - 2).encode()
    task.end()


def test_records_that_pass_one_by_one_go_through_the_lane(stage: Stage) -> None:
    topic = stage.topic()
    plain, task = Task(stage, stage.topic()), Task(stage, topic, HEADER)
    plain.reach_lane()
    jobs = stage.engine.coalescer.jobs
    done = task.write()
    assert done.way.startswith(Way.IN_WORKER.value)
    assert stage.engine.coalescer.jobs == jobs
    assert [message.headers() for message in stage.messages(topic, 3)] == [[("h", b"x")]] * 3
    plain.end()
    task.end()


@pytest.mark.parametrize("enveloped", ["true", "false"])
def test_few_records_as_json_need_no_job_and_have_the_bytes_that_a_job_writes(
    stage: Stage, enveloped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = stage.topic()
    config = JSON | {"value.converter.schemas.enable": enveloped}
    plain, task = Task(stage, stage.topic()), Task(stage, topic, config)
    plain.reach_lane()
    strange = pa.array(['"\\\u2028\x01', "", "\U0001f600"])
    in_worker = task.write(3, value=strange)
    monkeypatch.setattr(stage.engine.lanes, "takes", lambda *_: False)
    by_job = task.write(3, value=strange)
    monkeypatch.undo()
    ways = [done.way.split(":")[0] for done in (in_worker, by_job)]
    assert ways == [Way.IN_WORKER.value, Way.COALESCED.value]
    assert in_worker.offsets == {PLACE: {"position": 3}}
    values = [message.value() for message in stage.messages(topic, 6)]
    assert values[:3] == values[3:]
    plain.end()
    task.end()


def test_a_batch_that_fails_in_the_lane_fails_as_by_a_job_and_others_do_not_notice(stage: Stage) -> None:
    topic = stage.topic()
    good, bad = Task(stage, topic), Task(stage, "not a topic!")
    good.reach_lane()
    bad.ask()
    trace = bad.opening.expect(Failed).trace
    assert trace.startswith("org.apache.kafka.common.errors.InvalidTopicException: ")
    assert by_lane(good.write())
    assert stage.values(topic, good.written) == texts(good.written)
    good.end()


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"topic": [None]}, "null topic"),
        ({"partition": pa.array([-1], pa.int64())}, "Invalid partition: -1"),
    ],
    ids=["topic", "partition"],
)
def test_a_record_that_kafka_cannot_have_fails_its_task_and_the_lane_stays(
    stage: Stage, columns: Mapping[str, Any], error: str
) -> None:
    topic = stage.topic()
    good, bad = Task(stage, topic), Task(stage, None if "topic" in columns else topic)
    good.reach_lane()
    bad.ask(1, **columns)
    assert error in bad.opening.expect(Failed).trace
    assert by_lane(good.write())
    good.end()


def test_jobs_write_when_the_lanes_spark_task_is_killed_and_then_it_starts_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = stage.topic()
    task = Task(stage, topic)
    task.reach_lane()
    SparkSession.builder.getOrCreate().sparkContext.cancelAllJobs()
    for _ in range(5):
        task.write()
    monkeypatch.setattr(lanes, "RESTART_DELAY_S", 0.0)
    task.reach_lane()
    values = stage.values(topic, task.written)
    assert list(dict.fromkeys(values)) == texts(task.written), "in order; a batch may be there twice"
    task.end()


def test_a_lane_whose_results_cannot_be_read_is_ended_and_another_one_starts(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = stage.topic()
    task = Task(stage, topic)
    task.reach_lane()
    settle, failed = lanes.Lanes._settle, list[Any]()

    def fail_once(self: lanes.Lanes, *given: Any) -> None:
        if not failed:
            failed.append(given)
            raise ValueError("not a number")
        settle(self, *given)

    monkeypatch.setattr(lanes.Lanes, "_settle", fail_once)
    monkeypatch.setattr(lanes, "RESTART_DELAY_S", 0.0)
    task.write()
    assert failed
    task.reach_lane()
    values = stage.values(topic, task.written)
    assert list(dict.fromkeys(values)) == texts(task.written), "in order; a batch may be there twice"
    task.end()


def test_an_ended_task_leaves_no_producer_in_the_lane(stage: Stage) -> None:
    client = f"lane-{uuid.uuid4().hex[:8]}"
    jvm: Any = SparkSession.builder.getOrCreate().sparkContext._jvm

    def is_open() -> bool:
        threads = jvm.java.lang.Thread.getAllStackTraces().keySet()
        return any(thread.getName().endswith(f"| {client}") for thread in threads)

    task = Task(stage, stage.topic(), {**TEXT, "producer.override.client.id": client})
    task.reach_lane()
    assert is_open()
    task.end()
    deadline_s = time.monotonic() + 60
    while is_open():
        assert time.monotonic() < deadline_s


def test_a_cancelled_task_leaves_the_lane_to_others(stage: Stage) -> None:
    topic = stage.topic()
    task, other = Task(stage, topic), Task(stage, stage.topic())
    task.reach_lane()
    other.ask()
    other.opening.run.cancel()
    other.opening.expect(Stopped)
    for _ in range(3):
        task.write()
    values = stage.values(topic, task.written)
    assert list(dict.fromkeys(values)) == texts(task.written)
    task.end()

"""Tests for sinks on real Spark and a real broker. Mirrors WorkerSinkTaskTest and SinkConnectorsIntegrationTest."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import confluent_kafka as ck
import pytest

from kraal.engine.api import BatchDone, Committed, Failed, Held, Opened, Stopped
from kraal.engine.sink.executor import MIN_SPARK_READ
from kraal.plugins.api import RetriableError
from tests.fakes.kafka.raw_headers import produce_with_header
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import Opening, Stage

pytestmark = pytest.mark.releases

JSON = "org.apache.kafka.connect.json.JsonConverter"
DATA = "org.apache.kafka.connect.errors.DataException"


def open_run(
    stage: Stage, task: str, topics: str, backlog: Callable[[int], None] = lambda _: None, **config: str
) -> Opening:
    settings = {"topics": topics, **{key.replace("_", "."): value for key, value in config.items()}}
    opening = stage.open(task, "ListSink", settings, backlog=backlog)
    opening.expect(Opened)
    return opening


def commit_batches(opening: Opening, count: int) -> None:
    """Commit batches with `count` records in total."""
    committed_count = 0
    while committed_count < count:
        opening.run.next()
        batch = opening.expect(BatchDone)
        opening.run.commit(batch.offsets)
        opening.expect(Committed)
        committed_count += batch.records
    assert committed_count == count


def new_name() -> str:
    return f"sink-{uuid.uuid4().hex[:8]}"


def test_backlog_then_tail_then_restart_without_duplicates(stage: Stage) -> None:
    task, topic = new_name(), stage.topic(2)
    stage.produce(topic, [f"a{number}" for number in range(3000)], 0)
    stage.produce(topic, [f"b{number}" for number in range(2000)], 1)
    backlogs: list[int] = []
    opening = open_run(stage, task, topic, backlogs.append, max_records_per_batch="2000")
    commit_batches(opening, 5000)
    assert backlogs == [5000, 3000, 1000, 0], "one report at the start and one per batch"
    opening.run.next()
    stage.produce(topic, ["tail"], 1)
    batch = opening.expect(BatchDone)
    assert (batch.records, backlogs[-1]) == (1, 0)
    opening.run.commit(batch.offsets)
    opening.expect(Committed)
    opening.run.hold()
    opening.expect(Held)
    opening.run.stop()
    assert opening.expect(Stopped).clean

    stage.produce(topic, ["after"], 0)
    restarted = open_run(stage, task, topic)
    commit_batches(restarted, 1)
    restarted.run.stop()
    restarted.expect(Stopped)
    records = plugins.WRITTEN[task]
    values_of_partition_0 = [value for _, partition, _, value in records if partition == 0]
    assert values_of_partition_0 == [*(f"a{number}" for number in range(3000)), "after"]
    assert len({(p, o) for _, p, o, _ in records}) == len(records) == 5002


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_header_name_with_invalid_utf8_does_not_fail_a_sink(stage: Stage, tolerance: str) -> None:
    task, topic = new_name(), stage.topic()
    before = [f"before {number}" for number in range(50)]  # enough for CPython to specialise the calls
    stage.produce(topic, before)
    produce_with_header(stage.address, topic, b"malformed", b"\xff", b"1")
    opening = open_run(stage, task, topic, errors_tolerance=tolerance)
    commit_batches(opening, 51)
    opening.run.stop()
    opening.expect(Stopped)
    assert [str(value).strip('"') for *_, value in plugins.WRITTEN[task]] == [*before, "malformed"]


def test_stop_after_a_batch_waits_for_its_commit(stage: Stage) -> None:
    task, topic = new_name(), stage.topic()
    stage.produce(topic, ["one"])
    opening = open_run(stage, task, topic)
    opening.run.next()
    batch = opening.expect(BatchDone)
    opening.run.stop()
    opening.run.commit(batch.offsets)
    opening.expect(Committed)
    assert opening.expect(Stopped).clean


@pytest.mark.parametrize("count", [1, MIN_SPARK_READ], ids=["tail", "backlog"])
def test_unreadable_value_error_contains_its_coordinates_and_the_parser_error(
    stage: Stage, count: int
) -> None:
    topic = stage.topic()
    stage.produce(topic, ['{"n":1}'] * count + ['{"n": xyz}'])
    opening = open_run(stage, new_name(), topic, value_converter=JSON, value_converter_schemas_enable="false")
    opening.run.next()
    failed = opening.expect(Failed)
    first, _, *rest = failed.trace.splitlines()
    message = "Converting byte[] to Kafka Connect data failed due to serialization error: "
    reason = "json.decoder.JSONDecodeError: Expecting value: line 1 column 7 (char 6)"
    assert first == f"{DATA}: record {topic}-0@{count} failed at VALUE_CONVERTER: {message}{reason}"
    assert rest[:3] == [
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler",
        f"\tat stage VALUE_CONVERTER of {JSON}, record {topic}-0@{count}",
        f"Caused by: {DATA}: {message}",
    ]
    assert f"Caused by: {reason}" in rest
    assert failed.errors.errors == 1


@pytest.mark.parametrize("count", [1, MIN_SPARK_READ], ids=["tail", "backlog"])
def test_values_that_only_the_columns_reject_are_read_one_by_one(stage: Stage, count: int) -> None:
    task, topic = new_name(), stage.topic()
    stage.produce(topic, ['{"n":1.5}'] * count + ["007", '{"a":"x\\ud83d"}'])
    opening = open_run(stage, task, topic, value_converter=JSON, value_converter_schemas_enable="false")
    commit_batches(opening, count + 2)
    opening.run.stop()
    opening.expect(Stopped)
    values = [str(value) for *_, value in plugins.WRITTEN[task]]
    assert values == ['{"n":1.5}'] * count + ["7", '{"a":"x?"}']


def test_retriable_write_error_repeats_the_batch(stage: Stage) -> None:
    task, topic = new_name(), stage.topic()
    stage.produce(topic, ["one"])
    plugins.FAILURES[task].append(RetriableError("full"))
    opening = open_run(stage, task, topic)
    commit_batches(opening, 1)
    assert [value for *_, value in plugins.WRITTEN[task]] == ["one"]
    opening.run.stop()
    opening.expect(Stopped)


def test_plugin_receives_each_assignment(stage: Stage) -> None:
    task, topic = new_name(), stage.topic(2)
    stage.produce(topic, ["one"], 0)
    opening = open_run(stage, task, topic)
    commit_batches(opening, 1)
    partitions, assignments = frozenset({0, 1}), plugins.ASSIGNED[task]
    assert assignments == [("open", partitions)]
    opening.run.next()
    config = {
        "bootstrap.servers": stage.address,
        "group.id": f"connect-{task}",
        "auto.offset.reset": "earliest",
    }
    other_consumer = ck.Consumer(config)
    try:
        other_consumer.subscribe([topic])
        wait_until(
            lambda: (
                other_consumer.poll(0.1) is None
                and len(assignments) >= 3
                and len(other_consumer.assignment()) == 1
            )
        )
        (moved,) = (part.partition for part in other_consumer.assignment())
        assert assignments[1:3] == [("close", partitions), ("open", partitions - {moved})]
    finally:
        other_consumer.close()
    wait_until(lambda: len(assignments) >= 5)
    assert assignments[3:5] == [("close", partitions - {moved}), ("open", partitions)]
    opening.run.stop()
    opening.expect(Stopped)
    assert assignments[5:] == [("close", partitions)]


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_sink_waits_for_a_missing_topic(stage: Stage) -> None:
    task, topic = new_name(), f"late-{uuid.uuid4().hex[:8]}"
    opening = open_run(stage, task, topic)
    opening.run.next()
    stage.produce(topic, ["one"])  # creates the topic
    batch = opening.expect(BatchDone)
    assert batch.topics == {topic}
    opening.run.cancel()
    opening.expect(Stopped)


def test_pattern_matches_full_names_and_new_topics(stage: Stage) -> None:
    task, mark = new_name(), uuid.uuid4().hex[:8]
    opening = stage.open(task, "ListSink", {"topics.regex": f"(in|out)-{mark}"})
    opening.expect(Opened)
    opening.run.next()
    stage.create(f"in-{mark}")
    stage.create(f"in-{mark}-not")
    stage.produce(f"in-{mark}-not", ["other"])
    stage.produce(f"in-{mark}", ["one"])
    batch = opening.expect(BatchDone)
    opening.run.commit(batch.offsets)
    opening.expect(Committed)
    opening.run.stop()
    opening.expect(Stopped)
    assert [value for *_, value in plugins.WRITTEN[task]] == ["one"]


@pytest.mark.parametrize("limit", [100, 700], ids=["tail", "backlog"])
def test_batches_have_at_most_max_records_per_batch(stage: Stage, limit: int) -> None:
    task, topic = new_name(), stage.topic(2)
    for partition in (0, 1):
        stage.produce(topic, [f"{partition}-{number}" for number in range(1000)], partition)
    opening = stage.open(task, "ListSink", {"topics": topic, "max.records.per.batch": str(limit)})
    opening.expect(Opened)
    sizes: list[int] = []
    while sum(sizes) < 2000:
        opening.run.next()
        batch = opening.expect(BatchDone)
        opening.run.commit(batch.offsets)
        opening.expect(Committed)
        sizes.append(batch.records)
    opening.run.stop()
    opening.expect(Stopped)
    assert max(sizes) <= limit
    assert len(plugins.WRITTEN[task]) == sum(sizes) == 2000

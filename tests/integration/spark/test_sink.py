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
from tests.fakes.spark.stage import RunObserver, TaskHarness

pytestmark = pytest.mark.releases

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
DATA_EXCEPTION = "org.apache.kafka.connect.errors.DataException"


def open_run(
    harness: TaskHarness,
    task: str,
    topics: str,
    backlog: Callable[[int], None] = lambda _: None,
    **config: str,
) -> RunObserver:
    settings = {"topics": topics, **{key.replace("_", "."): value for key, value in config.items()}}
    observer = harness.open(task, "ListSink", settings, backlog=backlog)
    observer.expect(Opened)
    return observer


def commit_batches(observer: RunObserver, count: int) -> None:
    """Commit batches with `count` records in total."""
    committed_count = 0
    while committed_count < count:
        observer.run.next()
        batch = observer.expect(BatchDone)
        observer.run.commit(batch.offsets)
        observer.expect(Committed)
        committed_count += batch.records
    assert committed_count == count


def new_name() -> str:
    return f"sink-{uuid.uuid4().hex[:8]}"


def test_backlog_tail_and_restart_cause_no_duplicates(harness: TaskHarness) -> None:
    task, topic = new_name(), harness.topic(2)
    harness.produce(topic, [f"a{number}" for number in range(3000)], 0)
    harness.produce(topic, [f"b{number}" for number in range(2000)], 1)
    backlogs: list[int] = []
    observer = open_run(harness, task, topic, backlogs.append, max_records_per_batch="2000")
    commit_batches(observer, 5000)
    assert backlogs == [5000, 3000, 1000, 0], "one report at the start and one per batch"
    observer.run.next()
    harness.produce(topic, ["tail"], 1)
    batch = observer.expect(BatchDone)
    assert (batch.records, backlogs[-1]) == (1, 0)
    observer.run.commit(batch.offsets)
    observer.expect(Committed)
    observer.run.hold()
    observer.expect(Held)
    observer.run.stop()
    assert observer.expect(Stopped).clean

    harness.produce(topic, ["after"], 0)
    restarted_observer = open_run(harness, task, topic)
    commit_batches(restarted_observer, 1)
    restarted_observer.run.stop()
    restarted_observer.expect(Stopped)
    records = plugins.WRITTEN[task]
    values_of_partition_0 = [value for _, partition, _, value in records if partition == 0]
    assert values_of_partition_0 == [*(f"a{number}" for number in range(3000)), "after"]
    assert len({(p, o) for _, p, o, _ in records}) == len(records) == 5002


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_header_name_with_invalid_utf8_does_not_fail_a_sink(harness: TaskHarness, tolerance: str) -> None:
    task, topic = new_name(), harness.topic()
    earlier_values = [
        f"before {number}" for number in range(50)
    ]  # enough for CPython to specialise the calls
    harness.produce(topic, earlier_values)
    produce_with_header(harness.address, topic, b"malformed", b"\xff", b"1")
    observer = open_run(harness, task, topic, errors_tolerance=tolerance)
    commit_batches(observer, 51)
    observer.run.stop()
    observer.expect(Stopped)
    assert [str(value).strip('"') for *_, value in plugins.WRITTEN[task]] == [*earlier_values, "malformed"]


def test_stop_after_a_batch_waits_for_its_commit(harness: TaskHarness) -> None:
    task, topic = new_name(), harness.topic()
    harness.produce(topic, ["one"])
    observer = open_run(harness, task, topic)
    observer.run.next()
    batch = observer.expect(BatchDone)
    observer.run.stop()
    observer.run.commit(batch.offsets)
    observer.expect(Committed)
    assert observer.expect(Stopped).clean


@pytest.mark.parametrize("count", [1, MIN_SPARK_READ], ids=["tail", "backlog"])
def test_unreadable_value_error_contains_its_coordinates_and_the_parser_error(
    harness: TaskHarness, count: int
) -> None:
    topic = harness.topic()
    harness.produce(topic, ['{"n":1}'] * count + ['{"n": xyz}'])
    observer = open_run(
        harness, new_name(), topic, value_converter=JSON_CONVERTER, value_converter_schemas_enable="false"
    )
    observer.run.next()
    failure = observer.expect(Failed)
    first, _, *rest = failure.trace.splitlines()
    message = "Converting byte[] to Kafka Connect data failed due to serialization error: "
    reason = "json.decoder.JSONDecodeError: Expecting value: line 1 column 7 (char 6)"
    assert first == f"{DATA_EXCEPTION}: record {topic}-0@{count} failed at VALUE_CONVERTER: {message}{reason}"
    assert rest[:3] == [
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler",
        f"\tat stage VALUE_CONVERTER of {JSON_CONVERTER}, record {topic}-0@{count}",
        f"Caused by: {DATA_EXCEPTION}: {message}",
    ]
    assert f"Caused by: {reason}" in rest
    assert failure.errors.errors == 1


@pytest.mark.parametrize("count", [1, MIN_SPARK_READ], ids=["tail", "backlog"])
def test_values_that_only_the_columns_reject_are_read_one_by_one(harness: TaskHarness, count: int) -> None:
    task, topic = new_name(), harness.topic()
    harness.produce(topic, ['{"n":1.5}'] * count + ["007", '{"a":"x\\ud83d"}'])
    observer = open_run(
        harness, task, topic, value_converter=JSON_CONVERTER, value_converter_schemas_enable="false"
    )
    commit_batches(observer, count + 2)
    observer.run.stop()
    observer.expect(Stopped)
    values = [str(value) for *_, value in plugins.WRITTEN[task]]
    assert values == ['{"n":1.5}'] * count + ["7", '{"a":"x?"}']


def test_retriable_write_error_repeats_the_batch(harness: TaskHarness) -> None:
    task, topic = new_name(), harness.topic()
    harness.produce(topic, ["one"])
    plugins.FAILURES[task].append(RetriableError("full"))
    observer = open_run(harness, task, topic)
    commit_batches(observer, 1)
    assert [value for *_, value in plugins.WRITTEN[task]] == ["one"]
    observer.run.stop()
    observer.expect(Stopped)


def test_plugin_receives_each_assignment(harness: TaskHarness) -> None:
    task, topic = new_name(), harness.topic(2)
    harness.produce(topic, ["one"], 0)
    observer = open_run(harness, task, topic)
    commit_batches(observer, 1)
    partitions, assignments = frozenset({0, 1}), plugins.ASSIGNED[task]
    assert assignments == [("open", partitions)]
    observer.run.next()
    config = {
        "bootstrap.servers": harness.address,
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
        (moved_partition,) = (part.partition for part in other_consumer.assignment())
        assert assignments[1:3] == [("close", partitions), ("open", partitions - {moved_partition})]
    finally:
        other_consumer.close()
    wait_until(lambda: len(assignments) >= 5)
    assert assignments[3:5] == [("close", partitions - {moved_partition}), ("open", partitions)]
    observer.run.stop()
    observer.expect(Stopped)
    assert assignments[5:] == [("close", partitions)]


def wait_until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_sink_waits_for_a_missing_topic(harness: TaskHarness) -> None:
    task, topic = new_name(), f"late-{uuid.uuid4().hex[:8]}"
    observer = open_run(harness, task, topic)
    observer.run.next()
    harness.produce(topic, ["one"])  # creates the topic
    batch = observer.expect(BatchDone)
    assert batch.topics == {topic}
    observer.run.cancel()
    observer.expect(Stopped)


def test_pattern_matches_full_names_and_new_topics(harness: TaskHarness) -> None:
    task, mark = new_name(), uuid.uuid4().hex[:8]
    observer = harness.open(task, "ListSink", {"topics.regex": f"(in|out)-{mark}"})
    observer.expect(Opened)
    observer.run.next()
    harness.create(f"in-{mark}")
    harness.create(f"in-{mark}-not")
    harness.produce(f"in-{mark}-not", ["other"])
    harness.produce(f"in-{mark}", ["one"])
    batch = observer.expect(BatchDone)
    observer.run.commit(batch.offsets)
    observer.expect(Committed)
    observer.run.stop()
    observer.expect(Stopped)
    assert [value for *_, value in plugins.WRITTEN[task]] == ["one"]


@pytest.mark.parametrize("limit", [100, 700], ids=["tail", "backlog"])
def test_batches_have_at_most_max_records_per_batch(harness: TaskHarness, limit: int) -> None:
    task, topic = new_name(), harness.topic(2)
    for partition in (0, 1):
        harness.produce(topic, [f"{partition}-{number}" for number in range(1000)], partition)
    observer = harness.open(task, "ListSink", {"topics": topic, "max.records.per.batch": str(limit)})
    observer.expect(Opened)
    sizes: list[int] = []
    while sum(sizes) < 2000:
        observer.run.next()
        batch = observer.expect(BatchDone)
        observer.run.commit(batch.offsets)
        observer.expect(Committed)
        sizes.append(batch.records)
    observer.run.stop()
    observer.expect(Stopped)
    assert max(sizes) <= limit
    assert len(plugins.WRITTEN[task]) == sum(sizes) == 2000

"""Tests for records that are processed one by one, on real Spark and a real broker.

Mirrors ErrorHandlingIntegrationTest and TransformationIntegrationTest.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Committed, Failed, Opened, Stopped
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.schema import STRING
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import RunObserver, TaskHarness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION = SourcePartition.of({"list": "a"})
TOLERANT_CONFIG = {
    "transforms": "moody",
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}


def make_batch(topic: str, values: list[str] | None = None, read: Any = None) -> SourceBatch:
    table = None if values is None else pa.table({"value": values})
    return SourceBatch(
        offsets={PARTITION: {"position": 1}}, table=table, read=read, topic=topic, value_schema=STRING
    )


def open_run(harness: TaskHarness, connector: str, config: Mapping[str, str]) -> tuple[str, RunObserver]:
    name = f"records-{uuid.uuid4().hex[:8]}"
    observer = harness.open(name, connector, config)
    observer.expect(Opened)
    return name, observer


def stop_run(observer: RunObserver) -> None:
    observer.run.stop()
    assert observer.expect(Stopped).clean


def test_source_pass_has_the_same_result_in_the_worker_and_in_spark(harness: TaskHarness) -> None:
    """A small batch and a batch that Spark reads have equal topics, counts, offsets and dead letters."""
    topic, routed_topic, dead_letter_topic = harness.topic(), harness.topic(), f"dead-{uuid.uuid4().hex[:8]}"
    values = ["a", "drop", f"route {routed_topic}", "bad luck", "b"]

    def read(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(pa.table({"value": values})).coalesce(1)

    task, observer = open_run(
        harness, "ListSource", {**TOLERANT_CONFIG, "errors.deadletterqueue.topic.name": dead_letter_topic}
    )
    for source_batch in (make_batch(topic, values), make_batch(topic, read=read)):
        plugins.BATCHES[task].append(source_batch)
        observer.run.next()
        batch_done = observer.expect(BatchDone)
        assert (batch_done.records, batch_done.read) == (3, 5)
        assert set(batch_done.topics) == {topic, routed_topic}
        assert batch_done.offsets == {PARTITION: {"position": 1}}
        assert (batch_done.errors.skipped, batch_done.errors.dead_letters) == (1, 1)
    plugins.BATCHES[task].append(make_batch(topic, ["drop", "drop"]))
    observer.run.next()
    batch_done = observer.expect(BatchDone)
    assert (batch_done.records, batch_done.read, batch_done.topics) == (0, 2, frozenset())
    assert batch_done.offsets, "the offsets of dropped records must be committed"
    stop_run(observer)
    assert harness.values(topic, 4) == ["A", "B"] * 2
    assert harness.values(routed_topic, 2) == [f"route {routed_topic}"] * 2
    letters = harness.messages(dead_letter_topic, 2)
    assert [letter.value() for letter in letters] == [b"bad luck"] * 2
    for letter in letters:
        headers = dict(letter.headers())
        assert headers["__connect.errors.topic"] == topic.encode()
        assert headers["__connect.errors.exception.message"] == b"bad luck"
        assert headers["__connect.errors.stage"] == b"TRANSFORMATION"


def test_bad_record_in_spark_fails_a_source_with_the_message_of_connect(harness: TaskHarness) -> None:
    topic = harness.topic()

    def read(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(pa.table({"value": ["a", "bad luck", "b"]})).coalesce(1)

    task, observer = open_run(harness, "ListSource", {"transforms": "moody"})
    plugins.BATCHES[task].append(make_batch(topic, read=read))
    observer.run.next()
    failure = observer.expect(Failed)
    lines = failure.trace.splitlines()
    assert lines[0] == "org.apache.kafka.connect.errors.DataException: bad luck"
    assert "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler" in lines
    assert failure.errors.errors == 1
    assert harness.values(topic, 1) == ["A"], "earlier records must be sent, as in Java"


def test_bad_records_of_backlog_and_tail_become_complete_dead_letters(harness: TaskHarness) -> None:
    topic, dead_letter_topic = harness.topic(), f"dead-{uuid.uuid4().hex[:8]}"
    harness.produce(topic, [f"bad {n}" if n == 700 else f"a{n}" for n in range(1500)])
    config = {**TOLERANT_CONFIG, "topics": topic, "errors.deadletterqueue.topic.name": dead_letter_topic}
    task, observer = open_run(harness, "ListSink", config)
    committed_count = 0
    while committed_count < 1500:
        committed_count += commit_batch(observer)
    harness.produce(topic, ["tail", "bad tail", "drop me"])
    while committed_count < 1503:
        committed_count += commit_batch(observer)
    stop_run(observer)
    values = [str(value).strip('"') for *_, value in plugins.WRITTEN[task]]
    assert values == [*(f"A{n}" for n in range(1500) if n != 700), "TAIL"]
    letters = harness.messages(dead_letter_topic, 2)
    assert [letter.value() for letter in letters] == [b"bad 700", b"bad tail"]
    assert [dict(letter.headers())["__connect.errors.offset"] for letter in letters] == [b"700", b"1501"]
    bad_record = harness.messages(topic, 701)[700]
    assert letters[0].timestamp() == bad_record.timestamp()


def test_reported_records_become_dead_letters_with_their_original_bytes(
    harness: TaskHarness,
) -> None:
    """Read a backlog and a tail with a transform that changes the topic (KIP-610)."""
    topic, dead_letter_topic = harness.topic(), f"dead-{uuid.uuid4().hex[:8]}"
    harness.produce(topic, [f"refuse {n}" if n in (7, 700) else f"a{n}" for n in range(1500)])
    route = {
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "elsewhere",
    }
    config = {
        **TOLERANT_CONFIG,
        **route,
        "topics": topic,
        "errors.deadletterqueue.topic.name": dead_letter_topic,
    }
    task, observer = open_run(harness, "ListSink", config)
    committed_count = 0
    while committed_count < 1500:
        committed_count += commit_batch(observer)
    harness.produce(topic, ["tail", "refuse tail", "bad tail"])
    while committed_count < 1503:
        committed_count += commit_batch(observer)
    stop_run(observer)
    values = [str(value).strip('"') for *_, value in plugins.WRITTEN[task]]
    assert values == [*(f"a{n}" for n in range(1500) if n not in (7, 700)), "tail"]
    assert {topic for topic, *_ in plugins.WRITTEN[task]} == {"elsewhere"}
    letters = harness.messages(dead_letter_topic, 4)
    headers_by_value = {letter.value(): dict(letter.headers()) for letter in letters}
    assert len(letters) == len(headers_by_value) == 4
    assert headers_by_value.pop(b"bad tail")["__connect.errors.stage"] == b"VALUE_CONVERTER"
    for value, offset in ((b"refuse 7", b"7"), (b"refuse 700", b"700"), (b"refuse tail", b"1501")):
        assert headers_by_value[value]["__connect.errors.topic"] == topic.encode()
        assert headers_by_value[value]["__connect.errors.offset"] == offset
        assert headers_by_value[value]["__connect.errors.stage"] == b"TASK_PUT"
        assert (
            headers_by_value[value]["__connect.errors.class.name"]
            == b"org.apache.kafka.connect.sink.SinkTask"
        )
        assert headers_by_value[value]["__connect.errors.exception.message"] == b"rejected"


def test_reported_record_fails_a_sink_without_tolerance(harness: TaskHarness) -> None:
    topic = harness.topic()
    harness.produce(topic, ["a", "refuse", "b"])
    _, observer = open_run(harness, "ListSink", {"topics": topic})
    observer.run.next()
    failure = observer.expect(Failed)
    lines = failure.trace.splitlines()
    assert lines[0] == f"builtins.ValueError: record {topic}-0@1 failed at TASK_PUT: rejected"
    assert "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler" in lines
    assert f"\tat stage TASK_PUT of org.apache.kafka.connect.sink.SinkTask, record {topic}-0@1" in lines
    assert failure.errors.errors == 1


def commit_batch(observer: RunObserver) -> int:
    """Commit one batch, and return the number of records that were read."""
    observer.run.next()
    batch_done = observer.expect(BatchDone)
    observer.run.commit(batch_done.offsets)
    observer.expect(Committed)
    return batch_done.read or 0


def test_dead_letter_topic_creation_failure_has_the_message_of_connect(harness: TaskHarness) -> None:
    topic = harness.topic()
    config = {
        **TOLERANT_CONFIG,
        "topics": topic,
        "errors.deadletterqueue.topic.name": "dead-of-many",
        "errors.deadletterqueue.topic.replication.factor": "7",
    }
    _, observer = open_run(harness, "ListSink", config)
    observer.run.next()
    trace = observer.expect(Failed).trace
    assert "Could not initialize dead letter queue with topic=dead-of-many" in trace.splitlines()[0]

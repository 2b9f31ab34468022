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
from tests.fakes.spark.stage import Opening, Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION = SourcePartition.of({"list": "a"})
TOLERANT = {
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


def open_run(stage: Stage, connector: str, config: Mapping[str, str]) -> tuple[str, Opening]:
    name = f"records-{uuid.uuid4().hex[:8]}"
    opening = stage.open(name, connector, config)
    opening.expect(Opened)
    return name, opening


def stop_run(opening: Opening) -> None:
    opening.run.stop()
    assert opening.expect(Stopped).clean


def test_source_pass_has_the_same_result_in_the_worker_and_in_spark(stage: Stage) -> None:
    """A small batch and a batch that Spark reads have equal topics, counts, offsets and dead letters."""
    topic, routed, dead = stage.topic(), stage.topic(), f"dead-{uuid.uuid4().hex[:8]}"
    values = ["a", "drop", f"route {routed}", "bad luck", "b"]

    def read(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(pa.table({"value": values})).coalesce(1)

    task, opening = open_run(stage, "ListSource", {**TOLERANT, "errors.deadletterqueue.topic.name": dead})
    for source_batch in (make_batch(topic, values), make_batch(topic, read=read)):
        plugins.BATCHES[task].append(source_batch)
        opening.run.next()
        batch_done = opening.expect(BatchDone)
        assert (batch_done.records, batch_done.read) == (3, 5)
        assert set(batch_done.topics) == {topic, routed}
        assert batch_done.offsets == {PARTITION: {"position": 1}}
        assert (batch_done.errors.skipped, batch_done.errors.dead_letters) == (1, 1)
    plugins.BATCHES[task].append(make_batch(topic, ["drop", "drop"]))
    opening.run.next()
    batch_done = opening.expect(BatchDone)
    assert (batch_done.records, batch_done.read, batch_done.topics) == (0, 2, frozenset())
    assert batch_done.offsets, "dropped records are committed"
    stop_run(opening)
    assert stage.values(topic, 4) == ["A", "B"] * 2
    assert stage.values(routed, 2) == [f"route {routed}"] * 2
    letters = stage.messages(dead, 2)
    assert [letter.value() for letter in letters] == [b"bad luck"] * 2
    for letter in letters:
        headers = dict(letter.headers())
        assert headers["__connect.errors.topic"] == topic.encode()
        assert headers["__connect.errors.exception.message"] == b"bad luck"
        assert headers["__connect.errors.stage"] == b"TRANSFORMATION"


def test_bad_record_in_spark_fails_a_source_with_the_message_of_connect(stage: Stage) -> None:
    topic = stage.topic()

    def read(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(pa.table({"value": ["a", "bad luck", "b"]})).coalesce(1)

    task, opening = open_run(stage, "ListSource", {"transforms": "moody"})
    plugins.BATCHES[task].append(make_batch(topic, read=read))
    opening.run.next()
    failed = opening.expect(Failed)
    lines = failed.trace.splitlines()
    assert lines[0] == "org.apache.kafka.connect.errors.DataException: bad luck"
    assert "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler" in lines
    assert failed.errors.errors == 1
    assert stage.values(topic, 1) == ["A"], "earlier records were sent, as in Java"


def test_bad_records_of_backlog_and_tail_become_complete_dead_letters(stage: Stage) -> None:
    topic, dead = stage.topic(), f"dead-{uuid.uuid4().hex[:8]}"
    stage.produce(topic, [f"bad {n}" if n == 700 else f"a{n}" for n in range(1500)])
    config = {**TOLERANT, "topics": topic, "errors.deadletterqueue.topic.name": dead}
    task, opening = open_run(stage, "ListSink", config)
    committed_count = 0
    while committed_count < 1500:
        committed_count += commit_batch(opening)
    stage.produce(topic, ["tail", "bad tail", "drop me"])
    while committed_count < 1503:
        committed_count += commit_batch(opening)
    stop_run(opening)
    values = [str(value).strip('"') for *_, value in plugins.WRITTEN[task]]
    assert values == [*(f"A{n}" for n in range(1500) if n != 700), "TAIL"]
    letters = stage.messages(dead, 2)
    assert [letter.value() for letter in letters] == [b"bad 700", b"bad tail"]
    assert [dict(letter.headers())["__connect.errors.offset"] for letter in letters] == [b"700", b"1501"]
    bad_record = stage.messages(topic, 701)[700]
    assert letters[0].timestamp() == bad_record.timestamp()


def test_reported_records_become_dead_letters_with_their_original_bytes(
    stage: Stage,
) -> None:
    """Applies to a backlog and a tail, with a transform that changes the topic. Source: KIP-610."""
    topic, dead = stage.topic(), f"dead-{uuid.uuid4().hex[:8]}"
    stage.produce(topic, [f"refuse {n}" if n in (7, 700) else f"a{n}" for n in range(1500)])
    route = {
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "elsewhere",
    }
    config = {**TOLERANT, **route, "topics": topic, "errors.deadletterqueue.topic.name": dead}
    task, opening = open_run(stage, "ListSink", config)
    committed_count = 0
    while committed_count < 1500:
        committed_count += commit_batch(opening)
    stage.produce(topic, ["tail", "refuse tail", "bad tail"])
    while committed_count < 1503:
        committed_count += commit_batch(opening)
    stop_run(opening)
    values = [str(value).strip('"') for *_, value in plugins.WRITTEN[task]]
    assert values == [*(f"a{n}" for n in range(1500) if n not in (7, 700)), "tail"]
    assert {topic for topic, *_ in plugins.WRITTEN[task]} == {"elsewhere"}
    letters = stage.messages(dead, 4)
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


def test_reported_record_fails_a_sink_without_tolerance(stage: Stage) -> None:
    topic = stage.topic()
    stage.produce(topic, ["a", "refuse", "b"])
    _, opening = open_run(stage, "ListSink", {"topics": topic})
    opening.run.next()
    failed = opening.expect(Failed)
    lines = failed.trace.splitlines()
    assert lines[0] == f"builtins.ValueError: record {topic}-0@1 failed at TASK_PUT: rejected"
    assert "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler" in lines
    assert f"\tat stage TASK_PUT of org.apache.kafka.connect.sink.SinkTask, record {topic}-0@1" in lines
    assert failed.errors.errors == 1


def commit_batch(opening: Opening) -> int:
    """Commit one batch; return its number of records."""
    opening.run.next()
    batch_done = opening.expect(BatchDone)
    opening.run.commit(batch_done.offsets)
    opening.expect(Committed)
    return batch_done.read or 0


def test_dead_letter_topic_creation_failure_has_the_message_of_connect(stage: Stage) -> None:
    topic = stage.topic()
    config = {
        **TOLERANT,
        "topics": topic,
        "errors.deadletterqueue.topic.name": "dead-of-many",
        "errors.deadletterqueue.topic.replication.factor": "7",
    }
    _, opening = open_run(stage, "ListSink", config)
    opening.run.next()
    trace = opening.expect(Failed).trace
    assert "Could not initialize dead letter queue with topic=dead-of-many" in trace.splitlines()[0]

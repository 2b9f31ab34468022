"""Records handled one by one, on real Spark and a real broker.

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

PLACE = SourcePartition.of({"list": "a"})
TOLERANT = {
    "transforms": "moody",
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}


def batch(topic: str, values: list[str] | None = None, read: Any = None) -> SourceBatch:
    table = None if values is None else pa.table({"value": values})
    return SourceBatch(
        offsets={PLACE: {"position": 1}}, table=table, read=read, topic=topic, value_schema=STRING
    )


def opened(stage: Stage, connector: str, config: Mapping[str, str]) -> tuple[str, Opening]:
    name = f"records-{uuid.uuid4().hex[:8]}"
    opening = stage.open(name, connector, config)
    opening.expect(Opened)
    return name, opening


def end(opening: Opening) -> None:
    opening.run.stop()
    assert opening.expect(Stopped).clean


def test_a_source_routes_drops_and_buries_in_the_worker_and_in_spark(stage: Stage) -> None:
    """The same for a small batch and for one that Spark reads: topics, counts, offsets, dead letters."""
    topic, routed, dead = stage.topic(), stage.topic(), f"dead-{uuid.uuid4().hex[:8]}"
    values = ["a", "drop", f"route {routed}", "bad luck", "b"]

    def read(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(pa.table({"value": values})).coalesce(1)

    task, opening = opened(stage, "ListSource", {**TOLERANT, "errors.deadletterqueue.topic.name": dead})
    for given in (batch(topic, values), batch(topic, read=read)):
        plugins.BATCHES[task].append(given)
        opening.run.next()
        done = opening.expect(BatchDone)
        assert (done.records, done.read) == (3, 5)
        assert set(done.topics) == {topic, routed}
        assert done.offsets == {PLACE: {"position": 1}}
        assert (done.errors.skipped, done.errors.dead_letters) == (1, 1)
    plugins.BATCHES[task].append(batch(topic, ["drop", "drop"]))
    opening.run.next()
    done = opening.expect(BatchDone)
    assert (done.records, done.read, done.topics) == (0, 2, frozenset())
    assert done.offsets, "what was dropped is done with"
    end(opening)
    assert stage.values(topic, 4) == ["A", "B"] * 2
    assert stage.values(routed, 2) == [f"route {routed}"] * 2
    letters = stage.messages(dead, 2)
    assert [letter.value() for letter in letters] == [b"bad luck"] * 2
    for letter in letters:
        told = dict(letter.headers())
        assert told["__connect.errors.topic"] == topic.encode()
        assert told["__connect.errors.exception.message"] == b"bad luck"
        assert told["__connect.errors.stage"] == b"TRANSFORMATION"


def test_a_bad_record_fails_a_source_in_spark_with_connects_words(stage: Stage) -> None:
    topic = stage.topic()

    def read(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(pa.table({"value": ["a", "bad luck", "b"]})).coalesce(1)

    task, opening = opened(stage, "ListSource", {"transforms": "moody"})
    plugins.BATCHES[task].append(batch(topic, read=read))
    opening.run.next()
    failed = opening.expect(Failed)
    lines = failed.trace.splitlines()
    assert lines[0] == "org.apache.kafka.connect.errors.DataException: bad luck"
    assert "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler" in lines
    assert failed.errors.errors == 1
    assert stage.values(topic, 1) == ["A"], "what came before it was sent, as in Java"


def test_a_sink_gets_a_backlog_and_a_tail_without_the_bad_ones_which_are_buried_whole(stage: Stage) -> None:
    topic, dead = stage.topic(), f"dead-{uuid.uuid4().hex[:8]}"
    stage.produce(topic, [f"bad {n}" if n == 700 else f"a{n}" for n in range(1500)])
    config = {**TOLERANT, "topics": topic, "errors.deadletterqueue.topic.name": dead}
    task, opening = opened(stage, "ListSink", config)
    done = 0
    while done < 1500:
        done += take(opening)
    stage.produce(topic, ["tail", "bad tail", "drop me"])
    while done < 1503:
        done += take(opening)
    end(opening)
    values = [str(value).strip('"') for *_, value in plugins.WRITTEN[task]]
    assert values == [*(f"A{n}" for n in range(1500) if n != 700), "TAIL"]
    letters = stage.messages(dead, 2)
    assert [letter.value() for letter in letters] == [b"bad 700", b"bad tail"]
    assert [dict(letter.headers())["__connect.errors.offset"] for letter in letters] == [b"700", b"1501"]
    first = stage.messages(topic, 701)[700]
    assert letters[0].timestamp() == first.timestamp()


def test_reported_records_become_dead_letters_with_their_original_bytes_and_the_others_are_written(
    stage: Stage,
) -> None:
    """A backlog and a tail, a transform that changes the topic. Source: KIP-610."""
    topic, dead = stage.topic(), f"dead-{uuid.uuid4().hex[:8]}"
    stage.produce(topic, [f"refuse {n}" if n in (7, 700) else f"a{n}" for n in range(1500)])
    route = {
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "elsewhere",
    }
    config = {**TOLERANT, **route, "topics": topic, "errors.deadletterqueue.topic.name": dead}
    task, opening = opened(stage, "ListSink", config)
    done = 0
    while done < 1500:
        done += take(opening)
    stage.produce(topic, ["tail", "refuse tail", "bad tail"])
    while done < 1503:
        done += take(opening)
    end(opening)
    values = [str(value).strip('"') for *_, value in plugins.WRITTEN[task]]
    assert values == [*(f"a{n}" for n in range(1500) if n not in (7, 700)), "tail"]
    assert {topic for topic, *_ in plugins.WRITTEN[task]} == {"elsewhere"}
    letters = stage.messages(dead, 4)
    told = {letter.value(): dict(letter.headers()) for letter in letters}
    assert len(letters) == len(told) == 4
    assert told.pop(b"bad tail")["__connect.errors.stage"] == b"VALUE_CONVERTER"
    for value, offset in ((b"refuse 7", b"7"), (b"refuse 700", b"700"), (b"refuse tail", b"1501")):
        assert told[value]["__connect.errors.topic"] == topic.encode()
        assert told[value]["__connect.errors.offset"] == offset
        assert told[value]["__connect.errors.stage"] == b"TASK_PUT"
        assert told[value]["__connect.errors.class.name"] == b"org.apache.kafka.connect.sink.SinkTask"
        assert told[value]["__connect.errors.exception.message"] == b"nobody wants it"


def test_a_reported_record_fails_a_sink_without_tolerance_also_by_columns(stage: Stage) -> None:
    topic = stage.topic()
    stage.produce(topic, ["a", "refuse", "b"])
    _, opening = opened(stage, "ListSink", {"topics": topic})
    opening.run.next()
    failed = opening.expect(Failed)
    lines = failed.trace.splitlines()
    assert lines[0] == f"builtins.ValueError: record {topic}-0@1 failed at TASK_PUT: nobody wants it"
    assert "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler" in lines
    assert f"\tat stage TASK_PUT of org.apache.kafka.connect.sink.SinkTask, record {topic}-0@1" in lines
    assert failed.errors.errors == 1


def take(opening: Opening) -> int:
    """Have one batch written and committed; return how many records it had."""
    opening.run.next()
    found = opening.expect(BatchDone)
    opening.run.commit(found.offsets)
    opening.expect(Committed)
    return found.read or 0


def test_a_dead_letter_topic_that_cannot_be_made_fails_the_task_with_connects_words(stage: Stage) -> None:
    topic = stage.topic()
    config = {
        **TOLERANT,
        "topics": topic,
        "errors.deadletterqueue.topic.name": "dead-of-many",
        "errors.deadletterqueue.topic.replication.factor": "7",
    }
    _, opening = opened(stage, "ListSink", config)
    opening.run.next()
    trace = opening.expect(Failed).trace
    assert "Could not initialize dead letter queue with topic=dead-of-many" in trace.splitlines()[0]

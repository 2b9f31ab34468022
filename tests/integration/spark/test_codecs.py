"""Tests for topics with each of Kafka's compression codecs, read as a backlog by Spark and as a tail by librdkafka."""

from __future__ import annotations

import uuid

import confluent_kafka as ck
import pyarrow as pa
import pytest

from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Committed, Opened, Stopped
from kraal.plugins.api import SourceBatch
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import RunObserver, TaskHarness

pytestmark = pytest.mark.ci

CODECS = ("gzip", "snappy", "lz4", "zstd")
BACKLOG_SIZE = 600


def produce(harness: TaskHarness, topic: str, codec: str, values: list[str]) -> None:
    producer = ck.Producer({"bootstrap.servers": harness.address, "linger.ms": 50, "compression.type": codec})
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    assert producer.flush(30) == 0


def commit_batches(sink: RunObserver, count: int) -> None:
    record_count = 0
    while record_count < count:
        sink.run.next()
        batch = sink.expect(BatchDone)
        sink.run.commit(batch.offsets)
        sink.expect(Committed)
        record_count += batch.records


@pytest.mark.one_a_day("codec")
@pytest.mark.parametrize("codec", CODECS)
def test_sink_reads_compressed_records(harness: TaskHarness, codec: str) -> None:
    task, topic = f"codec-{uuid.uuid4().hex[:8]}", harness.topic()
    values = [f"{codec} {number} {'x' * 50}" for number in range(BACKLOG_SIZE)]
    produce(harness, topic, codec, values)
    sink = harness.open(task, "ListSink", {"topics": topic})
    sink.expect(Opened)
    commit_batches(sink, BACKLOG_SIZE)
    tail = [f"{codec} tail {number}" for number in range(20)]
    produce(harness, topic, codec, tail)
    commit_batches(sink, len(tail))
    sink.run.stop()
    sink.expect(Stopped)
    assert [value for *_, value in plugins.WRITTEN[task]] == [*values, *tail]


@pytest.mark.one_a_day("codec")
@pytest.mark.parametrize("codec", CODECS)
def test_records_of_a_source_arrive_with_each_codec(harness: TaskHarness, codec: str) -> None:
    task, topic = f"codec-{uuid.uuid4().hex[:8]}", harness.topic()
    values = [f"{codec} {number}" for number in range(100)]
    batch = SourceBatch(
        offsets={SourcePartition.of({"a": "b"}): {"n": 1}}, table=pa.table({"value": values}), topic=topic
    )
    plugins.BATCHES[task].append(batch)
    source = harness.open(task, config={"producer.override.compression.type": codec})
    source.expect(Opened)
    source.run.next()
    assert source.expect(BatchDone).records == len(values)
    source.run.stop()
    source.expect(Stopped)
    assert harness.values(topic, len(values)) == values

"""Tests that the producer interceptor keeps the same offset pairs as Kafka's OffsetSyncWriter.PartitionState."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

from kraal.engine.kafka_io.offset_pairs import PairTracker
from kraal.engine.session.janino import new_instance
from kraal.plugins.api import OffsetPair, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.ci

PARTITION = TopicPartition("west.t", 3)
Pairs = list[tuple[int, int]]


class InterceptedProducer:
    """The interceptor of a producer, whose records the test acknowledges."""

    def __init__(self, spark: SparkSession, run: str, step: int) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        self._interceptor = new_instance(context, "kraal.OffsetPairs")
        self._interceptor.configure(self._jvm.java.util.HashMap({"kraal.run": run, "kraal.step": str(step)}))

    def send(self, *offsets: int, time: int = 5) -> None:
        for offset in offsets:
            headers = self._jvm.org.apache.kafka.common.header.internals.RecordHeaders()
            headers.add("mine", b"1")
            headers.add("kraal.timestamp", f"{time} {offset}".encode())
            record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord(
                PARTITION.topic, PARTITION.partition, None, None, None, headers
            )
            result = self._interceptor.onSend(record)
            assert [header.key() for header in result.headers().toArray()] == ["mine"]
            assert result.timestamp() == (None if time < 0 else time)

    def acknowledge(self, *offsets: int) -> None:
        partition = self._jvm.org.apache.kafka.common.TopicPartition(PARTITION.topic, PARTITION.partition)
        for offset in offsets:
            error = self._jvm.java.lang.RuntimeException("not sent") if offset < 0 else None
            metadata = self._jvm.org.apache.kafka.clients.producer.RecordMetadata(
                partition, offset, 0, -1, 0, 0
            )
            self._interceptor.onAcknowledgement(metadata, error)

    def write(self, pairs: Iterable[tuple[int, int]]) -> None:
        for source, target in pairs:
            self.send(source)
            self.acknowledge(target)


@pytest.mark.parametrize(
    ("step", "acknowledged_pairs", "expected"),
    [
        pytest.param(100, [(0, 7), (1, 8), (2, 9)], [(0, 7), (2, 9)], id="the first and the last one"),
        pytest.param(2, [(n, n) for n in range(8)], [(0, 0), (3, 3), (6, 6), (7, 7)], id="each step"),
        pytest.param(0, [(n, n) for n in range(3)], [(0, 0), (1, 1), (2, 2)], id="no step: all"),
        pytest.param(9, [(0, 0), (5, 1), (6, 2), (7, 3)], [(0, 0), (5, 1), (7, 3)], id="a gap in the source"),
        pytest.param(9, [(0, 0), (1, 50), (2, 51)], [(0, 0), (1, 50), (2, 51)], id="a gap in the target"),
        pytest.param(
            9, [(4, 4), (3, 5), (4, 6), (5, 7)], [(4, 4), (3, 5), (5, 7)], id="a lower source offset"
        ),
        pytest.param(9, [(4, 4), (5, 0), (6, 1)], [(4, 4), (5, 0), (6, 1)], id="a recreated target"),
    ],
)
def test_pairs_for_which_kafka_writes_an_offset_sync_are_kept(
    spark: SparkSession, step: int, acknowledged_pairs: Pairs, expected: Pairs
) -> None:
    run = uuid.uuid4().hex
    tracker = PairTracker(spark, run, step)
    InterceptedProducer(spark, run, step).write(acknowledged_pairs)
    assert tracker.drain() == {PARTITION: expected}
    assert tracker.drain() == {}, "each pair must be reported once"


def test_next_batch_continues_the_pairs_of_the_last_one(spark: SparkSession) -> None:
    run = uuid.uuid4().hex
    tracker, producer = PairTracker(spark, run, 3), InterceptedProducer(spark, run, 3)
    producer.write([(0, 0), (1, 1)])
    assert tracker.drain() == {PARTITION: [OffsetPair(0, 0), OffsetPair(1, 1)]}
    producer.write([(2, 2)])
    assert tracker.drain() == {PARTITION: [OffsetPair(2, 2)]}, (
        "the last pair must be reported, although it is not due"
    )
    producer.write([(3, 3), (4, 4), (5, 5)])
    assert tracker.drain() == {PARTITION: [OffsetPair(4, 4), OffsetPair(5, 5)]}


def test_records_in_flight_and_failed_records_have_no_pairs(spark: SparkSession) -> None:
    run = uuid.uuid4().hex
    tracker, producer = PairTracker(spark, run, 100), InterceptedProducer(spark, run, 100)
    producer.send(*range(3000))  # more than the initial capacity of the ring
    assert tracker.drain() == {}
    producer.acknowledge(70)
    producer.send(3000)
    producer.acknowledge(-1)  # the last record, which could not be sent
    producer.acknowledge(71)
    assert tracker.drain() == {PARTITION: [OffsetPair(0, 70), OffsetPair(1, 71)]}
    producer.acknowledge(*range(72, 3070))
    assert tracker.drain()[PARTITION][-1] == OffsetPair(2999, 3069)


def test_record_without_timestamp_has_a_pair(spark: SparkSession) -> None:
    run = uuid.uuid4().hex
    producer = InterceptedProducer(spark, run, 1)
    producer.send(12_345_678_901, time=-1)
    producer.acknowledge(9_876_543_210)
    assert PairTracker(spark, run, 1).drain() == {PARTITION: [OffsetPair(12_345_678_901, 9_876_543_210)]}


def test_each_producer_of_a_run_has_its_own_order(spark: SparkSession) -> None:
    run = uuid.uuid4().hex
    tracker = PairTracker(spark, run, 100)
    first, second = InterceptedProducer(spark, run, 100), InterceptedProducer(spark, run, 100)
    first.send(5, 6)  # its JVM thread ends before the record is acknowledged
    second.write([(5, 9)])
    assert tracker.drain() == {PARTITION: [OffsetPair(5, 9)]}


def test_many_pairs_are_thinned_out_except_the_last_one(spark: SparkSession) -> None:
    run = uuid.uuid4().hex
    tracker = PairTracker(spark, run, 0)
    InterceptedProducer(spark, run, 0).write((n, n) for n in range(300))
    pairs = tracker.drain()[PARTITION]
    assert len(pairs) <= 64
    assert (pairs[0], pairs[-1]) == (OffsetPair(0, 0), OffsetPair(299, 299))
    assert all(source == target for source, target in pairs)
    assert pairs == sorted(pairs)

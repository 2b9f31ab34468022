"""Tests that transactional sources write each batch in one transaction with its offsets, on each write path."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kraal.broker.broker import Broker
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Failed, Held, Opened, Stopped, TaskSpec
from kraal.kafka.offset_store import KafkaOffsets
from kraal.kafka.source_transactions import SourceTransactions
from kraal.kafka.topics import TopicAdmin
from kraal.plugins.api import OffsetPair, OffsetTracking, SourceBatch, TopicPartition
from tests.fakes.kafka.internal_topics import fresh_topic, internal_topic, options, topic_admin
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import RunObserver, TaskHarness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION = SourcePartition.of({"list": "a"})


@dataclass
class RunOpener:
    """An opener of runs with exactly-once delivery."""

    harness: TaskHarness
    transactions: SourceTransactions
    admin: TopicAdmin
    tracks_offsets: bool = False
    """Whether producers report the offsets of records."""

    def open(self, name: str, **config: str) -> RunObserver:
        observer = RunObserver()
        task = TaskId(ConnectorName(name), 0)
        spec = TaskSpec(
            task=task,
            task_config={},
            connector_config={"name": name, "connector.class": "ListSource", **config},
            transactions=self.transactions.claim(task, {}, tracks=self.tracks_offsets),
        )
        offsets = self.transactions.load(task.connector, {})
        observer.run = self.harness.engine.open(spec, offsets, observer.events.put)
        observer.expect(Opened)
        return observer

    def load_offset(self, name: str) -> Any:
        return self.transactions.load(ConnectorName(name), {}).get(PARTITION)


@pytest.fixture
def run_opener(harness: TaskHarness, kafka: Broker) -> Iterator[RunOpener]:
    with topic_admin(kafka.bootstrap) as admin:
        topic = fresh_topic(admin, "offsets")
        worker_offsets = KafkaOffsets(
            topic, options(kafka.bootstrap), client_id="o", admin=admin, read_committed=True
        )
        transactions = SourceTransactions(
            {"bootstrap.servers": kafka.bootstrap},
            group_id=f"group-{topic}",
            topic=replace(internal_topic(topic), single=False),
            worker_offsets=worker_offsets,
            client_id_base="test-",
        )
        yield RunOpener(harness, transactions, admin)
        transactions.close()
        worker_offsets.close()


def new_name() -> str:
    return f"once-{uuid.uuid4().hex[:8]}"


def make_batch(topic: str, start: int, count: int) -> SourceBatch:
    values = [f"v{number}" for number in range(start, start + count)]
    return SourceBatch(
        offsets={PARTITION: {"position": start + count}}, table=pa.table({"value": values}), topic=topic
    )


def stop_run(observer: RunObserver) -> None:
    observer.run.stop()
    assert observer.expect(Stopped).clean


def test_small_batches_and_their_offsets_are_committed_in_order(run_opener: RunOpener) -> None:
    name, topic = new_name(), run_opener.harness.topic()
    observer = run_opener.open(name)
    for start in (0, 20, 40):
        plugins.BATCHES[name].append(make_batch(topic, start, 20))
        observer.run.next()
        batch_done = observer.expect(BatchDone)
        assert (batch_done.offsets, batch_done.records, batch_done.transaction, set(batch_done.topics)) == (
            {},
            20,
            20,
            {topic},
        )
        assert run_opener.load_offset(name) == {"position": start + 20}
    assert run_opener.harness.values(topic, 60) == [f"v{number}" for number in range(60)]
    stop_run(observer)


def test_range_that_spark_reads_is_one_transaction(run_opener: RunOpener) -> None:
    def read(spark: SparkSession) -> DataFrame:
        return spark.range(0, 50_000, 1, 1).selectExpr(
            "cast(id as string) as value",
            "cast(id % 7 as string) as key",
            "timestamp_millis(id + 1000000000000) as timestamp",
            "array(struct('h' as key, cast('x' as binary) as value)) as headers",
        )

    name, topic = new_name(), run_opener.harness.topic()
    observer = run_opener.open(name)
    plugins.BATCHES[name].append(plugins.read_batch(read, 50_000, topic))
    observer.run.next()
    batch_done = observer.expect(BatchDone)
    assert (batch_done.records, batch_done.transaction) == (50_000, 50_000)
    messages = run_opener.harness.messages(topic, 50_000)
    assert [int(message.value()) for message in messages] == list(range(50_000))
    assert (messages[8].key(), messages[8].headers()) == (b"1", [("h", b"x")])
    assert messages[8].timestamp()[1] == 1_000_000_000_008
    stop_run(observer)


def test_offsets_are_reported_to_the_plugin_after_the_commit(
    run_opener: RunOpener,
) -> None:
    def read(spark: SparkSession) -> DataFrame:
        return spark.range(0, 50_000, 1, 2).selectExpr(
            "cast(id as string) as value", "cast(id div 25000 as int) as partition", "id + 7 as offset"
        )

    name, topic = new_name(), run_opener.harness.topic(partitions=2)
    run_opener.harness.produce(topic, ["earlier"] * 3, partition=1)
    run_opener.tracks_offsets = True
    observer = run_opener.open(name)
    reported_offsets: list[Any] = []
    tracking = OffsetTracking(found=reported_offsets.append, unknown=pytest.fail, step=1)
    for _ in range(2):
        plugins.BATCHES[name].append(replace(plugins.read_batch(read, 50_000, topic), tracking=tracking))
        observer.run.next()
        assert observer.expect(BatchDone).transaction == 50_000
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert reported_offsets == [
        {first: [OffsetPair(25_006, 24_999)], second: [OffsetPair(50_006, 25_002)]},
        {
            first: [OffsetPair(25_006, 50_000)],
            second: [OffsetPair(50_006, 50_003)],
        },  # the commit occupies an offset
    ]
    messages = run_opener.harness.messages(topic, 50_000)
    assert {m.offset(): m.value() for m in messages}[50_000] == b"24999"
    stop_run(observer)


def test_interval_transaction_is_committed_before_pause_and_stop(run_opener: RunOpener) -> None:
    name, topic = new_name(), run_opener.harness.topic()
    config = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "3600000"}
    observer = run_opener.open(name, **config)
    for start in (0, 5):
        plugins.BATCHES[name].append(make_batch(topic, start, 5))
        observer.run.next()
        assert observer.expect(BatchDone).transaction is None
    assert run_opener.harness.values(topic, 1, 2.0) == []
    observer.run.hold()
    assert observer.expect(BatchDone).transaction == 10
    observer.expect(Held)
    assert run_opener.load_offset(name) == {"position": 10}
    plugins.BATCHES[name].append(make_batch(topic, 10, 5))
    observer.run.next()
    observer.expect(BatchDone)
    observer.run.stop()
    assert observer.expect(BatchDone).transaction == 5
    assert observer.expect(Stopped).clean
    assert run_opener.load_offset(name) == {"position": 15}
    assert run_opener.harness.values(topic, 15) == [f"v{number}" for number in range(15)]


def test_fenced_run_fails_with_the_message_of_connect(run_opener: RunOpener) -> None:
    name, topic = new_name(), run_opener.harness.topic()
    older_observer = run_opener.open(name)
    newer_producer = run_opener.transactions.claim(TaskId(ConnectorName(name), 0), {})
    plugins.BATCHES[name].append(make_batch(topic, 0, 5))
    older_observer.run.next()
    trace = older_observer.expect(Failed).trace
    assert "There is a newer producer with the same transactionalId which fences the current one." in trace
    assert run_opener.harness.values(topic, 1, 2.0) == []
    assert run_opener.load_offset(name) is None
    newer_producer.close()

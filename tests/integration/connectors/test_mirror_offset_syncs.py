"""Tests for a mirror's offset syncs on real Spark, with one broker as both clusters."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Sequence

import confluent_kafka as ck
import pytest

from kraal.broker.records import read_topic
from kraal.connectors.mirror.clusters import Clusters
from kraal.connectors.mirror.config import MIRROR
from kraal.connectors.mirror.offset_syncs import serialize_key
from kraal.connectors.mirror.source import MirrorSourceConnector, MirrorSourceTask
from kraal.connectors.mirror.topics import source_partition
from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import BatchDone, Opened, Stopped, TaskSpec
from kraal.plugins.api import TopicPartition
from tests.fakes.spark.stage import RunObserver, TaskHarness
from tests.integration.connectors.test_mirror import Mirror, drain_until, make_config
from tests.integration.connectors.test_mirror_real_time import SHORT_BATCHES, poll_until
from tests.integration.spark.test_once import RunOpener, run_opener

__all__ = ["run_opener"]

pytestmark = pytest.mark.ci

SYNCS_TOPIC = "mm2-offset-syncs.east.internal"
MAX_LAG = 20
Pair = tuple[int, int]


def create_topics(harness: TaskHarness) -> str:
    """Create a topic, a target topic that already has records, and the offset-syncs topic. Return the first topic."""
    topic = harness.topic()
    harness.create(f"west.{topic}")
    harness.produce(f"west.{topic}", ["not a copy"] * 7)
    config = make_config(harness.address, {"topics": topic})
    config["offset-syncs.topic.replication.factor"] = "1"
    Clusters(config, MIRROR.parse(config)).refresh()
    return topic


def produce_in_transactions(harness: TaskHarness, topic: str, counts: Sequence[int]) -> None:
    """Write records with unique values; each transaction is followed by an offset gap."""
    producer = ck.Producer({"bootstrap.servers": harness.address, "transactional.id": topic})
    producer.init_transactions(20)
    for count in counts:
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(topic, uuid.uuid4().bytes, partition=0)
        producer.commit_transaction(20)


def offsets(harness: TaskHarness, topic: str, count: int) -> dict[bytes, int]:
    """Return the offset of each value in a topic, or the last offset of a value that occurs several times."""
    messages = harness.messages(topic, count)
    assert len(messages) >= count
    return {message.value(): message.offset() for message in messages}


def list_pairs(harness: TaskHarness, topic: str, count: int) -> list[Pair]:
    """Return the offset pairs of the copied records of a topic."""
    source = offsets(harness, topic, count)
    target = offsets(harness, f"west.{topic}", count + 7)
    return sorted((offset, target[value]) for value, offset in source.items())


def read_syncs(harness: TaskHarness, topic: str) -> list[Pair]:
    """Return the syncs of a topic."""
    key = serialize_key(TopicPartition(topic, 0))
    syncs = read_topic(harness.address, SYNCS_TOPIC, timeout_s=30)
    return [struct.unpack(">qq", sync.value or b"") for sync in syncs if sync.key == key]


def expect_syncs(pairs: Sequence[Pair], lag: int) -> list[Pair]:
    """Return the syncs that Kafka writes for records with these offset pairs. The last record is always synced."""
    syncs: list[Pair] = []
    previous: Pair = (-1, -1)
    for pair in pairs:
        is_late = not syncs or pair[1] - (syncs[-1][1] + 1) >= lag
        if is_late or pair[0] - previous[0] != 1 or pair[1] < previous[1]:
            syncs.append(pair)
        previous = pair
    return syncs if syncs[-1] == pairs[-1] else [*syncs, pairs[-1]]


def test_each_batch_writes_offset_syncs_and_task_resumes_after_restart(harness: TaskHarness) -> None:
    topic = create_topics(harness)
    produce_in_transactions(harness, topic, (150, 1, 200))
    mirror = Mirror(harness, f"{topic}-0", {"offset.lag.max": str(MAX_LAG)})
    mirror.run(351)
    first_syncs = expect_syncs(list_pairs(harness, topic, 351), MAX_LAG)
    assert read_syncs(harness, topic) == first_syncs
    produce_in_transactions(harness, topic, (50,))
    mirror.run(50)
    second_syncs = expect_syncs(list_pairs(harness, topic, 401)[351:], MAX_LAG)
    assert read_syncs(harness, topic) == first_syncs + second_syncs


def test_repeated_batch_is_synced_again_and_long_batch_has_few_syncs(harness: TaskHarness) -> None:
    topic = create_topics(harness)
    produce_in_transactions(harness, topic, (5000,))
    for _ in range(2):
        Mirror(harness, f"{topic}-0", {"offset.lag.max": "0"}).run(5000)
    syncs = read_syncs(harness, topic)
    target = {m.offset(): m.value() for m in harness.messages(f"west.{topic}", 10_007)}
    source = {m.offset(): m.value() for m in harness.messages(topic, 5000)}
    assert all(source[upstream] == target[downstream] for upstream, downstream in syncs)
    assert (0, 7) in syncs
    assert (0, 5007) in syncs
    assert [pair for pair in syncs if pair[0] == 4999] == [(4999, 5006), (4999, 10_006)]
    assert len(syncs) <= 2 * 65


def test_offset_syncs_are_disabled_by_config_transforms_or_reordering_producers(
    harness: TaskHarness, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create_topics(harness)
    harness.produce(topic, ["one"])
    disabled_config = {"emit.offset-syncs.enabled": "false"}
    transform_config = {
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "another",
        "transforms.route.replacement": "topic",
    }
    for settings in (
        disabled_config,
        transform_config,
        {"producer.override.max.in.flight.requests.per.connection": "5"},
    ):
        Mirror(harness, f"{topic}-0", settings).run(1)
    assert read_syncs(harness, topic) == []
    assert "Not writing offset syncs: transforms, error handling" in caplog.text
    assert "Not writing offset syncs: the producer may reorder records" in caplog.text


def test_records_are_copied_if_syncs_cannot_be_written(
    harness: TaskHarness, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create_topics(harness)
    harness.produce(topic, ["one", "two"])
    settings = {
        "source.producer.bootstrap.servers": "127.0.0.1:1",
        "source.producer.delivery.timeout.ms": "300",
    }
    mirror = Mirror(harness, f"{topic}-0", settings)
    start_s = time.monotonic()
    mirror.run(2)
    assert time.monotonic() < start_s + 60, "the configured delivery timeout must apply"
    assert harness.values(f"west.{topic}", 9)[7:] == ["one", "two"]
    assert f"Failed to write offset syncs to {SYNCS_TOPIC}" in caplog.text


def test_syncs_follow_the_transaction_with_exactly_once_support(
    harness: TaskHarness, run_opener: RunOpener
) -> None:
    topic, task = create_topics(harness), TaskId(ConnectorName(f"mirror-{uuid.uuid4().hex[:8]}"), 0)
    produce_in_transactions(harness, topic, (100, 50))
    config = make_config(harness.address, {}) | {
        "task.assigned.partitions": f"{topic}-0",
        "source.consumer.isolation.level": "read_committed",
    }
    assert MirrorSourceConnector().exactly_once_support(config)
    observer = RunObserver()
    tracks = MirrorSourceTask.tracks_offsets(config)
    spec = TaskSpec(
        task=task,
        task_config=config,
        connector_config={"name": task.connector, **config},
        transactions=run_opener.transactions.claim(task, {}, tracks=tracks),
    )
    observer.run = harness.engine.open(spec, {}, observer.events.put)
    observer.expect(Opened)
    count = 0
    while count < 150:
        observer.run.next()
        count += observer.expect(BatchDone).records
    observer.run.stop()
    assert observer.expect(Stopped).clean
    assert read_syncs(harness, topic) == list_pairs(harness, topic, 150)[-1:]


def test_stream_syncs_its_last_records_when_offsets_are_stored(harness: TaskHarness) -> None:
    topic = create_topics(harness)
    produce_in_transactions(harness, topic, (300, 1))
    mirror = Mirror(harness, f"{topic}-0", SHORT_BATCHES, example_name="mirror-real-time")
    observer = mirror.open()
    poll_until(mirror, observer, 301, TopicPartition(topic, 0))
    assert mirror.offsets == {source_partition("west", TopicPartition(topic, 0)): {"offset": 301}}
    observer.run.stop()
    drain_until(mirror, observer, Stopped)
    syncs, all_pairs = read_syncs(harness, topic), list_pairs(harness, topic, 301)
    assert syncs
    assert set(syncs) <= set(all_pairs)
    assert syncs[-1] == all_pairs[-1]

"""Tests for the mirror connector on real Spark, with one broker as both clusters.

The cases follow Kafka's MirrorConnectorsIntegrationBaseTest.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # documented in this module
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from kraal.connectors.mirror.clusters import Clusters
from kraal.connectors.mirror.config import MIRROR
from kraal.connectors.mirror.topics import source_partition
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import BatchDone, Held, Opened, Stopped, Waiting
from kraal.plugins.api import RetriableError, TopicPartition
from kraal.proof.result import ProofResult, Verdict
from scripts.harness.processes import wait_until
from tests.fakes.spark.stage import TIMEOUT_S as EVENT_TIMEOUT_S
from tests.fakes.spark.stage import RunObserver, TaskHarness
from tests.fakes.spark.tasks import prove_source
from tests.fakes.workers.examples import example

TIMEOUT_S = 20.0
Message = tuple[int, bytes | None, bytes | None, Any, tuple[int, int]]
"""Partition, key, value, headers, timestamp type and timestamp."""


def make_config(address: str, changes: Mapping[str, str], name: str = "mirror") -> dict[str, str]:
    servers = {"source.cluster.bootstrap.servers": address, "target.cluster.bootstrap.servers": address}
    return example(name, {**servers, "replication.factor": "1", **changes})


@dataclass
class Mirror:
    """A mirror task that can be restarted at its stored offsets."""

    harness: TaskHarness
    partitions: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    offsets: dict[SourcePartition, Offset] = field(default_factory=dict)
    example_name: str = "mirror"

    def open(self) -> RunObserver:
        config = make_config(self.harness.address, {}, self.example_name)
        config |= {"task.assigned.partitions": self.partitions, **self.overrides}
        observer = self.harness.open(
            f"mirror-{uuid.uuid4().hex[:8]}", config["connector.class"], config, dict(self.offsets)
        )
        observer.expect(Opened)
        return observer

    def run(self, records: int) -> None:
        """Run the task until it has written `records` records."""
        observer = self.open()
        self.continue_run(observer, records)
        observer.run.stop()
        assert observer.expect(Stopped).clean

    def prove(self) -> ProofResult:
        """Prove the task at its stored offsets."""
        config = make_config(self.harness.address, {}, self.example_name)
        task_configs = [{"task.assigned.partitions": self.partitions}]
        return prove_source(self.harness, config["connector.class"], config, self.offsets, task_configs)

    def continue_run(self, observer: RunObserver, records: int) -> None:
        count = 0
        while count < records:
            observer.run.next()
            batch_done = observer.expect(BatchDone)
            self.offsets |= batch_done.offsets
            count += batch_done.records
        assert count == records


def drain_until(mirror: Mirror, observer: RunObserver, kind: type[Held | Stopped]) -> None:
    """Handle the remaining events until a pause or a stop completes."""
    deadline = time.monotonic() + EVENT_TIMEOUT_S
    while not isinstance(event := observer.events.get(timeout=max(0.01, deadline - time.monotonic())), kind):
        if not isinstance(event, Waiting):
            assert isinstance(event, BatchDone), event
            mirror.offsets |= event.offsets


def messages(harness: TaskHarness, topic: str, partitions: int, count: int) -> list[Message]:
    """Return all records of a topic, sorted by partition and offset, once there are at least `count`."""
    consumer = ck.Consumer({"bootstrap.servers": harness.address, "group.id": uuid.uuid4().hex})
    consumer.assign([ck.TopicPartition(topic, n, ck.OFFSET_BEGINNING) for n in range(partitions)])
    messages_read: list[Any] = []
    while len(messages_read) < count:
        batch = consumer.consume(count, 20.0)
        assert batch, f"{len(messages_read)} of {count} arrived"
        messages_read += [message for message in batch if not message.error()]
    messages_read += consumer.consume(100, 0.3)
    consumer.close()
    messages_read.sort(key=lambda message: (message.partition(), message.offset()))
    return [(m.partition(), m.key(), m.value(), m.headers(), m.timestamp()) for m in messages_read]


def test_records_are_copied_unchanged_and_task_resumes_after_restart(harness: TaskHarness) -> None:
    first_topic, second_topic = harness.topic(partitions=2), harness.topic()
    harness.create(f"west.{first_topic}", 2)
    harness.create(f"west.{second_topic}")
    producer = ck.Producer({"bootstrap.servers": harness.address, "linger.ms": 5})
    headers: list[tuple[str, str | bytes | None]] = [
        ("a", b"\xff\x00"),
        ("a", None),
        ("kraal.timestamp", b"mine"),
    ]
    producer.produce(first_topic, b"\x00\xff", b"k", partition=1, timestamp=1234567890123, headers=headers)
    producer.produce(first_topic, None, b"gone", partition=1, timestamp=5)
    producer.produce(first_topic, b"", None, partition=0, timestamp=1700000000000)
    producer.produce(second_topic, b"two", None, partition=0, timestamp=1700000000001)
    assert producer.flush(20) == 0
    mirror = Mirror(harness, f"{first_topic}-0,{first_topic}-1,{second_topic}-0")
    mirror.run(4)
    assert mirror.offsets == {
        source_partition("west", TopicPartition(first_topic, 0)): {"offset": 0},
        source_partition("west", TopicPartition(first_topic, 1)): {"offset": 1},
        source_partition("west", TopicPartition(second_topic, 0)): {"offset": 0},
    }
    harness.produce(first_topic, [str(n) for n in range(2000)], partition=1)
    observer = mirror.open()
    mirror.continue_run(observer, 2000)
    observer.run.next()  # idle: waits for new records
    harness.produce(first_topic, ["new"], partition=0)
    batch_done = observer.expect(BatchDone)
    mirror.offsets |= batch_done.offsets
    assert batch_done.records == 1
    observer.run.stop()
    assert observer.expect(Stopped).clean
    copied_messages = messages(harness, f"west.{first_topic}", 2, 2004)
    assert copied_messages == messages(harness, first_topic, 2, 2004)
    assert copied_messages[2] == (1, b"k", b"\x00\xff", headers, (ck.TIMESTAMP_CREATE_TIME, 1234567890123))
    assert messages(harness, f"west.{second_topic}", 1, 1) == messages(harness, second_topic, 1, 1)
    result = mirror.prove()
    assert (result.verdict, result.expected_count, result.stored_count) == (Verdict.PROVED, 2005, 2005)
    harness.produce(first_topic, ["lost"], partition=0)
    mirror.offsets[source_partition("west", TopicPartition(first_topic, 0))] = {"offset": 2}
    result = mirror.prove()
    assert (result.verdict, result.differences.missing_count) == (Verdict.DIFFERENT, 1)


def test_missing_offsets_are_reset_and_the_gap_is_logged(
    harness: TaskHarness, caplog: pytest.LogCaptureFixture
) -> None:
    topic = harness.topic()
    harness.create(f"west.{topic}")
    harness.produce(topic, [str(n) for n in range(10)])
    admin = AdminClient({"bootstrap.servers": harness.address})
    for future in admin.delete_records([ck.TopicPartition(topic, 0, 4)]).values():
        future.result(TIMEOUT_S)
    partition = TopicPartition(topic, 0)
    missing_offset = {source_partition("west", partition): {"offset": 77}}
    mirror = Mirror(harness, f"{topic}-0,{topic}-7", offsets=dict(missing_offset))
    with caplog.at_level(logging.WARNING):
        mirror.run(6)
    assert f"{topic}-0: offset 78 is not in [4, 10]; continuing at 4" in caplog.text
    assert f"the source has no partition {topic}-7" in caplog.text
    assert harness.values(f"west.{topic}", 6) == ["4", "5", "6", "7", "8", "9"]
    latest_mirror = Mirror(harness, f"{topic}-0", {"source.consumer.auto.offset.reset": "latest"})
    observer = latest_mirror.open()
    observer.run.next()
    harness.produce(topic, ["early or late"])  # before or after the task has read the end offset
    observer.run.stop()
    drain_until(latest_mirror, observer, Stopped)  # the task may have copied the record before the stop
    assert not latest_mirror.offsets or latest_mirror.offsets == {
        source_partition("west", partition): {"offset": 10}
    }


def test_target_topics_match_source_topics(bootstrap: str) -> None:
    name = f"match-{uuid.uuid4().hex[:8]}"
    admin: Any = AdminClient({"bootstrap.servers": bootstrap})
    new_topic = NewTopic(
        name,
        2,
        1,
        config={"cleanup.policy": "compact", "min.insync.replicas": "1", "retention.ms": "86400000"},
    )
    admin.create_topics([new_topic])[name].result(TIMEOUT_S)
    config = make_config(bootstrap, {"topics": f"{name}.*"})
    clusters = Clusters(config, MIRROR.parse(config))

    def refresh_partitions() -> list[TopicPartition]:
        """Refresh the partitions. Return those of the topic, because other tests may have created further topics."""
        return [partition for partition in clusters.refresh() if partition.topic == name]

    def count_target_partitions() -> int:
        """Return the number of partitions of the topic's copy in the target cluster."""
        return len(admin.list_topics(f"west.{name}").topics[f"west.{name}"].partitions)

    # The controller responds before the broker has the new topic.
    two_partitions = [TopicPartition(name, 0), TopicPartition(name, 1)]
    wait_until(
        "the source had the topic", lambda: refresh_partitions() == two_partitions, timeout_s=TIMEOUT_S
    )
    wait_until("the target had its copy", lambda: count_target_partitions() == 2, timeout_s=TIMEOUT_S)
    copy = ConfigResource(ResourceType.TOPIC, f"west.{name}")
    entries = admin.describe_configs([copy])[copy].result(TIMEOUT_S)
    topic_settings = {
        key for key, entry in entries.items() if ConfigSource(entry.source).name == "DYNAMIC_TOPIC_CONFIG"
    }
    assert topic_settings == {"cleanup.policy", "retention.ms"}
    admin.create_partitions([NewPartitions(name, 3)])[name].result(TIMEOUT_S)
    wait_until(
        "the source had a third partition", lambda: len(refresh_partitions()) == 3, timeout_s=TIMEOUT_S
    )
    wait_until(
        "the target had a third partition", lambda: count_target_partitions() == 3, timeout_s=TIMEOUT_S
    )
    unsatisfiable_config = {**config, "replication.factor": "3", "source.cluster.alias": "far"}
    with pytest.raises(RetriableError, match="none could be created"):
        Clusters(unsatisfiable_config, MIRROR.parse(unsatisfiable_config)).refresh()

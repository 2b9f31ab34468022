"""Tests for MirrorMaker's three connectors as Java plugins."""

from __future__ import annotations

import shutil
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kraal.broker.broker import Broker
from kraal.connectors.mirror.offset_syncs import serialize_key, serialize_value
from kraal.jars.jars import ensure
from kraal.plugins.api import OffsetPair
from kraal.plugins.api import TopicPartition as KraalTopicPartition
from kraal.testing import ProcessCluster
from tests.fakes.spark.pipe import create_topic
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    RUNNING,
    describe_keys,
    java_worker,
    kraal_worker,
    list_plugins,
    stored_offsets,
    unique_name,
    validate_config,
    wait_for_values,
)

pytestmark = pytest.mark.ci

BYTES_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the properties of workers with MirrorMaker's jars as a plugin."""
    directory = tmp_path_factory.mktemp("plugins")
    (directory / "mirror").mkdir()
    for jar in ensure("connect-4.3"):
        if "connect-mirror" in jar.name:
            shutil.copy(jar, directory / "mirror")
    return {"plugin.path": str(directory), "offset.flush.interval.ms": "500"}


@pytest.fixture(scope="module")
def mirror_cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """Run a Kraal worker."""
    with kraal_worker(tmp_path_factory.mktemp("mirrors"), kafka.bootstrap, properties) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def java_cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str]
) -> Iterator[MixedCluster]:
    """Run a Java worker in its own group."""
    with java_worker(tmp_path_factory.mktemp("java"), kafka.bootstrap, properties) as cluster:
        yield cluster


def mirror_config(kind: str, bootstrap: str, alias: str, target: str, topic: str) -> dict[str, str]:
    """Return the config of a connector that mirrors a cluster to itself, with the aliases `alias` and `target`."""
    return {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": alias,
        "target.cluster.alias": target,
        "source.cluster.bootstrap.servers": bootstrap,
        "target.cluster.bootstrap.servers": bootstrap,
        "topics": topic,
        "groups": topic,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "offset.lag.max": "0",
        "key.converter": BYTES_CONVERTER,
        "value.converter": BYTES_CONVERTER,
    }


Row = tuple[bytes, bytes | None, object]
"""A key, a value, and headers."""
KINDS = ("Source", "Checkpoint", "Heartbeat")
LAST_VALUES = {"offset syncs": struct.pack(">qq", 2, 2), "checkpoints": struct.pack(">hqqh", 0, 3, 3, 0)}
"""The value of the last record: record 2 is copied to offset 2, and the group's offset 3 is translated to 3."""


def mirror_topic(cluster: ProcessCluster) -> dict[str, list[Row]]:
    """Mirror a topic and its group. Return the records of all topics that the connectors write, without timestamps."""
    topic, alias, target = unique_name("topic"), unique_name("source"), unique_name("target")
    [worker] = cluster.alive
    create_topic(cluster.bootstrap, topic)
    cluster.write(topic, "one", None, "three", key="k")
    # Before the connectors start, because they look up groups at their start.
    consume(cluster.bootstrap, topic)
    for kind in KINDS:
        cluster.create(f"{topic}-{kind}", mirror_config(kind, cluster.bootstrap, alias, target, topic))
    for kind in KINDS:
        worker.wait_for_states(f"{topic}-{kind}", RUNNING)
    topics = {
        "copies": f"{alias}.{topic}",
        "checkpoints": f"{alias}.checkpoints.internal",
        "heartbeats": "heartbeats",
        "offset syncs": f"mm2-offset-syncs.{target}.internal",
    }

    def read_rows(label: str) -> list[Row]:
        records = cluster.records(topics[label])
        rows = [(record.key or b"", record.value, record.headers) for record in records]
        required_text = {"heartbeats": alias, "offset syncs": topic}.get(label, "")  # shared with other tests
        return [row for row in rows if required_text.encode() in row[0]]

    worker.wait_until("the records were copied", lambda: len(read_rows("copies")) == 3)
    for label in topics:
        worker.wait_until(f"{label} arrived", partial(has_rows, read_rows, label))
    for label, last in LAST_VALUES.items():  # earlier values depend on the timing
        worker.wait_until(f"the last of {label} arrived", partial(ends_with, read_rows, label, last))

    def offsets(kind: str) -> list[tuple[bytes, bytes | None]]:
        stored = stored_offsets(cluster, f"{topic}-{kind}")
        # The source also copies the heartbeats of other tests.
        required_text = f'"topic":"{topic}"' if kind == "Source" else ""
        return [entry for entry in stored if required_text.encode() in entry[0]]

    for kind in KINDS:
        worker.wait_until(f"{kind} had stored offsets", partial(has_rows, offsets, kind))
    worker.wait_until("the last offset was stored", lambda: offsets("Source")[-1][1] == b'{"offset":2}')
    for kind in KINDS:
        cluster.delete(f"{topic}-{kind}")

    def normalize(data: bytes) -> bytes:
        for name, text in ((topic, b"TOPIC"), (alias, b"ALIAS"), (target, b"TARGET")):
            data = data.replace(name.encode(), text)
        return data

    sync = (serialize_key(KraalTopicPartition(topic, 0)), serialize_value(OffsetPair(0, 0)))
    assert sync in [entry[:2] for entry in read_rows("offset syncs")], "the bytes must equal Kraal's"
    rows_by_name = {label: read_rows(label)[-3 if label == "copies" else -1 :] for label in topics}
    rows_by_name |= {f"offsets of {kind}": [(*offsets(kind)[-1], ())] for kind in KINDS}
    return {
        label: [(normalize(key), without_time(label, value), headers) for key, value, headers in rows]
        for label, rows in rows_by_name.items()
    }


def without_time(label: str, value: bytes | None) -> bytes | None:
    """Return a value without the time at the end of the values of heartbeats."""
    return None if value is None else value[: -8 if label == "heartbeats" else None]


def has_rows(read_rows: Callable[[str], list[Any]], label: str) -> bool:
    return bool(read_rows(label))


def ends_with(read_rows: Callable[[str], list[Row]], label: str, last: bytes) -> bool:
    return read_rows(label)[-1][1] == last


def test_mirrored_records_match_java(mirror_cluster: ProcessCluster, java_cluster: MixedCluster) -> None:
    kraal_result, java_result = mirror_topic(mirror_cluster), mirror_topic(java_cluster)
    assert [(key, value) for key, value, _ in kraal_result["copies"]] == [
        (b"k", b"one"),
        (b"k", None),
        (b"k", b"three"),
    ]
    assert kraal_result == java_result


@pytest.mark.parametrize("kind", KINDS)
def test_rest_responses_match_java(
    mirror_cluster: ProcessCluster, java_cluster: MixedCluster, kind: str
) -> None:
    config = mirror_config(kind, mirror_cluster.bootstrap, "source", "target", "topic")
    invalid_values = {
        "refresh.topics.interval.seconds": "often",
        "target.cluster.alias": "",
        "tasks.max": "0",
        "emit.heartbeats.interval.seconds": "often",
        "emit.checkpoints.interval.seconds": "often",
    }
    plugin, kraal_process, java_process = (
        config["connector.class"],
        mirror_cluster.alive[0],
        java_cluster.alive[0],
    )
    assert len(list_plugins(kraal_process, [plugin])) == 1
    assert list_plugins(kraal_process, [plugin]) == list_plugins(java_process, [plugin])
    keys = describe_keys(kraal_process, plugin)
    assert {"source.cluster.alias", "replication.policy.class", "name"} < {key["name"] for key in keys}
    assert keys == describe_keys(java_process, plugin)
    for change in ({}, invalid_values):
        response, expected = (
            validate_config(kraal_process, config | change),
            validate_config(java_process, config | change),
        )
        assert response == expected
        assert (response["error_count"] > 1) == bool(change)


def test_mirror_checkpoint_connector_translates_offsets_of_kraal_mirror_topics(
    cluster: ProcessCluster, mirror_cluster: ProcessCluster
) -> None:
    topic, alias, target = unique_name("topic"), unique_name("source"), unique_name("target")
    mirror_topic_name, bootstrap = f"{alias}.{topic}", cluster.bootstrap
    create_topic(bootstrap, topic)
    create_topic(bootstrap, mirror_topic_name)
    other_values = [f"not a copy {n}" for n in range(5)]
    cluster.write(mirror_topic_name, *other_values)
    config = mirror_config("Source", bootstrap, alias, target, topic)
    assert cluster.alive[0].create(f"{topic}-own", config).status == 201
    cluster.write(topic, *(str(n) for n in range(300)))
    wait_for_values(cluster, mirror_topic_name, other_values + [str(n) for n in range(300)])
    consume(bootstrap, topic, 300)
    mirror_cluster.create(f"{topic}-Checkpoint", mirror_config("Checkpoint", bootstrap, alias, target, topic))

    def is_translated_to(offset: int) -> bool:
        return committed_offset(bootstrap, topic, mirror_topic_name) == offset

    mirror_cluster.alive[0].wait_until("the group offset was translated", partial(is_translated_to, 305))
    assert cluster.alive[0].post(f"/connectors/{topic}-own/tasks/0/restart").status == 204
    cluster.alive[0].wait_for_states(f"{topic}-own", RUNNING)
    cluster.write(topic, *(str(n) for n in range(300, 350)))
    wait_for_values(cluster, mirror_topic_name, other_values + [str(n) for n in range(350)])
    assert cluster.values(mirror_topic_name)[305] == cluster.values(topic)[300], (
        "the group must continue at the same record"
    )
    consume(bootstrap, topic, 50)
    mirror_cluster.alive[0].wait_until(
        "the group offset was translated again", partial(is_translated_to, 355)
    )
    mirror_cluster.delete(f"{topic}-Checkpoint")
    cluster.delete(f"{topic}-own")


def committed_offset(bootstrap: str, group: str, topic: str) -> int:
    """Return a group's offset in a topic of one partition; negative if there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (partition,) = consumer.committed([TopicPartition(topic, 0)], 10)
        return int(partition.offset)
    finally:
        consumer.close()


def consume(bootstrap: str, topic: str, count: int = 3) -> None:
    """Read `count` records of a topic with a group of the same name, and commit the offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        deadline, read_count = time.monotonic() + 30, 0
        while read_count < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            read_count += message is not None and message.error() is None
        assert read_count == count
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()

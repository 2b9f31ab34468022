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

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


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
def mirrors(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """Run a Kraal worker."""
    with kraal_worker(tmp_path_factory.mktemp("mirrors"), kafka.bootstrap, properties) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def java(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str]
) -> Iterator[MixedCluster]:
    """Run a Java worker in its own group."""
    with java_worker(tmp_path_factory.mktemp("java"), kafka.bootstrap, properties) as cluster:
        yield cluster


def mirror(kind: str, bootstrap: str, alias: str, target: str, topic: str) -> dict[str, str]:
    """Return the config of a connector that mirrors a cluster with the alias `alias` to itself, as `target`."""
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
        "key.converter": BYTES,
        "value.converter": BYTES,
    }


Row = tuple[bytes, bytes | None, object]
"""A key, a value, and headers."""
KINDS = ("Source", "Checkpoint", "Heartbeat")
LAST = {"offset syncs": struct.pack(">qq", 2, 2), "checkpoints": struct.pack(">hqqh", 0, 3, 3, 0)}
"""The last values: record 2 is copied to offset 2, and the group's offset 3 is translated to 3."""


def mirror_topic(side: ProcessCluster) -> dict[str, list[Row]]:
    """Mirror a topic and its group; return the records of all topics that the connectors write, without timestamps."""
    topic, alias, target = unique_name("topic"), unique_name("source"), unique_name("target")
    [worker] = side.alive
    create_topic(side.bootstrap, topic)
    side.write(topic, "one", None, "three", key="k")
    consume(side.bootstrap, topic)  # before the connectors start, because they look up groups at their start
    for kind in KINDS:
        side.create(f"{topic}-{kind}", mirror(kind, side.bootstrap, alias, target, topic))
    for kind in KINDS:
        worker.wait_for_states(f"{topic}-{kind}", RUNNING)
    topics = {
        "copies": f"{alias}.{topic}",
        "checkpoints": f"{alias}.checkpoints.internal",
        "heartbeats": "heartbeats",
        "offset syncs": f"mm2-offset-syncs.{target}.internal",
    }

    def read_rows(label: str) -> list[Row]:
        rows = [(record.key or b"", record.value, record.headers) for record in side.records(topics[label])]
        required = {"heartbeats": alias, "offset syncs": topic}.get(label, "")  # shared with other tests
        return [row for row in rows if required.encode() in row[0]]

    worker.wait_until("the records were copied", lambda: len(read_rows("copies")) == 3)
    for label in topics:
        worker.wait_until(f"{label} arrived", partial(has_rows, read_rows, label))
    for label, last in LAST.items():  # earlier values depend on the timing
        worker.wait_until(f"the last of {label} arrived", partial(ends_with, read_rows, label, last))

    def offsets(kind: str) -> list[tuple[bytes, bytes | None]]:
        stored = stored_offsets(side, f"{topic}-{kind}")
        required = f'"topic":"{topic}"' if kind == "Source" else ""  # also copies other tests' heartbeats
        return [each for each in stored if required.encode() in each[0]]

    for kind in KINDS:
        worker.wait_until(f"{kind} had stored offsets", partial(has_rows, offsets, kind))
    worker.wait_until("the last offset was stored", lambda: offsets("Source")[-1][1] == b'{"offset":2}')
    for kind in KINDS:
        side.delete(f"{topic}-{kind}")

    def normalize(data: bytes) -> bytes:
        for name, text in ((topic, b"TOPIC"), (alias, b"ALIAS"), (target, b"TARGET")):
            data = data.replace(name.encode(), text)
        return data

    sync = (serialize_key(KraalTopicPartition(topic, 0)), serialize_value(OffsetPair(0, 0)))
    assert sync in [each[:2] for each in read_rows("offset syncs")], "the bytes must equal Kraal's"
    rows_by_name = {label: read_rows(label)[-3 if label == "copies" else -1 :] for label in topics}
    rows_by_name |= {f"offsets of {kind}": [(*offsets(kind)[-1], ())] for kind in KINDS}
    return {
        label: [
            (
                normalize(key),
                None if value is None else value[: -8 if label == "heartbeats" else None],
                headers,
            )
            for key, value, headers in rows  # values of heartbeats end with the time
        ]
        for label, rows in rows_by_name.items()
    }


def has_rows(read_rows: Callable[[str], list[Any]], label: str) -> bool:
    return bool(read_rows(label))


def ends_with(read_rows: Callable[[str], list[Row]], label: str, last: bytes) -> bool:
    return read_rows(label)[-1][1] == last


def test_mirrored_records_match_java(mirrors: ProcessCluster, java: MixedCluster) -> None:
    kraal, java_result = mirror_topic(mirrors), mirror_topic(java)
    assert [(key, value) for key, value, _ in kraal["copies"]] == [
        (b"k", b"one"),
        (b"k", None),
        (b"k", b"three"),
    ]
    assert kraal == java_result


@pytest.mark.parametrize("kind", KINDS)
def test_rest_responses_match_java(mirrors: ProcessCluster, java: MixedCluster, kind: str) -> None:
    config = mirror(kind, mirrors.bootstrap, "source", "target", "topic")
    wrong_values = {"refresh.topics.interval.seconds": "often", "target.cluster.alias": "", "tasks.max": "0"}
    wrong_values |= {
        "emit.heartbeats.interval.seconds": "often",
        "emit.checkpoints.interval.seconds": "often",
    }
    plugin, kraal_side, java_side = config["connector.class"], mirrors.alive[0], java.alive[0]
    assert len(list_plugins(kraal_side, [plugin])) == 1
    assert list_plugins(kraal_side, [plugin]) == list_plugins(java_side, [plugin])
    keys = describe_keys(kraal_side, plugin)
    assert {"source.cluster.alias", "replication.policy.class", "name"} < {key["name"] for key in keys}
    assert keys == describe_keys(java_side, plugin)
    for change in ({}, wrong_values):
        response, expected = (
            validate_config(kraal_side, config | change),
            validate_config(java_side, config | change),
        )
        assert response == expected
        assert (response["error_count"] > 1) == bool(change)


def test_mirror_checkpoint_connector_translates_offsets_of_kraal_mirror_topics(
    cluster: ProcessCluster, mirrors: ProcessCluster
) -> None:
    topic, alias, target = unique_name("topic"), unique_name("source"), unique_name("target")
    mirror_topic_name, bootstrap = f"{alias}.{topic}", cluster.bootstrap
    create_topic(bootstrap, topic)
    create_topic(bootstrap, mirror_topic_name)
    other_values = [f"not a copy {n}" for n in range(5)]
    cluster.write(mirror_topic_name, *other_values)
    config = mirror("Source", bootstrap, alias, target, topic)
    assert cluster.alive[0].create(f"{topic}-own", config).status == 201
    cluster.write(topic, *(str(n) for n in range(300)))
    wait_for_values(cluster, mirror_topic_name, other_values + [str(n) for n in range(300)])
    consume(bootstrap, topic, 300)
    mirrors.create(f"{topic}-Checkpoint", mirror("Checkpoint", bootstrap, alias, target, topic))

    def is_translated_to(offset: int) -> bool:
        return committed_offset(bootstrap, topic, mirror_topic_name) == offset

    mirrors.alive[0].wait_until("the group offset was translated", partial(is_translated_to, 305))
    assert cluster.alive[0].post(f"/connectors/{topic}-own/tasks/0/restart").status == 204
    cluster.alive[0].wait_for_states(f"{topic}-own", RUNNING)
    cluster.write(topic, *(str(n) for n in range(300, 350)))
    wait_for_values(cluster, mirror_topic_name, other_values + [str(n) for n in range(350)])
    assert cluster.values(mirror_topic_name)[305] == cluster.values(topic)[300], (
        "the group continues at the same record"
    )
    consume(bootstrap, topic, 50)
    mirrors.alive[0].wait_until("the group offset was translated again", partial(is_translated_to, 355))
    mirrors.delete(f"{topic}-Checkpoint")
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

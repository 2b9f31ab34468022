"""MirrorMaker's three connectors, as plugins."""

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
from kraal.connectors.mirror.offset_syncs import sync_key, sync_value
from kraal.jars.jars import ensure
from kraal.plugins.api import OffsetPair
from kraal.plugins.api import TopicPartition as Place
from kraal.testing import ProcessCluster
from tests.fakes.spark.pipe import create_topic
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    RUNNING,
    a_name,
    described,
    java_worker,
    kraal_worker,
    listed,
    stored_offsets,
    validated,
    wait_for_values,
)

pytestmark = pytest.mark.ci

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The properties of workers with MirrorMaker's jars as a plugin."""
    place = tmp_path_factory.mktemp("plugins")
    (place / "mirror").mkdir()
    for jar in ensure("connect-4.3"):
        if "connect-mirror" in jar.name:
            shutil.copy(jar, place / "mirror")
    return {"plugin.path": str(place), "offset.flush.interval.ms": "500"}


@pytest.fixture(scope="module")
def mirrors(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """A Kraal worker."""
    with kraal_worker(tmp_path_factory.mktemp("mirrors"), kafka.bootstrap, properties) as made:
        yield made


@pytest.fixture(scope="module")
def java(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str]
) -> Iterator[MixedCluster]:
    """A Java worker of a group of its own."""
    with java_worker(tmp_path_factory.mktemp("java"), kafka.bootstrap, properties) as made:
        yield made


def mirror(kind: str, bootstrap: str, alias: str, target: str, topic: str) -> dict[str, str]:
    """Return the config of one of the three, from a cluster called `alias` to itself, called `target` there."""
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
"""The last values: the third record is the third copy, and the group, which has read three, has read three copies."""


def mirrored(side: ProcessCluster) -> dict[str, list[Row]]:
    """Mirror a topic and its group; return the records of all topics that the connectors write, without times."""
    topic, alias, target, worker = a_name("topic"), a_name("source"), a_name("target"), side.alive[0]
    create_topic(side.bootstrap, topic)
    side.write(topic, "one", None, "three", key="k")
    consume(side.bootstrap, topic)  # first: groups are looked for at the start
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

    def found(what: str) -> list[Row]:
        rows = [(each.key or b"", each.value, each.headers) for each in side.records(topics[what])]
        own = {"heartbeats": alias, "offset syncs": topic}.get(what, "")  # both topics have records of others
        return [row for row in rows if own.encode() in row[0]]

    worker.wait_until("the records were copied", lambda: len(found("copies")) == 3)
    for what in topics:
        worker.wait_until(f"there were {what}", partial(is_there, found, what))
    for what, last in LAST.items():  # earlier ones depend on what had been read or written by then
        worker.wait_until(f"the last of {what} was there", partial(ends_with, found, what, last))

    def offsets(kind: str) -> list[tuple[bytes, bytes | None]]:
        stored = stored_offsets(side, f"{topic}-{kind}")
        own = f'"topic":"{topic}"' if kind == "Source" else ""  # it copies the heartbeats of other tests, too
        return [each for each in stored if own.encode() in each[0]]

    for kind in KINDS:
        worker.wait_until(f"{kind} had stored offsets", partial(is_there, offsets, kind))
    worker.wait_until("the last offset was stored", lambda: offsets("Source")[-1][1] == b'{"offset":2}')
    for kind in KINDS:
        side.delete(f"{topic}-{kind}")

    def bare(data: bytes) -> bytes:
        for name, text in ((topic, b"TOPIC"), (alias, b"ALIAS"), (target, b"TARGET")):
            data = data.replace(name.encode(), text)
        return data

    sync = (sync_key(Place(topic, 0)), sync_value(OffsetPair(0, 0)))
    assert sync in [each[:2] for each in found("offset syncs")], "Kafka's syncs have the bytes of Kraal's"
    compared = {what: found(what)[-3 if what == "copies" else -1 :] for what in topics}
    compared |= {f"offsets of {kind}": [(*offsets(kind)[-1], ())] for kind in KINDS}
    return {
        what: [
            (bare(key), None if value is None else value[: -8 if what == "heartbeats" else None], headers)
            for key, value, headers in rows  # values of heartbeats end with the time
        ]
        for what, rows in compared.items()
    }


def is_there(found: Callable[[str], list[Any]], what: str) -> bool:
    return bool(found(what))


def ends_with(found: Callable[[str], list[Row]], what: str, last: bytes) -> bool:
    return found(what)[-1][1] == last


def test_mirrored_records_match_those_of_a_java_worker(mirrors: ProcessCluster, java: MixedCluster) -> None:
    mine, its = mirrored(mirrors), mirrored(java)
    assert [(key, value) for key, value, _ in mine["copies"]] == [
        (b"k", b"one"),
        (b"k", None),
        (b"k", b"three"),
    ]
    assert mine == its


@pytest.mark.parametrize("kind", KINDS)
def test_rest_answers_are_those_of_a_java_worker(
    mirrors: ProcessCluster, java: MixedCluster, kind: str
) -> None:
    config = mirror(kind, mirrors.bootstrap, "source", "target", "topic")
    wrong = {"refresh.topics.interval.seconds": "often", "target.cluster.alias": "", "tasks.max": "0"}
    wrong |= {"emit.heartbeats.interval.seconds": "often", "emit.checkpoints.interval.seconds": "often"}
    plugin, (mine, its) = config["connector.class"], (side.alive[0] for side in (mirrors, java))
    assert len(listed(mine, [plugin])) == 1
    assert listed(mine, [plugin]) == listed(its, [plugin])
    keys = described(mine, plugin)
    assert {"source.cluster.alias", "replication.policy.class", "name"} < {each["name"] for each in keys}
    assert keys == described(its, plugin)
    for change in ({}, wrong):
        answer, expected = validated(mine, config | change), validated(its, config | change)
        assert answer == expected
        assert (answer["error_count"] > 1) == bool(change)


def test_kafkas_checkpoints_translate_offsets_of_topics_that_kraals_own_mirror_copies(
    cluster: ProcessCluster, mirrors: ProcessCluster
) -> None:
    topic, alias, target = a_name("topic"), a_name("source"), a_name("target")
    copy, bootstrap = f"{alias}.{topic}", cluster.bootstrap
    create_topic(bootstrap, topic)
    create_topic(bootstrap, copy)
    others = [f"not a copy {n}" for n in range(5)]
    cluster.write(copy, *others)
    config = mirror("Source", bootstrap, alias, target, topic)
    assert cluster.alive[0].create(f"{topic}-own", config).status == 201
    cluster.write(topic, *(str(n) for n in range(300)))
    wait_for_values(cluster, copy, others + [str(n) for n in range(300)])
    consume(bootstrap, topic, 300)
    mirrors.create(f"{topic}-Checkpoint", mirror("Checkpoint", bootstrap, alias, target, topic))

    def is_translated_to(offset: int) -> bool:
        return committed(bootstrap, topic, copy) == offset

    mirrors.alive[0].wait_until("the group was translated", partial(is_translated_to, 305))
    assert cluster.alive[0].post(f"/connectors/{topic}-own/tasks/0/restart").status == 204
    cluster.alive[0].wait_for_states(f"{topic}-own", RUNNING)
    cluster.write(topic, *(str(n) for n in range(300, 350)))
    wait_for_values(cluster, copy, others + [str(n) for n in range(350)])
    assert cluster.values(copy)[305] == cluster.values(topic)[300], "where the group goes on in both clusters"
    consume(bootstrap, topic, 50)
    mirrors.alive[0].wait_until("the group was translated again", partial(is_translated_to, 355))
    mirrors.delete(f"{topic}-Checkpoint")
    cluster.delete(f"{topic}-own")


def committed(bootstrap: str, group: str, topic: str) -> int:
    """Return a group's offset in a topic of one partition; below 0: none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], 10)
        return int(found.offset)
    finally:
        consumer.close()


def consume(bootstrap: str, topic: str, count: int = 3) -> None:
    """Read some records of a topic as a group of its name, and commit."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        deadline, seen = time.monotonic() + 30, 0
        while seen < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            seen += message is not None and message.error() is None
        assert seen == count
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()

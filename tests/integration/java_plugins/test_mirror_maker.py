"""MirrorMaker's three connectors, as plugins."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer

from kraal.broker.broker import Broker
from kraal.jars.jars import ensure
from kraal.testing import ProcessCluster
from tests.fakes.spark.pipe import create_topic
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import RUNNING, a_name, java_worker, kraal_worker

pytestmark = pytest.mark.ci

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The properties of workers with MirrorMaker's jars as a plugin."""
    place = tmp_path_factory.mktemp("plugins")
    (place / "mirror").mkdir()
    for jar in ensure("connect"):
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
        "offset.lag.max": "0",
        "key.converter": BYTES,
        "value.converter": BYTES,
    }


Row = tuple[bytes, bytes | None, object]
"""A key, a value, and headers."""
KINDS = ("Source", "Checkpoint", "Heartbeat")


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
    for kind in KINDS:
        side.delete(f"{topic}-{kind}")

    def bare(data: bytes) -> bytes:
        for name, text in ((topic, b"TOPIC"), (alias, b"ALIAS"), (target, b"TARGET")):
            data = data.replace(name.encode(), text)
        return data

    first = {what: found(what)[: 3 if what == "copies" else 1] for what in topics}
    timed = ("checkpoints", "heartbeats")  # their values end with the time
    return {
        what: [
            (bare(key), None if value is None else value[: -8 if what in timed else None], headers)
            for key, value, headers in rows
        ]
        for what, rows in first.items()
    }


def is_there(found: Callable[[str], list[Row]], what: str) -> bool:
    return bool(found(what))


def test_what_is_mirrored_is_what_a_java_worker_mirrors(mirrors: ProcessCluster, java: MixedCluster) -> None:
    mine, its = mirrored(mirrors), mirrored(java)
    assert [(key, value) for key, value, _ in mine["copies"]] == [
        (b"k", b"one"),
        (b"k", None),
        (b"k", b"three"),
    ]
    assert mine == its


def consume(bootstrap: str, topic: str) -> None:
    """Read the topic as a group of its name, and commit."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        deadline, seen = time.monotonic() + 30, 0
        while seen < 3 and time.monotonic() < deadline:
            message = consumer.poll(1)
            seen += message is not None and message.error() is None
        assert seen == 3
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()

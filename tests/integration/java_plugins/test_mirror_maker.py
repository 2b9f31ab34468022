"""MirrorMaker's three connectors, as plugins."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from kraal.broker.broker import Broker
from kraal.jars.jars import ensure
from kraal.testing import ProcessCluster
from tests.fakes.spark.pipe import create_topic
from tests.integration.java_plugins.flows import RUNNING, a_name, kraal_worker

pytestmark = pytest.mark.ci

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.fixture(scope="module")
def mirrors(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """A worker with MirrorMaker's jars as a plugin."""
    place = tmp_path_factory.mktemp("mirrors")
    (place / "plugins" / "mirror").mkdir(parents=True)
    for jar in ensure("connect"):
        if "connect-mirror" in jar.name:
            shutil.copy(jar, place / "plugins" / "mirror")
    properties = {"plugin.path": str(place / "plugins")}
    with kraal_worker(place / "group", kafka.bootstrap, properties) as made:
        yield made


def mirror(kind: str, bootstrap: str, alias: str, topic: str) -> dict[str, str]:
    """Return the config of one of the three, from a cluster called `alias` to itself."""
    return {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": alias,
        "target.cluster.alias": "target",
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


def test_topics_offsets_and_heartbeats_are_mirrored(mirrors: ProcessCluster) -> None:
    topic, alias, worker = a_name("mirrored"), a_name("source"), mirrors.alive[0]
    create_topic(mirrors.bootstrap, topic)
    mirrors.write(topic, "one", None, "three", key="k")
    consume(mirrors.bootstrap, topic)  # first: groups are looked for at the start
    for kind in ("Source", "Checkpoint", "Heartbeat"):
        mirrors.create(f"{topic}-{kind}", mirror(kind, mirrors.bootstrap, alias, topic))
    for kind in ("Source", "Checkpoint", "Heartbeat"):
        worker.wait_for_states(f"{topic}-{kind}", RUNNING)
    copy = f"{alias}.{topic}"
    worker.wait_until("the records were copied", lambda: mirrors.values(copy) == ["one", None, "three"])
    assert [each.key for each in mirrors.records(copy)] == [b"k"] * 3
    worker.wait_until(
        "a checkpoint was there", lambda: bool(mirrors.records(f"{alias}.checkpoints.internal"))
    )
    worker.wait_until("a heartbeat was there", lambda: bool(mirrors.records("heartbeats")))
    worker.wait_until(
        "offset syncs were there", lambda: bool(mirrors.records("mm2-offset-syncs.target.internal"))
    )
    for kind in ("Source", "Checkpoint", "Heartbeat"):
        mirrors.delete(f"{topic}-{kind}")


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

"""Java sources with exactly-once support: each number once, whatever is killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.integration.java_plugins.flows import RUNNING, a_name, faulty_config, plugin_jvm, wait_for_plugins

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def exact(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, worker_properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """A cluster of one worker with exactly-once support."""
    properties = worker_properties | {"exactly.once.source.support": "enabled"}
    place = tmp_path_factory.mktemp("exact")
    with ProcessCluster(1, directory=place, bootstrap=kafka.bootstrap, properties=properties) as made:
        wait_for_plugins(made.alive[0])
        yield made


def committed(bootstrap: str, topic: str) -> list[int]:
    """Return the numbers that a consumer of committed records reads."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "isolation.level": "read_committed",
            "log_level": 2,
        }
    )
    try:
        place = TopicPartition(topic, 0, 0)
        if topic not in consumer.list_topics(timeout=30).topics:
            return []
        _, end = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([place])
        found = []
        while consumer.position([place])[0].offset < end:
            message = consumer.poll(5)
            if message is None:
                break
            found.append(int(message.value() or b""))
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("boundary", ["poll", "interval", "connector"])
def test_each_number_comes_once(exact: ProcessCluster, boundary: str) -> None:
    name, worker = a_name(boundary), exact.alive[0]
    config = faulty_config(name) | {
        "exactly.once.support": "required",
        "transaction.boundary": boundary,
        "transaction.boundary.interval.ms": "300",
    }
    exact.create(name, config)
    worker.wait_for_states(name, RUNNING)

    def more_than(count: int) -> None:
        worker.wait_until("it went on", lambda: len(committed(exact.bootstrap, name)) > count)

    more_than(50)
    plugin_jvm(worker).kill()
    more_than(len(committed(exact.bootstrap, name)) + 50)
    exact.restart(name)
    more_than(len(committed(exact.bootstrap, name)) + 50)
    exact.stop(name)
    worker.wait_for_states(name, ["STOPPED"])
    found = committed(exact.bootstrap, name)
    assert found == list(range(len(found)))
    exact.delete(name)

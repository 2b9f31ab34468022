"""Sources with `exactly.once.source.support=enabled` on worker processes: whoever reads committed sees a line once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.fakes.spark.pipe import PADDING, RUNNING, Pipe, create_topic

pytestmark = pytest.mark.ci

ENABLED = {"exactly.once.source.support": "enabled"}
LINES = 1_500_000
GROWN = 20_000
"""So many records more in the topic, committed or not: a transaction is under way."""

Own = Callable[..., ProcessCluster]


@pytest.fixture
def pipe(own_cluster: Own, kafka: Broker, tmp_path: Path) -> Iterator[tuple[Pipe, ProcessCluster]]:
    """A worker that delivers exactly once, and a file that is not read yet."""
    cluster = own_cluster(ENABLED)
    cluster.start(1)
    made = Pipe(cluster.workers[0], tmp_path)
    create_topic(kafka.bootstrap, made.topic)
    yield made, cluster
    made.source_file.unlink(missing_ok=True)


def committed(bootstrap: str, topic: str) -> Iterator[bytes]:
    """Every value of partition 0 that is committed by now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        for message in consumer.consume(10_000, 1.0):
            error = message.error()
            if error is None:
                yield message.value() or b""
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                consumer.close()
                return
    raise AssertionError("the topic has no end")


def end_of(bootstrap: str, topic: str, *, level: str = "read_uncommitted") -> int:
    """Where partition 0 ends, with what is not committed or without."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "isolation.level": level})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.close()
    return end


def ends_behind(bootstrap: str, topic: str, wanted: int) -> bool:
    """Tell whether partition 0 has more than the given number of records, committed or not."""
    return end_of(bootstrap, topic) > wanted


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_worker_that_is_killed_repeats_nothing_and_loses_nothing(
    pipe: tuple[Pipe, ProcessCluster], kafka: Broker, kills: int
) -> None:
    made, cluster = pipe
    [worker] = cluster.workers
    made.write(LINES)
    worker.create(made.source, made.source_config | {"producer.override.compression.type": "none"})
    for _ in range(kills):
        wanted = end_of(kafka.bootstrap, made.topic) + GROWN
        worker.wait_until("records came", partial(ends_behind, kafka.bootstrap, made.topic, wanted))
        worker.kill()
        cluster.start_dead()
    worker.wait_for_states(made.source, RUNNING)
    offset = made.source_file.stat().st_size

    def stored() -> bool:
        offsets = worker.get(f"/connectors/{made.source}/offsets").body["offsets"]
        return bool(offsets) and offsets[0]["offset"] == {"position": offset}

    worker.wait_until("the file was through", stored, timeout_s=240)
    lines = [f"{number:010d}{PADDING}".encode() for number in range(LINES)]
    assert list(committed(kafka.bootstrap, made.topic)) == lines
    assert end_of(kafka.bootstrap, made.topic) > LINES, "kills took records back"


def test_pause_stop_and_altered_offsets(pipe: tuple[Pipe, ProcessCluster], kafka: Broker) -> None:
    made, cluster = pipe
    [worker] = cluster.workers
    made.write(10)
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "600000"}
    worker.create(made.source, {**made.source_config, **interval})
    worker.wait_until("records came", lambda: end_of(kafka.bootstrap, made.topic) == 10)
    assert list(committed(kafka.bootstrap, made.topic)) == []
    worker.ask("PUT", f"/connectors/{made.source}/pause")
    worker.wait_for_states(made.source, ["PAUSED", "PAUSED"])
    assert len(list(committed(kafka.bootstrap, made.topic))) == 10
    worker.ask("PUT", f"/connectors/{made.source}/resume")
    worker.wait_for_states(made.source, RUNNING)
    made.write(10)
    worker.wait_until("records came", lambda: end_of(kafka.bootstrap, made.topic) == 21)
    worker.ask("PUT", f"/connectors/{made.source}/stop")
    worker.wait_for_states(made.source, ["STOPPED"])
    worker.wait_until("it was committed", lambda: len(list(committed(kafka.bootstrap, made.topic))) == 20)
    partition = {"filename": str(made.source_file)}
    body = {"offsets": [{"partition": partition, "offset": {"position": 84 * 19}}]}
    worker.ask("PATCH", f"/connectors/{made.source}/offsets", body)
    assert worker.get(f"/connectors/{made.source}/offsets").body == body
    worker.ask("PUT", f"/connectors/{made.source}/resume")
    worker.wait_until("a record came", lambda: end_of(kafka.bootstrap, made.topic) > 22)
    worker.ask("PUT", f"/connectors/{made.source}/stop")
    worker.wait_until("it was read again", lambda: len(list(committed(kafka.bootstrap, made.topic))) == 21)
    worker.wait_for_states(made.source, ["STOPPED"])
    worker.ask("DELETE", f"/connectors/{made.source}/offsets")
    assert worker.get(f"/connectors/{made.source}/offsets").body == {"offsets": []}
    assert worker.end() == 0

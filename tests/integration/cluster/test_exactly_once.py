"""Tests for source connectors with exactly-once support: each line of a file is committed exactly once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kraal.broker.broker import Broker
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import SourcePartition
from kraal.protocol.offsets import encode_key, encode_value
from kraal.testing import ProcessCluster
from tests.fakes.spark.pipe import PADDING, RUNNING, Pipe, create_topic

pytestmark = pytest.mark.ci

EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}
LINE_COUNT = 600_000
TRANSACTION_RECORDS = 20_000
"""Number of further records (committed or not) to wait for before a kill, so that a transaction is open."""

MakeCluster = Callable[..., ProcessCluster]


@pytest.fixture
def pipe_and_cluster(
    make_cluster: MakeCluster, kafka: Broker, tmp_path: Path
) -> Iterator[tuple[Pipe, ProcessCluster]]:
    """Start a worker with exactly-once support, and define a pipe without creating its connectors."""
    cluster = make_cluster(EXACTLY_ONCE)
    cluster.start(1)
    pipe = Pipe(cluster.workers[0], tmp_path)
    create_topic(kafka.bootstrap, pipe.topic)
    yield pipe, cluster
    pipe.source_file.unlink(missing_ok=True)


def committed_values(bootstrap: str, topic: str) -> Iterator[bytes]:
    """Yield all committed values of partition 0."""
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
    raise AssertionError("the end of the topic was not reached")


def end_offset(bootstrap: str, topic: str, *, level: str = "read_uncommitted") -> int:
    """Return the end offset of partition 0, with or without uncommitted records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "isolation.level": level})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.close()
    return end


def has_more_records(bootstrap: str, topic: str, count: int) -> bool:
    """Return whether partition 0 has more than `count` records, committed or not."""
    return end_offset(bootstrap, topic) > count


def has_no_open_transaction(bootstrap: str, topic: str) -> bool:
    """Return whether partition 0 has no open transaction. A marker may be written after the commit returns."""
    return end_offset(bootstrap, topic, level="read_committed") == end_offset(bootstrap, topic)


@pytest.mark.releases
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_killed_worker_neither_duplicates_nor_loses_records(
    pipe_and_cluster: tuple[Pipe, ProcessCluster], kafka: Broker, kills: int
) -> None:
    pipe, cluster = pipe_and_cluster
    [worker] = cluster.workers
    pipe.write(LINE_COUNT)
    worker.create(pipe.source, pipe.source_config | {"producer.override.compression.type": "none"})
    for _ in range(kills):
        count = end_offset(kafka.bootstrap, pipe.topic) + TRANSACTION_RECORDS
        worker.wait_until("records arrived", partial(has_more_records, kafka.bootstrap, pipe.topic, count))
        worker.kill()
        cluster.start_dead()
    worker.wait_for_states(pipe.source, RUNNING)
    file_size = pipe.source_file.stat().st_size

    def is_stored() -> bool:
        offsets = worker.get(f"/connectors/{pipe.source}/offsets").body["offsets"]
        return bool(offsets) and offsets[0]["offset"] == {"position": file_size}

    worker.wait_until("the offset at the end of the file was stored", is_stored, timeout_s=240)
    worker.wait_until(
        "all transactions had ended", lambda: has_no_open_transaction(kafka.bootstrap, pipe.topic)
    )
    lines = [f"{number:010d}{PADDING}".encode() for number in range(LINE_COUNT)]
    assert list(committed_values(kafka.bootstrap, pipe.topic)) == lines
    assert end_offset(kafka.bootstrap, pipe.topic) > LINE_COUNT, "transaction markers must also have offsets"


def test_interval_transaction_is_committed_by_pause_and_stop(
    pipe_and_cluster: tuple[Pipe, ProcessCluster], kafka: Broker
) -> None:
    pipe, cluster = pipe_and_cluster
    [worker] = cluster.workers
    pipe.write(10)
    interval_config = {
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "600000",
        "producer.override.transaction.timeout.ms": "600000",
    }
    worker.create(pipe.source, {**pipe.source_config, **interval_config})
    worker.wait_until("records arrived", lambda: end_offset(kafka.bootstrap, pipe.topic) == 10)
    assert list(committed_values(kafka.bootstrap, pipe.topic)) == []
    worker.ask("PUT", f"/connectors/{pipe.source}/pause")
    worker.wait_for_states(pipe.source, ["PAUSED", "PAUSED"])
    worker.wait_until(
        "the transaction had ended", lambda: has_no_open_transaction(kafka.bootstrap, pipe.topic)
    )
    assert len(list(committed_values(kafka.bootstrap, pipe.topic))) == 10
    worker.ask("PUT", f"/connectors/{pipe.source}/resume")
    worker.wait_for_states(pipe.source, RUNNING)
    pipe.write(10)
    worker.wait_until("records arrived", lambda: end_offset(kafka.bootstrap, pipe.topic) == 21)
    worker.ask("PUT", f"/connectors/{pipe.source}/stop")
    worker.wait_for_states(pipe.source, ["STOPPED"])
    worker.wait_until(
        "the records were committed", lambda: len(list(committed_values(kafka.bootstrap, pipe.topic))) == 20
    )
    partition = {"filename": str(pipe.source_file)}
    body = {"offsets": [{"partition": partition, "offset": {"position": 84 * 19}}]}
    worker.ask("PATCH", f"/connectors/{pipe.source}/offsets", body)
    assert worker.get(f"/connectors/{pipe.source}/offsets").body == body
    worker.ask("PUT", f"/connectors/{pipe.source}/resume")
    worker.wait_until("a record arrived", lambda: end_offset(kafka.bootstrap, pipe.topic) > 22)
    worker.ask("PUT", f"/connectors/{pipe.source}/stop")
    worker.wait_until(
        "the record was read again", lambda: len(list(committed_values(kafka.bootstrap, pipe.topic))) == 21
    )
    worker.wait_for_states(pipe.source, ["STOPPED"])
    worker.ask("DELETE", f"/connectors/{pipe.source}/offsets")
    assert worker.get(f"/connectors/{pipe.source}/offsets").body == {"offsets": []}
    assert worker.end() == 0


def open_transaction(cluster: ProcessCluster, task: TaskId, seqno: int) -> Producer:
    """Return a producer with the transactional id of a task, and with an open transaction that contains an offset."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": f"{cluster.group}-{task}"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    key = encode_key(task.connector, SourcePartition.of({"id": task.task}))
    producer.produce(f"{cluster.group}-offset", key=key, value=encode_value({"seqno": seqno}))
    assert producer.flush(30) == 0
    return producer


@pytest.mark.slow
def test_creation_with_initial_offsets_fences_tasks_of_a_deleted_connector(
    make_cluster: MakeCluster, kafka: Broker
) -> None:
    cluster = make_cluster(EXACTLY_ONCE)
    cluster.start(1)
    [worker] = cluster.workers
    name = ConnectorName(f"numbers-{uuid.uuid4().hex[:8]}")
    config = {"connector.class": "VerifiableSource", "tasks.max": "2", "topic": name, "throughput": "1"}
    create_topic(kafka.bootstrap, name)
    worker.create(name, config)
    worker.wait_for_states(name, [*RUNNING, "RUNNING"])
    assert worker.ask("DELETE", f"/connectors/{name}").status == 204
    worker.wait_until("the connector was deleted", lambda: worker.get("/connectors").body == [])
    old_producers = [open_transaction(cluster, TaskId(name, number), 99) for number in range(2)]
    offsets = [{"partition": {"id": number}, "offset": {"seqno": 7}} for number in range(2)]
    body = {"name": name, "config": config, "initial_state": "STOPPED", "initial_offsets": offsets}
    assert worker.ask("POST", "/connectors", body).status == 201
    for producer in old_producers:
        with pytest.raises(KafkaException) as caught:
            producer.commit_transaction(30)
        assert caught.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    stored_offsets = worker.get(f"/connectors/{name}/offsets").body["offsets"]
    assert sorted(stored_offsets, key=str) == offsets
    assert worker.end() == 0

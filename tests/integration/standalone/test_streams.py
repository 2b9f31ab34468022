"""Tests that a source of a stream-only format loses no records when it is paused or its worker is killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import RUNNING, create_topic
from tests.fakes.workers.examples import example

NAME = "ticks"


def read_values(kafka: Broker) -> list[int]:
    """Return all values in the topic, sorted."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "none"})
    partition = TopicPartition(NAME, 0, 0)
    consumer.assign([partition])
    _, end = consumer.get_watermark_offsets(partition, timeout=30)
    values: list[int] = []
    while len(values) < end:
        values += [
            json.loads(message.value() or b"")["value"]
            for message in consumer.consume(end, 5)
            if not message.error()
        ]
    consumer.close()
    return sorted(values)


def read_stored_batch(worker: WorkerProcess) -> int:
    """Return the batch number in the connector's stored offset, or -1 if no offset is stored."""
    offsets: list[Any] = worker.get(f"/connectors/{NAME}/offsets").body["offsets"]
    return int(offsets[0]["offset"]["batch"]) if offsets else -1


def wait_for_batches(worker: WorkerProcess, batches: int = 2) -> None:
    """Wait until the offsets of `batches` further batches have been stored."""
    last = read_stored_batch(worker) + batches
    worker.wait_until(f"batch {last} was stored", lambda: read_stored_batch(worker) >= last)


@pytest.mark.slow
def test_stream_survives_pause_kill_and_restart(
    make_worker: Callable[..., WorkerProcess], kafka: Broker, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    config = example("spark-source-rate", {"checkpoint.location": str(checkpoint)})
    create_topic(kafka.bootstrap, NAME)
    worker = make_worker()
    worker.start()
    worker.create(NAME, {"name": NAME, **config})
    worker.wait_for_states(NAME, RUNNING)
    wait_for_batches(worker)

    for _ in range(2):
        assert worker.put(f"/connectors/{NAME}/pause").status == 202
        worker.wait_for_states(NAME, ["PAUSED", "PAUSED"])
        paused_batch, values = read_stored_batch(worker), read_values(kafka)
        assert values == list(range(len(values)))
        assert worker.put(f"/connectors/{NAME}/resume").status == 202
        worker.wait_for_states(NAME, RUNNING)
        wait_for_batches(worker)
        assert read_stored_batch(worker) > paused_batch
    assert worker.get(f"/connectors/{NAME}/topics").body == {NAME: {"topics": [NAME]}}

    worker.kill()
    worker.start()
    worker.wait_for_states(NAME, RUNNING)
    wait_for_batches(worker)
    assert worker.put(f"/connectors/{NAME}/stop").status == 204
    worker.wait_until("the connector was stopped", lambda: worker.states(NAME) == ["STOPPED"])
    values = read_values(kafka)
    assert sorted(set(values)) == list(range(values[-1] + 1))

    response = worker.delete(f"/connectors/{NAME}/offsets")
    assert response.status == 400
    assert f"delete {checkpoint} first" in response.body["message"]
    checkpoint.rename(tmp_path / "old")
    assert worker.delete(f"/connectors/{NAME}/offsets").status == 200
    assert worker.put(f"/connectors/{NAME}/resume").status == 202
    worker.wait_for_states(NAME, RUNNING)
    worker.wait_until("the stream restarted", lambda: read_values(kafka).count(0) == 2)
    assert "There was an exception while executing the Python Proxy" not in worker.log_text()
    assert worker.end() == 0

"""A format that is only a stream over REST: pause, resume, offsets, and a worker that is killed; no number is lost."""

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


def numbers(kafka: Broker) -> list[int]:
    """Return all that is in the topic, sorted."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "none"})
    place = TopicPartition(NAME, 0, 0)
    consumer.assign([place])
    _, end = consumer.get_watermark_offsets(place, timeout=30)
    found: list[int] = []
    while len(found) < end:
        found += [
            json.loads(each.value() or b"")["value"] for each in consumer.consume(end, 5) if not each.error()
        ]
    consumer.close()
    return sorted(found)


def stored(worker: WorkerProcess) -> int:
    """Return the last batch that REST shows; -1: none."""
    offsets: list[Any] = worker.get(f"/connectors/{NAME}/offsets").body["offsets"]
    return int(offsets[0]["offset"]["batch"]) if offsets else -1


def go_on(worker: WorkerProcess, batches: int = 2) -> None:
    """Wait until the given number of further batches were stored."""
    last = stored(worker) + batches
    worker.wait_until(f"batch {last} was stored", lambda: stored(worker) >= last)


@pytest.mark.slow
def test_a_stream_is_paused_resumed_killed_and_restarted(
    own_worker: Callable[..., WorkerProcess], kafka: Broker, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    config = example("spark-source-rate", {"checkpoint.location": str(checkpoint)})
    create_topic(kafka.bootstrap, NAME)
    worker = own_worker()
    worker.start()
    worker.create(NAME, {"name": NAME, **config})
    worker.wait_for_states(NAME, RUNNING)
    go_on(worker)

    for _ in range(2):
        assert worker.put(f"/connectors/{NAME}/pause").status == 202
        worker.wait_for_states(NAME, ["PAUSED", "PAUSED"])
        paused, found = stored(worker), numbers(kafka)
        assert found == list(range(len(found)))
        assert worker.put(f"/connectors/{NAME}/resume").status == 202
        worker.wait_for_states(NAME, RUNNING)
        go_on(worker)
        assert stored(worker) > paused
    assert worker.get(f"/connectors/{NAME}/topics").body == {NAME: {"topics": [NAME]}}

    worker.kill()
    worker.start()
    worker.wait_for_states(NAME, RUNNING)
    go_on(worker)
    assert worker.put(f"/connectors/{NAME}/stop").status == 204
    worker.wait_until("it was stopped", lambda: worker.states(NAME) == ["STOPPED"])
    found = numbers(kafka)
    assert sorted(set(found)) == list(range(found[-1] + 1))

    refused = worker.delete(f"/connectors/{NAME}/offsets")
    assert refused.status == 400
    assert f"delete {checkpoint} first" in refused.body["message"]
    checkpoint.rename(tmp_path / "old")
    assert worker.delete(f"/connectors/{NAME}/offsets").status == 200
    assert worker.put(f"/connectors/{NAME}/resume").status == 202
    worker.wait_for_states(NAME, RUNNING)
    worker.wait_until("it began anew", lambda: numbers(kafka).count(0) == 2)
    assert "There was an exception while executing the Python Proxy" not in worker.log_text()
    assert worker.end() == 0

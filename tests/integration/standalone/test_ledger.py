"""Tests for the ledger of a worker with a real broker: totals, a kill, and offsets that were moved back."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import httpx2
import psutil
import pytest

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import create_topic

pytestmark = [pytest.mark.ci, pytest.mark.timeout(300)]

FIRST, SECOND, THIRD = 3000, 40, 7
PROPERTIES = {"consumer.session.timeout.ms": "6000"}


def produce(kafka: Broker, topic: str, count: int) -> None:
    producer = ck.Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(count):
        producer.produce(topic, f"{number}".encode(), partition=number % 2)
    assert producer.flush(30) == 0


def ledger(worker: WorkerProcess, name: str) -> Mapping[str, Any]:
    response = worker.get(f"/connectors/{name}/ledger")
    assert response.status == 200, response
    body: Mapping[str, Any] = response.body
    assert body["problem"] is None
    return body


def totals(worker: WorkerProcess, name: str) -> tuple[int, int, int]:
    """Return the numbers of records that were read and written, and of breaks of the law."""
    tasks = ledger(worker, name)["tasks"]
    names = ("read", "written", "break_count")
    read, written, breaks = (sum(task[field] for task in tasks) for field in names)
    return read, written, breaks


def count_uncounted(worker: WorkerProcess, name: str) -> int:
    """Return the number of offsets in the uncounted ranges of a sink."""
    partitions = ledger(worker, name)["partitions"]
    return sum(each["end"] - each["start"] for part in partitions for each in part["uncounted"])


def count_partitions(file: Path, name: str) -> int:
    """Return the number of a connector's partitions in the file of a ledger."""
    key = rb'\["%s",\{[^}]*\}\]' % name.encode()
    return len(set(re.findall(key, file.read_bytes()))) if file.exists() else 0


def test_totals_equal_the_records_and_a_kill_leaves_at_most_an_uncounted_range(
    kafka: Broker, make_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    file = tmp_path / "ledger"
    worker = make_worker(properties={**PROPERTIES, "ledger.storage.file.filename": str(file)})
    worker.start()
    topic = name = f"ledger-{uuid.uuid4().hex[:8]}"
    create_topic(kafka.bootstrap, topic, partitions=2)
    produce(kafka, topic, FIRST)
    config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": topic}
    worker.create(name, {"name": name, **config, "consumer.override.auto.offset.reset": "earliest"})
    worker.wait_until("the backlog is counted", lambda: totals(worker, name)[0] >= FIRST)
    assert totals(worker, name) == (FIRST, FIRST, 0)
    produce(kafka, topic, SECOND)
    count = FIRST + SECOND
    worker.wait_until("few records are counted", lambda: totals(worker, name)[0] >= count)
    assert totals(worker, name) == (count, count, 0)
    metrics = httpx2.get(f"{worker.url}/metrics", timeout=30).text
    label = f'connector="{name}",task="0"'
    assert f'kraal_delivery_records{{{label},outcome="written"}} {count}\n' in metrics
    assert f"kraal_delivery_law_breaks{{{label}}} 0\n" in metrics

    worker.wait_until("the totals of both partitions are written", lambda: count_partitions(file, name) == 2)
    produce(kafka, topic, THIRD)
    psutil.wait_procs(worker.kill(), timeout=120)
    worker.start()
    produce(kafka, topic, THIRD)
    count += 2 * THIRD
    worker.wait_until(
        "the records after the kill are counted or named",
        lambda: totals(worker, name)[0] + count_uncounted(worker, name) >= count,
        timeout_s=120,
    )
    read, written, breaks = totals(worker, name)
    repeated = sum(part["repeated"] for part in ledger(worker, name)["partitions"])
    uncounted = count_uncounted(worker, name)
    assert (read + uncounted - repeated, breaks) == (count, 0)
    assert read == written

    worker.ask("PUT", f"/connectors/{name}/stop")
    worker.wait_for_states(name, ["STOPPED"])
    offsets = [{"partition": {"kafka_topic": topic, "kafka_partition": 0}, "offset": {"kafka_offset": 5}}]
    worker.wait_until(
        "the group is empty",
        lambda: worker.ask("PATCH", f"/connectors/{name}/offsets", {"offsets": offsets}).status == 200,
    )
    end = next(
        each["end"] for each in ledger(worker, name)["partitions"] if not each["partition"]["kafka_partition"]
    )
    worker.ask("PUT", f"/connectors/{name}/resume")
    worker.wait_until("the records are counted again", lambda: totals(worker, name)[0] >= read + end - 5)
    assert totals(worker, name) == (read + end - 5, read + end - 5, 0)
    repeated_again = sum(part["repeated"] for part in ledger(worker, name)["partitions"]) - repeated
    assert repeated_again + uncounted - count_uncounted(worker, name) == end - 5


def test_ledger_file_that_cannot_be_opened_does_not_stop_delivery(
    kafka: Broker, make_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    directory = tmp_path / "a directory"
    directory.mkdir()
    worker = make_worker(properties={**PROPERTIES, "ledger.storage.file.filename": str(directory)})
    worker.start()
    topic = name = f"ledger-{uuid.uuid4().hex[:8]}"
    create_topic(kafka.bootstrap, topic)
    source_file = tmp_path / "in"
    source_file.write_text("a\nb\nc\n")
    config = {"connector.class": "FileStreamSource", "file": str(source_file), "topic": topic}
    worker.create(name, {"name": name, **config})
    worker.wait_until(
        "the lines are counted",
        lambda: worker.get(f"/connectors/{name}/ledger").body["tasks"][:1] != [],
    )
    body = worker.get(f"/connectors/{name}/ledger").body
    assert (body["tasks"][0]["read"], body["tasks"][0]["written"]) == (3, 3)
    assert "cannot open the log 'ledger'" in body["problem"]
    worker.wait_until("the problem is logged", lambda: "The ledger is unavailable" in worker.log_text())
    assert worker.end() == 0
    assert worker.log_text().count("The ledger is unavailable") == 1

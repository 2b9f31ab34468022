"""Real Java Connect's worker and Kraal's write the same lines of the same records, through chains of transforms."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from tests.differential.causes import cause_of
from tests.differential.chains import SINKS, Chained
from tests.fakes.spark.pipe import create_topic

pytestmark = pytest.mark.ci

LOOK_S: Final = 0.1
PATIENCE_S: Final = 120.0
TIME_MS: Final = 1_700_000_000_123
DATA: Final = "org.apache.kafka.connect.errors.DataException: "
READ: Final = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}


@dataclass(frozen=True)
class Written:
    """What a worker wrote of a chain's records."""

    lines: bytes
    states: Sequence[str]
    trace: str


@pytest.fixture(scope="module")
def written(
    pair: tuple[WorkerProcess, WorkerProcess], kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Written], dict[str, Written]]:
    """What Java and Kraal wrote of each chain."""
    directory, run = tmp_path_factory.mktemp("lines"), f"s{uuid.uuid4().hex[:6]}"
    topics = {chain.name: f"{run}-{number:02}" for number, chain in enumerate(SINKS)}
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, "log_level": 2})
    for chain in SINKS:
        create_topic(kafka.bootstrap, topics[chain.name])
        for number, value in enumerate(chain.lines):
            headers: list[Any] = [("h", b'"odd"')] if number % 2 else []
            data = None if value == "null" else value.encode()
            producer.produce(topics[chain.name], data, b'"k"', 0, timestamp=TIME_MS + number, headers=headers)
    assert producer.flush(30) == 0
    java, kraal = (_write(worker, topics, directory / side) for worker, side in zip(pair, "jk", strict=True))
    return java, kraal


def _write(worker: WorkerProcess, topics: dict[str, str], directory: Path) -> dict[str, Written]:
    directory.mkdir()
    names = {
        chain: f"{topic}-{directory.name}" for chain, topic in topics.items()
    }  # each with a group of its own
    for chain in SINKS:
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(directory / names[chain.name]),
            "topics": topics[chain.name],
            "consumer.override.auto.offset.reset": "earliest",
            **chain.settings,
            **READ,
        }
        answer = worker.create(names[chain.name], config)
        assert answer.status == 201, answer
    found = {}
    for chain in SINKS:
        name = names[chain.name]
        deadline = time.monotonic() + PATIENCE_S
        while not _is_through(worker, name, len(chain.lines)):
            assert time.monotonic() < deadline, f"{chain.name} is not through\n{worker.evidence()}"
            time.sleep(LOOK_S)
        file = directory / name
        found[chain.name] = Written(
            lines=file.read_bytes() if file.exists() else b"",
            states=worker.states(name),
            trace="\n".join(worker.traces(name)),
        )
    return found


def _is_through(worker: WorkerProcess, name: str, count: int) -> bool:
    """Whether the task has failed, or all records are committed."""
    if "FAILED" in worker.states(name)[1:]:
        return True
    offsets = worker.get(f"/connectors/{name}/offsets").body["offsets"]
    return [each["offset"] for each in offsets] == [{"kafka_offset": count}]


@pytest.mark.parametrize("chain", [pytest.param(each, id=each.name) for each in SINKS])
def test_java_and_kraal_write_the_same_lines(
    written: tuple[dict[str, Written], dict[str, Written]], chain: Chained
) -> None:
    java, kraal = (side[chain.name] for side in written)
    assert kraal.states == java.states
    assert kraal.lines == java.lines
    cause = cause_of(java.trace).removeprefix(DATA)  # Kraal's trace has none if only columns refuse
    assert bool(cause) == ("FAILED" in java.states)
    assert cause in kraal.trace


def test_some_write_lines_and_some_fail(written: tuple[dict[str, Written], dict[str, Written]]) -> None:
    java, _ = written
    assert sum(bool(each.lines) for each in java.values()) >= 10
    assert sum("FAILED" in each.states for each in java.values()) >= 3

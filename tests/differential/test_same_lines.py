"""Tests that Java and Kraal sinks write the same lines for the same records and transform chains."""

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
from tests.differential.causes import extract_cause
from tests.differential.chains import SINKS, ChainCase
from tests.fakes.spark.pipe import create_topic

pytestmark = pytest.mark.ci

POLL_INTERVAL_S: Final = 0.1
TIMEOUT_S: Final = 120.0
TIME_MS: Final = 1_700_000_000_123
DATA_EXCEPTION_PREFIX: Final = "org.apache.kafka.connect.errors.DataException: "
READ_CONVERTERS: Final = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}


@dataclass(frozen=True)
class SinkOutput:
    """The output of a worker for a chain."""

    lines: bytes
    states: Sequence[str]
    trace: str


@pytest.fixture(scope="module")
def outputs(
    pair: tuple[WorkerProcess, WorkerProcess], kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, SinkOutput], dict[str, SinkOutput]]:
    """Run all chains on both workers; return the output of Java and of Kraal."""
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
    java, kraal = (
        _run_sinks(worker, topics, directory / side) for worker, side in zip(pair, "jk", strict=True)
    )
    return java, kraal


def _run_sinks(worker: WorkerProcess, topics: dict[str, str], directory: Path) -> dict[str, SinkOutput]:
    directory.mkdir()
    names = {
        chain: f"{topic}-{directory.name}" for chain, topic in topics.items()
    }  # each connector has its own consumer group
    for chain in SINKS:
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(directory / names[chain.name]),
            "topics": topics[chain.name],
            "consumer.override.auto.offset.reset": "earliest",
            **chain.settings,
            **READ_CONVERTERS,
        }
        response = worker.create(names[chain.name], config)
        assert response.status == 201, response
    results = {}
    for chain in SINKS:
        name = names[chain.name]
        deadline = time.monotonic() + TIMEOUT_S
        while not _is_complete(worker, name, len(chain.lines)):
            assert time.monotonic() < deadline, f"{chain.name} is not complete\n{worker.evidence()}"
            time.sleep(POLL_INTERVAL_S)
        file = directory / name
        results[chain.name] = SinkOutput(
            lines=file.read_bytes() if file.exists() else b"",
            states=worker.states(name),
            trace="\n".join(worker.traces(name)),
        )
    return results


def _is_complete(worker: WorkerProcess, name: str, count: int) -> bool:
    """Return whether the task has failed or committed all records."""
    if "FAILED" in worker.states(name)[1:]:
        return True
    offsets = worker.get(f"/connectors/{name}/offsets").body["offsets"]
    return [entry["offset"] for entry in offsets] == [{"kafka_offset": count}]


@pytest.mark.parametrize("chain", [pytest.param(chain, id=chain.name) for chain in SINKS])
def test_java_and_kraal_sinks_write_equal_lines(
    outputs: tuple[dict[str, SinkOutput], dict[str, SinkOutput]], chain: ChainCase
) -> None:
    java, kraal = (side[chain.name] for side in outputs)
    assert kraal.states == java.states
    assert kraal.lines == java.lines
    cause = extract_cause(java.trace).removeprefix(
        DATA_EXCEPTION_PREFIX
    )  # Kraal's trace has no cause if only the column path failed
    assert bool(cause) == ("FAILED" in java.states)
    assert cause in kraal.trace


def test_chains_cover_successes_and_failures(
    outputs: tuple[dict[str, SinkOutput], dict[str, SinkOutput]],
) -> None:
    java, _ = outputs
    assert sum(bool(result.lines) for result in java.values()) >= 10
    assert sum("FAILED" in result.states for result in java.values()) >= 3

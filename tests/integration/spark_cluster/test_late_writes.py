"""Tests that unsent records in the producers of executors are not written after the task has ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraal.broker.broker import HOST
from kraal.testing.process import WorkerProcess
from scripts.chaos_run.proxy import Mode
from tests.integration.spark_cluster.environment import SparkEnvironment, wait_until

pytestmark = pytest.mark.slow  # 60 s in total

LINE_COUNT = 100


@pytest.fixture(scope="module")
def worker(environment: SparkEnvironment) -> WorkerProcess:
    """Return the worker of the module."""
    process = environment.worker("late", {"spark.cores.max": "1"})  # so that one producer has all records
    process.start()
    return process


class HangingConnector:
    """A connector whose records from the second file are stuck in disconnected producers of executors."""

    def __init__(self, environment: SparkEnvironment, worker: WorkerProcess, name: str) -> None:
        self.environment, self.worker, self.name, self.topic = environment, worker, name, f"{name}-rows"
        self._folder = environment.create_shared_folder(name)
        environment.proxy.set_mode(Mode.STRAIGHT)
        self.write("a")
        config = {
            "connector.class": "SparkSource",
            "spark.format": "text",
            "path": str(self._folder),
            "topic": self.topic,
            "producer.override.bootstrap.servers": f"{HOST}:{environment.proxy.port}",
        }
        worker.create(name, config)
        environment.wait_for_values(worker, self.topic, LINE_COUNT)
        environment.proxy.set_mode(Mode.CUT)
        self.write("b")
        wait_until(lambda: "awaitFlushCompletion" in environment.threads(), "a task waited for its producer")

    def write(self, letter: str) -> None:
        hidden_file = self._folder / f".{letter}"
        hidden_file.write_text("".join(f"{letter}{number}\n" for number in range(LINE_COUNT)))
        hidden_file.rename(self._folder / letter)

    def has_producer(self) -> bool:
        """Return whether an executor has the task's producer."""
        return (
            f"kafka-producer-network-thread | connector-producer-{self.name}-0" in self.environment.threads()
        )

    def reconnect(self) -> None:
        """Reconnect the executors, and write a record with another client."""
        self.environment.proxy.set_mode(Mode.STRAIGHT)
        self.environment.produce(self.topic, [b"new"])


def lines(letter: str) -> list[bytes]:
    return [f"{letter}{number}".encode() for number in range(LINE_COUNT)]


@pytest.fixture(autouse=True)
def _reconnected(environment: SparkEnvironment) -> Iterator[None]:
    yield
    environment.proxy.set_mode(Mode.STRAIGHT)


def test_deleted_connector_writes_no_records_afterwards(
    environment: SparkEnvironment, worker: WorkerProcess
) -> None:
    hanging_connector = HangingConnector(environment, worker, "deleted")
    worker.delete(f"/connectors/{hanging_connector.name}")
    wait_until(lambda: not hanging_connector.has_producer(), "the executors' producers were closed")
    hanging_connector.reconnect()
    # Records of the next connector prove that the executors can reach the broker again.
    HangingConnector(environment, worker, "witness")
    assert environment.values(hanging_connector.topic) == [*lines("a"), b"new"]
    worker.delete("/connectors/witness")


def test_executors_close_producers_of_a_frozen_driver(
    environment: SparkEnvironment, worker: WorkerProcess
) -> None:
    hanging_connector = HangingConnector(environment, worker, "frozen")
    frozen_processes = worker.tree()
    for process in frozen_processes:
        process.suspend()
    try:
        wait_until(lambda: not hanging_connector.has_producer(), "the executors' producers were closed", 60.0)
        hanging_connector.reconnect()
    finally:
        for process in frozen_processes:
            process.resume()
    environment.wait_for_values(worker, hanging_connector.topic, 2 * LINE_COUNT + 1)
    assert environment.values(hanging_connector.topic)[: LINE_COUNT + 1] == [*lines("a"), b"new"]
    assert set(environment.values(hanging_connector.topic)[LINE_COUNT + 1 :]) == set(lines("b"))

"""Unsent records in the producers of executors are not written after the task has ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraal.broker.broker import HOST
from kraal.testing.process import WorkerProcess
from scripts.chaos_run.proxy import Mode
from tests.integration.spark_cluster.place import Place, until

pytestmark = pytest.mark.slow  # 60 s in total

COUNT = 100


@pytest.fixture(scope="module")
def worker(place: Place) -> WorkerProcess:
    """Return the worker of the module."""
    made = place.worker("late", {"spark.cores.max": "1"})  # so that one producer has all records
    made.start()
    return made


class Hanging:
    """A connector whose second file is stuck in disconnected producers of executors."""

    def __init__(self, place: Place, worker: WorkerProcess, name: str) -> None:
        self.place, self.worker, self.name, self.topic = place, worker, name, f"{name}-rows"
        self._folder = place.shared(name)
        place.proxy.set_mode(Mode.STRAIGHT)
        self.write("a")
        config = {
            "connector.class": "SparkSource",
            "spark.format": "text",
            "path": str(self._folder),
            "topic": self.topic,
            "producer.override.bootstrap.servers": f"{HOST}:{place.proxy.port}",
        }
        worker.create(name, config)
        place.wait_for_values(worker, self.topic, COUNT)
        place.proxy.set_mode(Mode.CUT)
        self.write("b")
        until(lambda: "awaitFlushCompletion" in place.threads(), "a task waited for its producer")

    def write(self, letter: str) -> None:
        hidden = self._folder / f".{letter}"
        hidden.write_text("".join(f"{letter}{number}\n" for number in range(COUNT)))
        hidden.rename(self._folder / letter)

    def has_producer(self) -> bool:
        """Return whether an executor has the task's producer."""
        return f"kafka-producer-network-thread | connector-producer-{self.name}-0" in self.place.threads()

    def heal(self) -> None:
        """Reconnect the executors; then another client writes."""
        self.place.proxy.set_mode(Mode.STRAIGHT)
        self.place.produce(self.topic, [b"new"])


def lines(letter: str) -> list[bytes]:
    return [f"{letter}{number}".encode() for number in range(COUNT)]


@pytest.fixture(autouse=True)
def _reconnected(place: Place) -> Iterator[None]:
    yield
    place.proxy.set_mode(Mode.STRAIGHT)


def test_deleted_connector_writes_no_records_afterwards(place: Place, worker: WorkerProcess) -> None:
    hanging = Hanging(place, worker, "deleted")
    worker.delete(f"/connectors/{hanging.name}")
    until(lambda: not hanging.has_producer(), "the executors' producers were closed")
    hanging.heal()
    # Records of the next connector prove that the executors can reach the broker again.
    Hanging(place, worker, "witness")
    assert place.values(hanging.topic) == [*lines("a"), b"new"]
    worker.delete("/connectors/witness")


def test_executors_close_producers_of_a_frozen_driver(place: Place, worker: WorkerProcess) -> None:
    hanging = Hanging(place, worker, "frozen")
    stopped = worker.tree()
    for process in stopped:
        process.suspend()
    try:
        until(lambda: not hanging.has_producer(), "the executors' producers were closed", 60.0)
        hanging.heal()
    finally:
        for process in stopped:
            process.resume()
    place.wait_for_values(worker, hanging.topic, 2 * COUNT + 1)
    assert place.values(hanging.topic)[: COUNT + 1] == [*lines("a"), b"new"]
    assert set(place.values(hanging.topic)[COUNT + 1 :]) == set(lines("b"))

"""Kraal workers that share a Spark cluster use their configured cores, and take over tasks of each other."""

from __future__ import annotations

from typing import Any

import pytest

from kraal.testing.process import WorkerProcess
from tests.integration.spark_cluster.place import CORES, Place, until

pytestmark = pytest.mark.slow  # four minutes on a busy machine

COUNT = 1_000
NAMES = ("one", "two")
SOON = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "2000",
    "scheduled.rebalance.max.delay.ms": "0",
}


def write(place: Place, name: str, number: int) -> None:
    """Add a file of lines."""
    folder = place.directory / "shared" / name
    hidden = folder / f".{number}"
    hidden.write_text("".join(f"{line:08d}\n" for line in range(number * COUNT, (number + 1) * COUNT)))
    hidden.rename(folder / str(number))


def applications(place: Place) -> list[int]:
    """Return the number of cores of each application."""
    return sorted(each["cores"] for each in place.cluster.state()["activeapps"])


def owner(worker: WorkerProcess, name: str) -> Any:
    return worker.get(f"/connectors/{name}/status").body["tasks"][0]["worker_id"]


def test_workers_share_a_cluster_and_wait_for_its_cores(place: Place) -> None:
    first, second = (place.worker(name, SOON, group="pair") for name in ("first", "second"))
    for worker in (first, second):
        worker.start()
    for name in NAMES:
        place.shared(name)
        write(place, name, 0)
        path = str(place.directory / "shared" / name)
        first.create(
            name, {"connector.class": "SparkSource", "spark.format": "text", "path": path, "topic": name}
        )
    for name in NAMES:
        place.wait_for_values(first, name, COUNT)
        first.wait_for_states(name, ["RUNNING", "RUNNING"])
    assert owner(first, "one") != owner(first, "two")
    assert applications(place) == [CORES, CORES]
    assert len(place.cluster.executors()) == 2 * CORES

    third = place.worker("third")
    third.start()
    lines = third.directory / "lines"
    lines.write_text("a line\n")
    third.create("late", {"connector.class": "FileStreamSource", "file": str(lines), "topic": "late"})
    third.wait_until(
        "the third worker's task reported why it waits",
        lambda: any(
            f"Waiting for executors of {place.cluster.master}" in each for each in third.traces("late")
        ),
    )
    assert applications(place) == [0, CORES, CORES]

    second.kill()
    place.wait_for_values(third, "late", 1)
    until(lambda: applications(place) == [CORES, CORES], "the third application had its cores")
    for name in NAMES:
        write(place, name, 1)
        place.wait_for_values(first, name, 2 * COUNT)
        wanted = {f"{line:08d}".encode() for line in range(2 * COUNT)}
        assert set(place.values(name)) == wanted
    assert owner(first, "one") == owner(first, "two")
    assert applications(place) == [CORES, CORES]

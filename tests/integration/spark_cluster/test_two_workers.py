"""Tests that Kraal workers share a Spark cluster within their configured cores, and take over each other's tasks."""

from __future__ import annotations

from typing import Any

import pytest

from kraal.testing.process import WorkerProcess
from tests.integration.spark_cluster.environment import CORES, SparkEnvironment, wait_until

pytestmark = pytest.mark.slow  # four minutes on a busy machine

LINE_COUNT = 1_000
NAMES = ("one", "two")
FAST_REBALANCES = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "2000",
    "scheduled.rebalance.max.delay.ms": "0",
}


def write(environment: SparkEnvironment, name: str, number: int) -> None:
    """Add a file of lines."""
    folder = environment.directory / "shared" / name
    hidden_file = folder / f".{number}"
    hidden_file.write_text(
        "".join(f"{line:08d}\n" for line in range(number * LINE_COUNT, (number + 1) * LINE_COUNT))
    )
    hidden_file.rename(folder / str(number))


def list_application_cores(environment: SparkEnvironment) -> list[int]:
    """Return the number of cores of each application."""
    return sorted(application["cores"] for application in environment.cluster.state()["activeapps"])


def find_task_owner(worker: WorkerProcess, name: str) -> Any:
    return worker.get(f"/connectors/{name}/status").body["tasks"][0]["worker_id"]


def test_workers_share_a_cluster_and_wait_for_its_cores(environment: SparkEnvironment) -> None:
    first_worker, second_worker = (
        environment.worker(name, FAST_REBALANCES, group="pair") for name in ("first", "second")
    )
    for worker in (first_worker, second_worker):
        worker.start()
    for name in NAMES:
        environment.create_shared_folder(name)
        write(environment, name, 0)
        path = str(environment.directory / "shared" / name)
        first_worker.create(
            name, {"connector.class": "SparkSource", "spark.format": "text", "path": path, "topic": name}
        )
    for name in NAMES:
        environment.wait_for_values(first_worker, name, LINE_COUNT)
        first_worker.wait_for_states(name, ["RUNNING", "RUNNING"])
    assert find_task_owner(first_worker, "one") != find_task_owner(first_worker, "two")
    assert list_application_cores(environment) == [CORES, CORES]
    assert len(environment.cluster.executors()) == 2 * CORES

    third_worker = environment.worker("third")
    third_worker.start()
    lines = third_worker.directory / "lines"
    lines.write_text("a line\n")
    third_worker.create("late", {"connector.class": "FileStreamSource", "file": str(lines), "topic": "late"})
    third_worker.wait_until(
        "the third worker's task reported the reason",
        lambda: any(
            f"Waiting for executors of {environment.cluster.master}" in trace
            for trace in third_worker.traces("late")
        ),
    )
    assert list_application_cores(environment) == [0, CORES, CORES]

    second_worker.kill()
    environment.wait_for_values(third_worker, "late", 1)
    wait_until(
        lambda: list_application_cores(environment) == [CORES, CORES], "the third application had its cores"
    )
    for name in NAMES:
        write(environment, name, 1)
        environment.wait_for_values(first_worker, name, 2 * LINE_COUNT)
        expected = {f"{line:08d}".encode() for line in range(2 * LINE_COUNT)}
        assert set(environment.values(name)) == expected
    assert find_task_owner(first_worker, "one") == find_task_owner(first_worker, "two")
    assert list_application_cores(environment) == [CORES, CORES]

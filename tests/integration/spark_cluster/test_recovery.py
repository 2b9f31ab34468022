"""Tests that a Spark master with a recovery folder restores its applications after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.spark_cluster.environment import SparkEnvironment, start_environment, wait_until

pytestmark = pytest.mark.slow  # takes a minute

LINE_COUNT = 1_000


@pytest.fixture
def recovering_environment(tmp_path: Path) -> Iterator[SparkEnvironment]:
    environment = start_environment(
        tmp_path,
        {
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(tmp_path / "recovery"),
        },
    )
    yield environment
    environment.close()


def test_application_and_executors_survive_a_master_restart(recovering_environment: SparkEnvironment) -> None:
    environment, cluster = recovering_environment, recovering_environment.cluster
    worker = environment.worker("recovery")
    worker.start()
    folder = environment.create_shared_folder("rows")

    def write(number: int) -> None:
        hidden_file = folder / f".{number}"
        hidden_file.write_text(
            "".join(f"{line:08d}\n" for line in range(number * LINE_COUNT, (number + 1) * LINE_COUNT))
        )
        hidden_file.rename(folder / str(number))

    write(0)
    path = str(folder)
    worker.create(
        "rows", {"connector.class": "SparkSource", "spark.format": "text", "path": path, "topic": "rows"}
    )
    environment.wait_for_values(worker, "rows", LINE_COUNT)
    (application_before,) = cluster.state()["activeapps"]
    executors = cluster.executors()
    cluster.get_process("master").kill()
    write(1)
    environment.wait_for_values(worker, "rows", 2 * LINE_COUNT)
    cluster.start_master()
    wait_until(
        lambda: (
            [application["id"] for application in cluster.state()["activeapps"]] == [application_before["id"]]
        ),
        "the master had restored the application",
    )
    wait_until(
        lambda: cluster.alive() == len(cluster.state()["workers"]) == 2, "the master had restored its workers"
    )
    write(2)
    environment.wait_for_values(worker, "rows", 3 * LINE_COUNT)
    assert cluster.executors() == executors
    assert environment.values("rows") == [f"{line:08d}".encode() for line in range(3 * LINE_COUNT)]
    assert "Restarting Spark" not in worker.log_text()

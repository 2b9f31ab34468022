"""A Spark master with a recovery folder restores its applications after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.spark_cluster.place import Place, opened, until

pytestmark = pytest.mark.slow  # a minute

COUNT = 1_000


@pytest.fixture
def recovering(tmp_path: Path) -> Iterator[Place]:
    made = opened(
        tmp_path,
        {
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(tmp_path / "recovery"),
        },
    )
    yield made
    made.close()


def test_application_and_executors_survive_a_master_restart(recovering: Place) -> None:
    place, cluster = recovering, recovering.cluster
    worker = place.worker("recovery")
    worker.start()
    folder = place.shared("rows")

    def write(number: int) -> None:
        hidden = folder / f".{number}"
        hidden.write_text("".join(f"{line:08d}\n" for line in range(number * COUNT, (number + 1) * COUNT)))
        hidden.rename(folder / str(number))

    write(0)
    path = str(folder)
    worker.create(
        "rows", {"connector.class": "SparkSource", "spark.format": "text", "path": path, "topic": "rows"}
    )
    place.wait_for_values(worker, "rows", COUNT)
    (before,) = cluster.state()["activeapps"]
    executors = cluster.executors()
    cluster.get_process("master").kill()
    write(1)
    place.wait_for_values(worker, "rows", 2 * COUNT)
    cluster.start_master()
    until(
        lambda: [each["id"] for each in cluster.state()["activeapps"]] == [before["id"]],
        "the master knew the application",
    )
    until(lambda: cluster.alive() == len(cluster.state()["workers"]) == 2, "the master knew its workers")
    write(2)
    place.wait_for_values(worker, "rows", 3 * COUNT)
    assert cluster.executors() == executors
    assert place.values("rows") == [f"{line:08d}".encode() for line in range(3 * COUNT)]
    assert "Restarting Spark" not in worker.log_text()

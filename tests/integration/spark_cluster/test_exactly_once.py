"""A source with exactly-once support on a Spark cluster: read_committed consumers get each line once, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.testing.process import WorkerProcess
from tests.integration.spark_cluster.place import Place, end_of, kill_executors

pytestmark = pytest.mark.slow  # four minutes in total on a busy machine

COUNT = 20_000
SOON = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "2000",
    "scheduled.rebalance.max.delay.ms": "0",
}


@pytest.fixture(scope="module")
def worker(place: Place) -> WorkerProcess:
    """Return the worker of the module."""
    made = place.worker("once", {"exactly.once.source.support": "enabled", **SOON}, group="once")
    made.start()
    return made


def lines(letter: str) -> list[bytes]:
    return [f"{letter}{number:08d} and some more text".encode() for number in range(COUNT)]


def write(folder: Path, letter: str) -> None:
    """Add a file of lines."""
    hidden = folder / f".{letter}"
    hidden.write_bytes(b"".join(line + b"\n" for line in lines(letter)))
    hidden.rename(folder / letter)


def source(folder: Path, topic: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": "SparkSource",
        "spark.format": "text",
        "path": str(folder),
        "topic": topic,
        **more,
    }


def test_lines_are_written_once_although_executors_are_killed(place: Place, worker: WorkerProcess) -> None:
    folder = place.shared("killed")
    write(folder, "a")
    config = source(folder, "killed", **{"file.batch.bytes": "50000"})
    worker.create("killed", config)
    place.wait_for_values(worker, "killed", COUNT // 10)
    kill_executors(place.cluster)
    assert len(place.values("killed")) < COUNT, "the executors were killed before the end"
    worker.wait_until("all lines were committed", lambda: len(place.values("killed")) >= COUNT)
    assert place.values("killed") == lines("a")
    worker.wait_for_states("killed", ["RUNNING", "RUNNING"])
    worker.ask("DELETE", "/connectors/killed")


def test_lines_are_written_once_although_the_worker_is_killed_in_a_transaction(
    place: Place, worker: WorkerProcess
) -> None:
    folder, bootstrap = place.shared("open"), place.broker.bootstrap
    write(folder, "b")
    long = {
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "600000",
        "producer.override.transaction.timeout.ms": "600000",
    }
    config = source(folder, "open", **long)
    worker.create("open", config)
    worker.wait_until(
        "all lines were sent", lambda: end_of(bootstrap, "open", level="read_uncommitted") == COUNT
    )
    assert place.values("open") == [], "the transaction is open"
    worker.kill()
    worker.start()
    worker.wait_until(
        "all lines were resent",
        lambda: (
            end_of(bootstrap, "open", level="read_uncommitted") > 2 * COUNT
        ),  # plus the end marker of a transaction
    )
    assert place.values("open") == [], "only the second transaction is open"
    assert worker.ask("PUT", "/connectors/open/pause").status == 202
    worker.wait_until("the lines were committed", lambda: len(place.values("open")) > 0)
    assert place.values("open") == lines("b")

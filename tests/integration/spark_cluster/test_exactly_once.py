"""Tests that a source with exactly-once support on a Spark cluster commits each line once, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.testing.process import WorkerProcess
from tests.integration.spark_cluster.environment import SparkEnvironment, kill_executors, read_end_offset

pytestmark = pytest.mark.slow  # four minutes in total on a busy machine

LINE_COUNT = 20_000
FAST_REBALANCES = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "2000",
    "scheduled.rebalance.max.delay.ms": "0",
}


@pytest.fixture(scope="module")
def worker(environment: SparkEnvironment) -> WorkerProcess:
    """Return the worker of the module."""
    process = environment.worker(
        "once", {"exactly.once.source.support": "enabled", **FAST_REBALANCES}, group="once"
    )
    process.start()
    return process


def lines(letter: str) -> list[bytes]:
    return [f"{letter}{number:08d} and some more text".encode() for number in range(LINE_COUNT)]


def write(folder: Path, letter: str) -> None:
    """Add a file of lines."""
    hidden_file = folder / f".{letter}"
    hidden_file.write_bytes(b"".join(line + b"\n" for line in lines(letter)))
    hidden_file.rename(folder / letter)


def source_config(folder: Path, topic: str, **settings: str) -> dict[str, str]:
    return {
        "connector.class": "SparkSource",
        "spark.format": "text",
        "path": str(folder),
        "topic": topic,
        **settings,
    }


def test_lines_are_written_once_although_executors_are_killed(
    environment: SparkEnvironment, worker: WorkerProcess
) -> None:
    folder = environment.create_shared_folder("killed")
    write(folder, "a")
    config = source_config(folder, "killed", **{"file.batch.bytes": "50000"})
    worker.create("killed", config)
    environment.wait_for_values(worker, "killed", LINE_COUNT // 10)
    kill_executors(environment.cluster)
    assert len(environment.values("killed")) < LINE_COUNT, "the executors must be killed before the end"
    worker.wait_until("all lines were committed", lambda: len(environment.values("killed")) >= LINE_COUNT)
    assert environment.values("killed") == lines("a")
    worker.wait_for_states("killed", ["RUNNING", "RUNNING"])
    worker.ask("DELETE", "/connectors/killed")


def test_lines_are_written_once_although_the_worker_is_killed_in_a_transaction(
    environment: SparkEnvironment, worker: WorkerProcess
) -> None:
    folder, bootstrap = environment.create_shared_folder("open"), environment.broker.bootstrap
    write(folder, "b")
    interval_config = {
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "600000",
        "producer.override.transaction.timeout.ms": "600000",
    }
    config = source_config(folder, "open", **interval_config)
    worker.create("open", config)
    worker.wait_until(
        "all lines were sent",
        lambda: read_end_offset(bootstrap, "open", level="read_uncommitted") == LINE_COUNT,
    )
    assert environment.values("open") == [], "the transaction must be open"
    worker.kill()
    worker.start()
    worker.wait_until(
        "all lines were resent",
        lambda: (
            read_end_offset(bootstrap, "open", level="read_uncommitted") > 2 * LINE_COUNT
        ),  # plus the end marker of a transaction
    )
    assert environment.values("open") == [], "only the second transaction may be open"
    assert worker.ask("PUT", "/connectors/open/pause").status == 202
    worker.wait_until("the lines were committed", lambda: len(environment.values("open")) > 0)
    assert environment.values("open") == lines("b")

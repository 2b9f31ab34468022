"""Tests that `kraal plugins add` locks a JDBC driver from Maven Central, which a task can use after a restart."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.broker.records import write_topic
from kraal.plugin_lock.lock import read_lock
from kraal.testing.process import WorkerProcess
from scripts.harness.postgresql import PostgreSQL, postgresql
from tests.fakes.spark.pipe import create_topic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

DRIVER = "org.postgresql:postgresql:42.7.13"
NEWER_DRIVER = "org.postgresql:postgresql:42.7.14"
FETCH_TIMEOUT_S = 600.0


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with postgresql() as server:
        yield server


@pytest.fixture
def worker(kafka: Broker, tmp_path: Path) -> Iterator[WorkerProcess]:
    """Run a worker without a plugin lock."""
    process = WorkerProcess(tmp_path / "worker", kafka.bootstrap)
    process.start()
    yield process
    process.close()


def run_plugins(*arguments: str) -> list[str]:
    """Run `kraal plugins`, and return the lines of its output."""
    code = "from kraal.cli.main import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, "plugins", *arguments],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=FETCH_TIMEOUT_S,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_added_driver_is_available_after_a_restart(
    worker: WorkerProcess, database: PostgreSQL, kafka: Broker, tmp_path: Path
) -> None:
    topic, lock = f"orders-{uuid.uuid4().hex[:8]}", tmp_path / "plugins.lock"
    create_topic(kafka.bootstrap, topic)
    write_topic(kafka.bootstrap, topic, [json.dumps({"n": n}).encode() for n in range(3)], timeout_s=30)
    worker.create(
        "idle", {"connector.class": "FileStreamSource", "file": str(tmp_path / "none"), "topic": topic}
    )
    worker.create(
        "orders",
        {
            "connector.class": "SparkSink",
            "topics": topic,
            "spark.format": "jdbc",
            "jdbc.table": "orders",
            "spark.schema": "n INT",
            **database.options,
        },
    )
    worker.wait_for_states("idle", ["RUNNING", "RUNNING"])
    worker.wait_for_states("orders", ["RUNNING", "FAILED"])
    assert "org.postgresql.Driver" in worker.traces("orders")[0], "Spark must not have the driver yet"

    lines = run_plugins("add", DRIVER, "--lock", str(lock), "--worker", worker.url)
    lock_content = read_lock(lock)
    assert lock_content.added == (DRIVER,)
    assert DRIVER in [jar.name for jar in lock_content.jars]
    worker_id = worker.url.partition("//")[2]
    assert lines[-3:-1] == [
        f"kraal.plugins.lock={lock}",
        "Spark loads jars only when it starts, so a restart of connectors is not enough.",
    ], lines
    assert lines[-1] == f"A restart of worker {worker_id} stops: idle-0", "failed tasks must not be listed"

    jvm = worker.jvm()
    assert worker.post("/connectors/orders/restart?includeTasks=true").status in {202, 200}
    worker.wait_for_states("orders", ["RUNNING", "FAILED"])
    assert worker.jvm() == jvm, "a running worker must not load new plugins"

    assert worker.end() == 0
    worker.properties["kraal.plugins.lock"] = str(lock)
    worker.start()
    worker.wait_for_states("orders", ["RUNNING", "RUNNING"])
    worker.wait_until("the rows were in the table", lambda: _read_rows(database) == ["0", "1", "2"])
    lines = run_plugins("add", NEWER_DRIVER, "--lock", str(lock), "--worker", worker.url)
    worker_id = worker.url.partition("//")[2]
    assert lines[-1] == f"A restart of worker {worker_id} stops: idle-0, orders-0"
    assert [jar.name for jar in read_lock(lock).jars if "postgresql" in jar.name] == [NEWER_DRIVER]


def _read_rows(database: PostgreSQL) -> list[str]:
    tables = database.ask("SELECT to_regclass('orders')")
    return database.ask("SELECT n FROM orders ORDER BY n") if tables != [""] else []

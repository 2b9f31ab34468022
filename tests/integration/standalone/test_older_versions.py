"""Tests that a worker starts with the data directory, offsets, plugins lock and plugin of an older Kraal version.

`tests/golden/worker/0.1.0` was written by Kraal 0.1.0, before its modules were moved. It contains the files of a worker
with three connectors, a plugins lock with the wheel of a connector created by `kraal new`, and the names of all metrics
that the worker exported.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from kraal.broker.broker import Broker
from kraal.broker.records import read_topic
from kraal.testing.process import WorkerProcess

pytestmark = pytest.mark.ci

OLD_WORKER = Path(__file__).parents[2] / "golden" / "worker" / "0.1.0"


def read_values(kafka: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in read_topic(kafka.bootstrap, topic, timeout_s=20)]


def read_states(worker: WorkerProcess, connector: str) -> list[str]:
    status = worker.get(f"/connectors/{connector}/status").body
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


@pytest.fixture
def worker(kafka: Broker, tmp_path: Path) -> Iterator[WorkerProcess]:
    """Run a worker in a copy of the directory, with a line in `lines.txt` that the old worker has not read."""
    home = tmp_path / "home"
    shutil.copytree(OLD_WORKER, home)
    (home / "lines.txt").write_text("one\ntwo\nthree\nfour\n")
    process = WorkerProcess(
        home, kafka.bootstrap, properties={"kraal.plugins.lock": str(home / "plugins.lock")}
    )
    process.start()
    yield process
    process.close()


def test_state_of_older_version_is_used(worker: WorkerProcess, kafka: Broker) -> None:
    assert sorted(worker.get("/connectors").body) == ["lines", "out", "paused"]
    response = worker.request(
        "POST",
        "/connectors",
        {
            "name": "numbers",
            "config": {
                "connector.class": "old_numbers.OldNumbersSource",
                "topic": "old-numbers",
                "count": "3",
                "batch.records": "3",
            },
        },
    )
    assert response.status == 201, response.body
    expected = {"lines": "RUNNING", "out": "RUNNING", "paused": "PAUSED", "numbers": "RUNNING"}
    worker.wait_until(
        "all connectors had their old states",
        lambda: all(read_states(worker, name) == [expected[name]] * 2 for name in expected),
    )
    target = worker.directory / "out.txt"
    worker.wait_until(
        "the new line was transferred", lambda: target.exists() and target.read_text() == "four\n"
    )
    worker.wait_until("the numbers were written", lambda: len(read_values(kafka, "old-numbers")) == 3)
    assert read_values(kafka, "old-lines") == [b"four"]
    assert worker.get("/connectors/lines/offsets").body["offsets"][0]["partition"] == {
        "filename": "lines.txt"
    }
    level_response = worker.put("/admin/loggers/kraal.spark", {"level": "DEBUG"})
    assert "kraal.engine" in level_response.body
    text = httpx2.get(f"{worker.url}/metrics", trust_env=False).text
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert set((OLD_WORKER / "metrics.txt").read_text().split()) - names == set()

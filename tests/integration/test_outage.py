"""Tests that a broker outage of ten minutes causes no FAILED instances, and that all connectors continue.

The outage exceeds the timeouts of clients: five minutes for Spark's readers and for group members, and one minute for
admin clients. A distributed and a standalone worker run concurrently. In a cluster, work stops until the group is
available again, as in Java. A standalone worker does not stop its work, so its jobs are active during the outage.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from kraal.broker.broker import Broker, free_port
from kraal.broker.records import read_topic
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.outlets import READ_TIMEOUT_S, Outlets

log = logging.getLogger(__name__)

OUTAGE_S = 600.0
RECOVERY_TIMEOUT_S = 300.0
"""Maximum time until all connectors run again on a busy machine."""
BACKLOG_LINES = 200_000
"""Number of lines in flight when the broker is killed."""
MAX_RESPONSE_S = 10.0
POLL_INTERVAL_S = 1.0
PROPERTIES = {"spark.master": "local[4]", "spark.driver.memory": "768m"}
GROUP = "outage"


class StatusPoller:
    """A thread that polls the statuses of a worker."""

    def __init__(self, outlets: Outlets) -> None:
        self.problems: list[str] = []
        """Responses other than 200, and FAILED statuses."""
        self.slowest_s = 0.0
        self.poll_count = 0
        self._outlets = outlets
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch-{outlets.name}")

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx2.Client(base_url=self._outlets.worker.url, timeout=60, trust_env=False) as client:
            while not self._ended.wait(POLL_INTERVAL_S):
                for path in ("/connectors", "/connectors?expand=status&expand=info"):
                    self._poll(client, path)
                for name in self._outlets.configs:
                    self._poll(client, f"/connectors/{name}/status")
                self.poll_count += 1

    def _poll(self, client: httpx2.Client, path: str) -> None:
        start_s = time.monotonic()
        try:
            response = client.get(path)
        except httpx2.TransportError as exc:
            self.problems.append(f"{path}: {exc!r}")
            return
        self.slowest_s = max(self.slowest_s, time.monotonic() - start_s)
        if response.status_code != httpx2.codes.OK or '"FAILED"' in response.text:
            self.problems.append(f"{path}: {response.status_code} {response.text}")


@contextmanager
def _poll_all(outlets: list[Outlets]) -> Iterator[list[StatusPoller]]:
    pollers = [StatusPoller(outlet) for outlet in outlets]
    for poller in pollers:
        poller.start()
    try:
        yield pollers
    finally:
        for poller in pollers:
            poller.end()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Run a broker for this test only."""
    result = Broker(tmp_path / "kafka", free_port())
    result.start()
    yield result
    result.stop()


@pytest.fixture
def outlets(broker: Broker, tmp_path: Path) -> Iterator[list[Outlets]]:
    """Run a distributed and a standalone worker, each with all connectors."""
    workers = {"cluster": GROUP, "alone": None}
    processes: list[WorkerProcess] = []
    result = []
    try:
        for name, group in workers.items():
            processes.append(
                WorkerProcess(
                    tmp_path / f"worker-{name}", broker.bootstrap, properties=PROPERTIES, group=group
                )
            )
            processes[-1].start()
            processes[-1].wait_until(
                "the worker was healthy", lambda: processes[-1].get("/health").status == httpx2.codes.OK
            )
            result.append(Outlets(processes[-1], broker.bootstrap, tmp_path / name))
        yield result
    finally:
        for worker in processes:
            worker.close()


@pytest.mark.slow
@pytest.mark.timeout(OUTAGE_S + 1500)
def test_ten_minute_broker_outage_causes_no_failures_and_loses_no_records(
    broker: Broker, outlets: list[Outlets]
) -> None:
    for outlet in outlets:
        outlet.write(1000)
        outlet.wait_until_running(RECOVERY_TIMEOUT_S)
        outlet.wait_until_through(RECOVERY_TIMEOUT_S)
    with _poll_all(outlets) as pollers:
        for outlet in outlets:
            outlet.write(BACKLOG_LINES)
        for outlet in outlets:
            outlet.wait_until_flowing(RECOVERY_TIMEOUT_S)
        broker.kill()
        start_s, never_set = time.monotonic(), threading.Event()
        while time.monotonic() - start_s < OUTAGE_S and not never_set.wait(POLL_INTERVAL_S):
            for outlet in outlets:
                outlet.write(20)
        broker.start()
        restart_s = time.monotonic()
        for outlet in outlets:
            outlet.write(1)
            outlet.wait_until_running(RECOVERY_TIMEOUT_S)
            outlet.wait_until_through(RECOVERY_TIMEOUT_S)
            log.info(
                "%s: all records delivered %.0f s after the broker restarted",
                outlet.name,
                time.monotonic() - restart_s,
            )
    for poller, outlet in zip(pollers, outlets, strict=True):
        outlet.wait_until_running(RECOVERY_TIMEOUT_S)
        assert poller.problems == [], poller.problems[:3]
        assert poller.poll_count > OUTAGE_S / (10 * POLL_INTERVAL_S)
        assert poller.slowest_s < MAX_RESPONSE_S
        repeats = outlet.repeats()
        log.info("%s: slowest response %.2f s, duplicate lines: %s", outlet.name, poller.slowest_s, repeats)
        assert repeats["spark-sink"] == repeats[f"{outlet.name}-rows"], (
            "the file sink must have each record once"
        )
    statuses = [
        r.value for r in read_topic(broker.bootstrap, f"{GROUP}-status", timeout_s=READ_TIMEOUT_S) if r.value
    ]
    assert [text for text in statuses if json.loads(text).get("state") == "FAILED"] == []

"""A broker outage of ten minutes causes no FAILED instances, and all connectors continue afterwards.

So long is more than what clients wait by themselves: Spark's readers five minutes, members of groups as long, their
administrators one. Two workers go through it at once: in a cluster work stops until the group is back, as in Java; a
standalone worker's work has no one to stop it, and its jobs are there all the time.
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
from tests.fakes.spark.outlets import READ_S, Outlets

log = logging.getLogger(__name__)

OUTAGE_S = 600.0
RECOVERY_TIMEOUT_S = 300.0
"""Time within which everything runs again on a busy machine."""
BACKLOG = 200_000
"""Number of lines in flight when the broker is killed."""
SLOW_S = 10.0
POLL_INTERVAL_S = 1.0
PROPERTIES = {"spark.master": "local[4]", "spark.driver.memory": "768m"}
GROUP = "outage"


class StatusPoller:
    """Polls the statuses of a worker in its own thread."""

    def __init__(self, outlets: Outlets) -> None:
        self.bad: list[str] = []
        """Responses other than 200, and FAILED statuses."""
        self.slowest_s = 0.0
        self.looks = 0
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
                self.looks += 1

    def _poll(self, client: httpx2.Client, path: str) -> None:
        began = time.monotonic()
        try:
            response = client.get(path)
        except httpx2.TransportError as exc:
            self.bad.append(f"{path}: {exc!r}")
            return
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        if response.status_code != httpx2.codes.OK or '"FAILED"' in response.text:
            self.bad.append(f"{path}: {response.status_code} {response.text}")


@contextmanager
def _watch_all(outlets: list[Outlets]) -> Iterator[list[StatusPoller]]:
    watches = [StatusPoller(each) for each in outlets]
    for watch in watches:
        watch.start()
    try:
        yield watches
    finally:
        for watch in watches:
            watch.end()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker for this test only."""
    result = Broker(tmp_path / "kafka", free_port())
    result.start()
    yield result
    result.stop()


@pytest.fixture
def outlets(broker: Broker, tmp_path: Path) -> Iterator[list[Outlets]]:
    """A distributed and a standalone worker, each with all connectors running."""
    workers = {"cluster": GROUP, "alone": None}
    made: list[WorkerProcess] = []
    found = []
    try:
        for name, group in workers.items():
            made.append(
                WorkerProcess(
                    tmp_path / f"worker-{name}", broker.bootstrap, properties=PROPERTIES, group=group
                )
            )
            made[-1].start()
            made[-1].wait_until("it was healthy", lambda: made[-1].get("/health").status == httpx2.codes.OK)
            found.append(Outlets(made[-1], broker.bootstrap, tmp_path / name))
        yield found
    finally:
        for worker in made:
            worker.close()


@pytest.mark.slow
@pytest.mark.timeout(OUTAGE_S + 1500)
def test_ten_minute_broker_outage_causes_no_failures_and_loses_no_records(
    broker: Broker, outlets: list[Outlets]
) -> None:
    for each in outlets:
        each.write(1000)
        each.wait_until_running(RECOVERY_TIMEOUT_S)
        each.wait_until_through(RECOVERY_TIMEOUT_S)
    with _watch_all(outlets) as watches:
        for each in outlets:
            each.write(BACKLOG)
        for each in outlets:
            each.wait_until_flowing(RECOVERY_TIMEOUT_S)
        broker.kill()
        began, outage = time.monotonic(), threading.Event()  # never set; waits for the time to pass
        while time.monotonic() - began < OUTAGE_S and not outage.wait(POLL_INTERVAL_S):
            for each in outlets:
                each.write(20)
        broker.start()
        back = time.monotonic()
        for each in outlets:
            each.write(1)
            each.wait_until_running(RECOVERY_TIMEOUT_S)
            each.wait_until_through(RECOVERY_TIMEOUT_S)
            log.info("%s: all through %.0f s after the broker was back", each.name, time.monotonic() - back)
    for watch, each in zip(watches, outlets, strict=True):
        each.wait_until_running(RECOVERY_TIMEOUT_S)
        assert watch.bad == [], watch.bad[:3]
        assert watch.looks > OUTAGE_S / (10 * POLL_INTERVAL_S)
        assert watch.slowest_s < SLOW_S
        repeats = each.repeats()
        log.info("%s: slowest answer %.2f s, lines that came again: %s", each.name, watch.slowest_s, repeats)
        assert repeats["spark-sink"] == repeats[f"{each.name}-rows"], "the file sink has each record once"
    statuses = [r.value for r in read_topic(broker.bootstrap, f"{GROUP}-status", timeout_s=READ_S) if r.value]
    assert [text for text in statuses if json.loads(text).get("state") == "FAILED"] == []

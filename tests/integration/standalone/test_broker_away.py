"""The broker is away at start, and goes away in the middle. Mirrors ConnectWorkerIntegrationTest.testBrokerCoordinator.

One broker and one worker of their own, in one story: to start each of them again would cost half a minute.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from kraal.broker.broker import Broker, free_port
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import RUNNING, Pipe

pytestmark = pytest.mark.ci

OUTAGE_S = 15.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that is not started."""
    made = Broker(tmp_path_factory.mktemp("outage"), free_port())
    yield made
    made.stop()


@pytest.fixture(scope="module")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """A worker of that broker, which is not there yet."""
    made = WorkerProcess(tmp_path_factory.mktemp("worker"), broker.bootstrap)
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def pipe(worker: WorkerProcess, tmp_path_factory: pytest.TempPathFactory) -> Pipe:
    """A pipe whose connectors are created while there is no broker."""
    made = Pipe(worker, tmp_path_factory.mktemp("pipe"))
    made.write(1000)
    made.create()
    return made


def test_a_worker_without_a_broker_serves_rest_and_takes_connectors(pipe: Pipe) -> None:
    worker = pipe.worker
    assert worker.get("/").body["kafka_cluster_id"] is None
    assert worker.get("/health").body["status"] == "healthy"
    assert set(worker.get("/connectors").body) == {pipe.source, pipe.sink}
    worker.wait_until("it said what it waits for", lambda: "no Kafka broker answers at" in worker.log_text())
    assert "FAILED" not in pipe.states()


def test_when_the_broker_comes_every_line_arrives(pipe: Pipe, broker: Broker) -> None:
    broker.start()
    pipe.wait_until_through()
    assert pipe.is_through_exactly()
    pipe.wait_until_running()
    pipe.worker.wait_until("it knew the cluster", lambda: bool(pipe.worker.get("/").body["kafka_cluster_id"]))


@pytest.mark.slow
def test_broker_outage_causes_no_failures_and_loses_no_records(pipe: Pipe, broker: Broker) -> None:
    before = pipe.sink_size()
    pipe.write(2_000_000)
    pipe.worker.wait_until("lines came out again", lambda: pipe.sink_size() > before)
    broker.kill()
    assert pipe.sink_size() < pipe.source_file.stat().st_size
    began, seen = time.monotonic(), set[str]()
    outage = threading.Event()  # no one sets it: time has to pass
    while not outage.wait(0.5) and time.monotonic() - began < OUTAGE_S:
        seen |= set(pipe.states())
        assert pipe.worker.get("/health").status == 200
    broker.start()
    pipe.wait_until_through()
    pipe.assert_at_least_once()
    assert seen | set(pipe.states()) == set(RUNNING)

"""Tests for a broker that starts late and has outages. Mirrors ConnectWorkerIntegrationTest.testBrokerCoordinator.

The tests build on each other, because each start of a broker and a worker takes half a minute.
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
    """Define a broker without starting it."""
    broker = Broker(tmp_path_factory.mktemp("outage"), free_port())
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """Start a worker while its broker is down."""
    worker = WorkerProcess(tmp_path_factory.mktemp("worker"), broker.bootstrap)
    worker.start()
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def pipe(worker: WorkerProcess, tmp_path_factory: pytest.TempPathFactory) -> Pipe:
    """Create a pipe while the broker is down."""
    pipe = Pipe(worker, tmp_path_factory.mktemp("pipe"))
    pipe.write(1000)
    pipe.create()
    return pipe


def test_worker_without_broker_serves_rest_and_creates_connectors(pipe: Pipe) -> None:
    worker = pipe.worker
    assert worker.get("/").body["kafka_cluster_id"] is None
    assert worker.get("/health").body["status"] == "healthy"
    assert set(worker.get("/connectors").body) == {pipe.source, pipe.sink}
    worker.wait_until(
        "the worker logged the missing broker", lambda: "no Kafka broker responds at" in worker.log_text()
    )
    assert "FAILED" not in pipe.states()


def test_all_lines_arrive_after_broker_start(pipe: Pipe, broker: Broker) -> None:
    broker.start()
    pipe.wait_until_through()
    assert pipe.is_through_exactly()
    pipe.wait_until_running()
    pipe.worker.wait_until(
        "the cluster id was returned", lambda: bool(pipe.worker.get("/").body["kafka_cluster_id"])
    )


@pytest.mark.slow
def test_broker_outage_causes_no_failures_and_loses_no_records(pipe: Pipe, broker: Broker) -> None:
    size_before = pipe.sink_size()
    pipe.write(2_000_000)
    pipe.worker.wait_until("lines were transferred again", lambda: pipe.sink_size() > size_before)
    broker.kill()
    assert pipe.sink_size() < pipe.source_file.stat().st_size
    start_s, states = time.monotonic(), set[str]()
    never_set = threading.Event()
    while not never_set.wait(0.5) and time.monotonic() - start_s < OUTAGE_S:
        states |= set(pipe.states())
        assert pipe.worker.get("/health").status == 200
    broker.start()
    pipe.wait_until_through()
    pipe.assert_at_least_once()
    assert states | set(pipe.states()) == set(RUNNING)

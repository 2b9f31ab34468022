"""Tests that the work of a worker that is frozen beyond its session timeout moves without duplicate writers.

The tests use a separate broker, because the last test restarts it.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from kraal.broker.broker import Broker, free_port
from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.flow import Flow, round_pauses

pytestmark = pytest.mark.ci

log = logging.getLogger(__name__)

SESSION_TIMEOUT_S = 6.0
"""`session.timeout.ms` in `kraal.testing.process_cluster.QUICK_PROPERTIES`, in seconds."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Run a broker that a test restarts."""
    server = Broker(tmp_path_factory.mktemp("own-kafka"), free_port())
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def two_workers(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Run two workers, which tests must leave running."""
    properties = {"consumer.session.timeout.ms": "6000", "kraal.spark.warmup.enabled": "true"}
    cluster = ProcessCluster(
        directory=tmp_path_factory.mktemp("frozen"), bootstrap=broker.bootstrap, properties=properties
    )
    cluster.start(2)
    yield cluster
    cluster.close()


@pytest.fixture
def flow(two_workers: ProcessCluster, broker: Broker, tmp_path: Path) -> Iterator[Flow]:
    """Run three pipes whose connectors and tasks are distributed over both workers."""
    running_flow = Flow(two_workers, broker.bootstrap, tmp_path, 3)
    running_flow.wait_until_balanced(2)
    yield running_flow
    running_flow.stop()
    running_flow.delete()


def find_processes(worker: WorkerProcess, target: str) -> Sequence[psutil.Process]:
    """Return the Python process of a worker, its JVM, or both."""
    jvm = worker.jvm()
    assert jvm is not None
    python = psutil.Process(worker.pid)
    return {"python": [python], "jvm": [jvm], "both": [python, jvm]}[target]


@pytest.mark.one_a_day("target")
@pytest.mark.parametrize("target", ["python", "both"])
def test_thawed_worker_rejoins_without_committing_reassigned_work(
    flow: Flow, two_workers: ProcessCluster, target: str
) -> None:
    frozen_worker, other_worker = two_workers.workers
    frozen_id = frozen_worker.url.partition("//")[2]
    other_id = other_worker.url.partition("//")[2]
    with flow.flowing():
        frozen_processes = find_processes(frozen_worker, target)
        for process in frozen_processes:
            process.send_signal(signal.SIGSTOP)
        try:
            two_workers.wait_until(
                "all work was reassigned",
                lambda: all(
                    set(two_workers.owners(name, other_worker).values()) == {other_id}
                    and other_worker.states(name) == ["RUNNING"] * 2
                    for name in flow.names
                ),
            )
            flow.wait_until_new_output()
            log_size = len(frozen_worker.log_text())
        finally:
            for process in frozen_processes:
                process.send_signal(signal.SIGCONT)
        frozen_worker.wait_until(
            "the worker was in the group again",
            lambda: "Joined group at generation" in frozen_worker.log_text()[log_size:],
        )
        flow.wait_until_balanced(2)
        flow.wait_until_running()
        flow.wait_until_new_output()
    assert set(flow.owners().values()) == {frozen_id, other_id}
    assert {name: two_workers.owners(name, frozen_worker) for name in flow.names} == {
        name: two_workers.owners(name, other_worker) for name in flow.names
    }
    repeats = flow.repeats()
    log.info("%s frozen: %s duplicate ranges, pauses of %s s", target, repeats, round_pauses(flow.pauses))
    assert max(repeats.values()) <= 2, "one batch of the source and one of the sink may be duplicated"


def test_worker_with_a_frozen_jvm_keeps_its_work_and_continues(
    flow: Flow, two_workers: ProcessCluster
) -> None:
    frozen_worker = two_workers.workers[0]
    with flow.flowing():
        owners_before = flow.owners()
        [jvm] = find_processes(frozen_worker, "jvm")
        jvm.send_signal(signal.SIGSTOP)
        try:
            deadline = time.monotonic() + SESSION_TIMEOUT_S + 2
            while time.monotonic() < deadline:
                assert frozen_worker.get("/connectors").status == 200, "REST must not wait for Spark"
                time.sleep(0.2)
        finally:
            jvm.send_signal(signal.SIGCONT)
        flow.wait_until_new_output()
        flow.wait_until_running()
        assert flow.owners() == owners_before
    assert max(flow.repeats().values()) == 0


def test_workers_keep_their_work_after_a_broker_outage(
    flow: Flow, two_workers: ProcessCluster, broker: Broker
) -> None:
    with flow.flowing():
        broker.stop()
        broker.start()
        flow.wait_until_balanced(2)
        flow.wait_until_running()
        flow.wait_until_new_output()
        statuses = {worker.get("/").status for worker in two_workers.workers}
    assert statuses == {200}
    log.info("broker stopped: %s duplicate ranges, pauses of %s s", flow.repeats(), round_pauses(flow.pauses))
    assert max(flow.repeats().values()) <= 2

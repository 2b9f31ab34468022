"""Tests that killing executors, Spark workers, the master, the broker or the Kraal worker loses no lines."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.integration.spark_cluster.environment import SparkEnvironment, wait_until
from tests.integration.spark_cluster.flow import RECOVERY_TIMEOUT_S, Flow

pytestmark = pytest.mark.slow  # 8 minutes in total on a busy machine

OUTAGE_S = 20.0


@pytest.fixture(scope="module")
def flow(environment: SparkEnvironment) -> Flow:
    """Return the running flow of the module."""
    running_flow = Flow(environment, "kills")
    running_flow.wait_until_through()
    return running_flow


def test_lines_survive_a_killed_executor(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    killed_pid = flow.environment.cluster.executors()[0]
    os.kill(killed_pid, signal.SIGKILL)
    flow.wait_until_through()
    wait_until(lambda: len(flow.environment.cluster.executors()) == 2, "there was another executor")
    assert killed_pid not in flow.environment.cluster.executors()


def test_lines_survive_a_spark_worker_killed_with_its_executors(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    cluster = flow.environment.cluster
    for process in cluster.get_process("worker-0").tree():  # like a failure of the machine
        process.kill()
    flow.write()
    flow.wait_until_through()
    cluster.start_worker("worker-0")


def test_lines_survive_a_killed_spark_worker_process(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    cluster = flow.environment.cluster
    executors = set(cluster.executors())
    name = next(
        worker_name
        for worker_name in ("worker-0", "worker-1")
        if executors & {process.pid for process in cluster.get_process(worker_name).tree()}
    )
    killed_process = cluster.get_process(name)
    killed_process.kill()
    wait_until(lambda: killed_process.tree() == [], "the executors had ended", 60.0)
    flow.write()
    flow.wait_until_through()
    cluster.start_worker(name)


def test_connectors_survive_a_master_restarted_without_state(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    cluster = flow.environment.cluster
    cluster.get_process("master").kill()
    flow.write()
    flow.wait_until_flowing()
    cluster.start_master()
    flow.write()
    flow.wait_until_through()
    wait_until(
        lambda: bool(cluster.state()["activeapps"]),
        "the application was registered again",
        RECOVERY_TIMEOUT_S,
    )
    flow.write()
    flow.wait_until_through()


def test_lines_survive_a_killed_broker(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    broker = flow.environment.broker
    assert broker.kill()
    flow.write()
    time.sleep(OUTAGE_S)
    for name in flow.connectors:
        assert flow.worker.states(name) == ["RUNNING", "RUNNING"]
    broker.start()
    flow.wait_until_through()


def test_lines_survive_a_killed_kraal_worker(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    flow.worker.kill()
    wait_until(lambda: flow.environment.cluster.executors() == [], "executors without a driver ended", 60.0)
    flow.worker.start()
    flow.wait_until_through()

"""Killing executors, Spark workers, the master, the broker or the Kraal worker loses no lines."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.integration.spark_cluster.flow import BACK_S, Flow
from tests.integration.spark_cluster.place import Place, until

pytestmark = pytest.mark.slow  # 8 minutes in total on a busy machine

OUTAGE_S = 20.0


@pytest.fixture(scope="module")
def flow(place: Place) -> Flow:
    """Return the running flow of the module."""
    made = Flow(place, "kills")
    made.wait_until_through()
    return made


def test_lines_survive_a_killed_executor(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    victim = flow.place.cluster.executors()[0]
    os.kill(victim, signal.SIGKILL)
    flow.wait_until_through()
    until(lambda: len(flow.place.cluster.executors()) == 2, "there was another executor")
    assert victim not in flow.place.cluster.executors()


def test_lines_survive_a_spark_worker_killed_with_its_executors(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    cluster = flow.place.cluster
    for process in cluster.get_process("worker-0").tree():  # like the failure of its machine
        process.kill()
    flow.write()
    flow.wait_until_through()
    cluster.start_worker("worker-0")


def test_lines_survive_a_killed_spark_worker_process(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    cluster = flow.place.cluster
    executors = set(cluster.executors())
    name = next(
        each
        for each in ("worker-0", "worker-1")
        if executors & {process.pid for process in cluster.get_process(each).tree()}
    )
    killed = cluster.get_process(name)
    killed.kill()
    until(lambda: killed.tree() == [], "its executors ended, too", 60.0)
    flow.write()
    flow.wait_until_through()
    cluster.start_worker(name)


def test_connectors_survive_a_master_restarted_without_state(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    cluster = flow.place.cluster
    cluster.get_process("master").kill()
    flow.write()
    flow.wait_until_flowing()
    cluster.start_master()
    flow.write()
    flow.wait_until_through()
    until(lambda: bool(cluster.state()["activeapps"]), "the application was registered again", BACK_S)
    flow.write()
    flow.wait_until_through()


def test_lines_survive_a_killed_broker(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    broker = flow.place.broker
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
    until(lambda: flow.place.cluster.executors() == [], "executors without a driver ended", 60.0)
    flow.worker.start()
    flow.wait_until_through()

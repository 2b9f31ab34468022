"""Executors, Spark workers, the master, the broker and the Kraal worker die while lines flow: nothing is lost."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.integration.spark_cluster.flow import BACK_S, Flow
from tests.integration.spark_cluster.place import Place, until

pytestmark = pytest.mark.slow  # 8 minutes together on a busy machine

OUTAGE_S = 20.0


@pytest.fixture(scope="module")
def flow(place: Place) -> Flow:
    """The module's lines, which flow."""
    made = Flow(place, "kills")
    made.wait_until_through()
    return made


def test_an_executor_is_killed(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    victim = flow.place.cluster.executors()[0]
    os.kill(victim, signal.SIGKILL)
    flow.wait_until_through()
    until(lambda: len(flow.place.cluster.executors()) == 2, "there was another executor")
    assert victim not in flow.place.cluster.executors()


def test_a_spark_worker_is_killed_with_its_executors(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    cluster = flow.place.cluster
    for process in cluster.running("worker-0").tree():  # as if its machine had died
        process.kill()
    flow.write()
    flow.wait_until_through()
    cluster.start_worker("worker-0")


def test_only_the_process_of_a_spark_worker_is_killed(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    cluster = flow.place.cluster
    executors = set(cluster.executors())
    name = next(
        each
        for each in ("worker-0", "worker-1")
        if executors & {process.pid for process in cluster.running(each).tree()}
    )
    killed = cluster.running(name)
    killed.kill()
    until(lambda: killed.tree() == [], "its executors ended, too", 60.0)
    flow.write()
    flow.wait_until_through()
    cluster.start_worker(name)


def test_connectors_survive_a_master_restarted_without_state(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    cluster = flow.place.cluster
    cluster.running("master").kill()
    flow.write()
    flow.wait_until_flowing()
    cluster.start_master()
    flow.write()
    flow.wait_until_through()
    until(lambda: bool(cluster.state()["activeapps"]), "the application was registered again", BACK_S)
    flow.write()
    flow.wait_until_through()


def test_the_broker_is_killed(flow: Flow) -> None:
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


def test_the_worker_is_killed(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    flow.worker.kill()
    until(lambda: flow.place.cluster.executors() == [], "executors without a driver ended", 60.0)
    flow.worker.start()
    flow.wait_until_through()

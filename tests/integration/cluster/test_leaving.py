"""Tests that workers join and leave gracefully: no line is lost or duplicated, and work is rebalanced."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.flow import Flow, round_pauses

pytestmark = pytest.mark.ci

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 5.0 + 15.0
"""Maximum shutdown time that docs/operations.md states: `task.shutdown.graceful.timeout.ms` plus 15 s."""
MAX_GENERATIONS = 4
"""Maximum number of generations after a join: two rebalances with two rounds each (revocation and assignment)."""


@pytest.fixture(scope="module")
def restartable_cluster(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Run three workers, which tests must leave running."""
    cluster = ProcessCluster(directory=tmp_path_factory.mktemp("leaving"), bootstrap=kafka.bootstrap)
    cluster.start(3)
    yield cluster
    cluster.close()


@pytest.fixture
def flow(restartable_cluster: ProcessCluster, kafka: Broker, tmp_path: Path) -> Iterator[Flow]:
    """Run four pipes. Four pipes cannot be distributed evenly over three workers."""
    running_flow = Flow(restartable_cluster, kafka.bootstrap, tmp_path, 4)
    yield running_flow
    running_flow.stop()
    running_flow.delete()


def is_healthy(worker: WorkerProcess) -> bool:
    return worker.get("/health").status == 200


@pytest.mark.slow  # starting a fourth Spark session beside three others takes 90 s on two cores
def test_joining_worker_receives_its_share_and_leaving_worker_returns_it(
    flow: Flow, restartable_cluster: ProcessCluster
) -> None:
    flow.wait_until_balanced(3)
    first_worker = restartable_cluster.workers[0]
    with flow.flowing():
        log_size = len(first_worker.log_text())
        restartable_cluster.start(1)
        newcomer = restartable_cluster.workers[-1]
        flow.wait_until_balanced(4)
        flow.wait_until_running()
        generations = set(re.findall(r"Joined group at generation (\d+)", first_worker.log_text()[log_size:]))
        assert 1 <= len(generations) <= MAX_GENERATIONS, generations
        flow.wait_until_new_output()
        join_pause_s = max(flow.pauses.values())
        start_s = time.monotonic()
        assert newcomer.end() == 0
        shutdown_s = time.monotonic() - start_s
        assert shutdown_s < SHUTDOWN_TIMEOUT_S
        restartable_cluster.workers.remove(newcomer)
        newcomer.close()
        flow.wait_until_balanced(3)
        flow.wait_until_running()
        flow.wait_until_new_output()
    log.info("fourth worker: pause of %.1f s, stopped in %.1f s", join_pause_s, shutdown_s)
    log.info("pauses of %s s", round_pauses(flow.pauses))
    assert all(pipe.is_through_exactly() for pipe in flow.pipes), flow.repeats()


def test_rolling_restart_neither_loses_nor_duplicates_records(
    flow: Flow, restartable_cluster: ProcessCluster
) -> None:
    with flow.flowing():
        for turn, worker in enumerate(restartable_cluster.workers):
            start_s = time.monotonic()
            assert worker.end() == 0
            shutdown_s = time.monotonic() - start_s
            assert shutdown_s < SHUTDOWN_TIMEOUT_S
            flow.wait_until_balanced(2)
            other_worker = restartable_cluster.alive[0]
            log_size = len(other_worker.log_text())
            worker.start()
            worker.wait_until("the worker was in the group", partial(is_healthy, worker))
            flow.wait_until_balanced(3)
            flow.wait_until_running()
            generations = set(
                re.findall(r"Joined group at generation (\d+)", other_worker.log_text()[log_size:])
            )
            assert 1 <= len(generations) <= MAX_GENERATIONS, generations
            log.info(
                "step %d: stopped in %.1f s; pauses of %s s so far",
                turn,
                shutdown_s,
                round_pauses(flow.pauses),
            )
        flow.wait_until_new_output()
    log.info("rolling restart: pauses of %s s", round_pauses(flow.pauses))
    assert all(pipe.is_through_exactly() for pipe in flow.pipes), flow.repeats()

"""Workers that come and go in an orderly way: no line is lost, none comes twice, and the work is shared again."""

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
from tests.fakes.spark.flow import Flow, rounded

pytestmark = pytest.mark.ci

log = logging.getLogger(__name__)

STATED_S = 5.0 + 15.0
"""What docs/operations.md says of SIGTERM: `task.shutdown.graceful.timeout.ms`, and 15 s for the rest."""
MOST_ROUNDS = 4
"""Two rebalances of two rounds: one revokes, the next hands out."""


@pytest.fixture(scope="module")
def travellers(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Three workers; tests leave as many."""
    cluster = ProcessCluster(directory=tmp_path_factory.mktemp("leaving"), bootstrap=kafka.bootstrap)
    cluster.start(3)
    yield cluster
    cluster.close()


@pytest.fixture
def flow(travellers: ProcessCluster, kafka: Broker, tmp_path: Path) -> Iterator[Flow]:
    """Four pipes: not as many as fit evenly."""
    made = Flow(travellers, kafka.bootstrap, tmp_path, 4)
    yield made
    made.stop()
    made.delete()


def is_healthy(worker: WorkerProcess) -> bool:
    return worker.get("/health").status == 200


@pytest.mark.slow  # a fourth Spark next to three takes a minute and a half to start on two cores
def test_a_worker_that_joins_gets_its_share_in_two_rounds_and_one_that_ends_gives_it_back(
    flow: Flow, travellers: ProcessCluster
) -> None:
    flow.wait_until_balanced(3)
    first = travellers.workers[0]
    with flow.flowing():
        seen = len(first.log_text())
        travellers.start(1)
        newcomer = travellers.workers[-1]
        flow.wait_until_balanced(4)
        flow.wait_until_running()
        rounds = set(re.findall(r"Joined group at generation (\d+)", first.log_text()[seen:]))
        assert 1 <= len(rounds) <= MOST_ROUNDS, rounds
        flow.wait_until_lines_come_again()
        joining_s = max(flow.pauses.values())
        began = time.monotonic()
        assert newcomer.end() == 0
        took_s = time.monotonic() - began
        assert took_s < STATED_S
        travellers.workers.remove(newcomer)
        newcomer.close()
        flow.wait_until_balanced(3)
        flow.wait_until_running()
        flow.wait_until_lines_come_again()
    log.info("a fourth worker: %.1f s without lines; it ended in %.1f s", joining_s, took_s)
    log.info("in all: %s s without lines", rounded(flow.pauses))
    assert all(pipe.is_through_exactly() for pipe in flow.pipes), flow.repeats()


def test_a_rolling_restart_neither_loses_nor_repeats_a_line(flow: Flow, travellers: ProcessCluster) -> None:
    with flow.flowing():
        for turn, worker in enumerate(travellers.workers):
            began = time.monotonic()
            assert worker.end() == 0
            took_s = time.monotonic() - began
            assert took_s < STATED_S
            flow.wait_until_balanced(2)
            other = travellers.alive[0]
            seen = len(other.log_text())
            worker.start()
            worker.wait_until("it was in the group", partial(is_healthy, worker))
            flow.wait_until_balanced(3)
            flow.wait_until_running()
            rounds = set(re.findall(r"Joined group at generation (\d+)", other.log_text()[seen:]))
            assert 1 <= len(rounds) <= MOST_ROUNDS, rounds
            log.info(
                "step %d: ended in %.1f s; %s s without lines so far", turn, took_s, rounded(flow.pauses)
            )
        flow.wait_until_lines_come_again()
    log.info("rolling restart: %s s without lines", rounded(flow.pauses))
    assert all(pipe.is_through_exactly() for pipe in flow.pipes), flow.repeats()

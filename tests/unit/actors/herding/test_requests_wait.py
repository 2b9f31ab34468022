"""Tests for restart requests that arrive while tasks stop for a rebalance, before or after the start of Spark.

A task can stop only after the `start` method of its plugin has returned. The method may take seconds, for example to
import PySpark or to join a group. In Java, requests wait in the queue of the tick thread, which stops tasks and
rebalances. Here, local instances are restarted immediately, and other requests wait until the owner is determined.
"""

from __future__ import annotations

import pytest

from actors.messages.herder import (
    CreateConnector,
    GroupLost,
    PutConfig,
    RestartConnector,
    RestartTask,
    ShutDown,
)
from actors.runtime.mailbox import Ask
from kraal.core.errors import KraalError, Unavailable
from kraal.core.ids import ConnectorName, TaskId
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.plugins import FAKE_SOURCE

X, Y = ConnectorName("x"), ConnectorName("y")
SEEDS = range(4)
STOP_DELAY_S = 4.0

REQUESTS = [
    pytest.param(RestartConnector(name=X), id="restart the connector"),
    pytest.param(RestartConnector(name=X, include_tasks=True), id="restart the connector and its tasks"),
    pytest.param(RestartTask(task=TaskId(X, 0)), id="restart a task"),
    pytest.param(RestartTask(task=TaskId(X, 2)), id="restart a new task"),
    pytest.param(RestartConnector(name=Y), id="restart another connector"),
    pytest.param(RestartTask(task=TaskId(Y, 0)), id="restart another connector's task"),
]


def config(tasks: int) -> dict[str, str | None]:
    return {"connector.class": FAKE_SOURCE, "tasks.max": str(tasks)}


def slow_down_stops(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for worker in cluster.workers:
        monkeypatch.setattr(worker, "stop_delay_s", lambda: STOP_DELAY_S)


def cluster_with_stopping_tasks(
    seed: int, workers: int, monkeypatch: pytest.MonkeyPatch, *, is_spark_up: bool
) -> EmbeddedCluster:
    """Return a cluster whose connector x still runs its previous two tasks, although three are configured."""
    cluster = EmbeddedCluster(workers, seed=seed)
    cluster.settle()
    slow_down_stops(cluster, monkeypatch)
    if not is_spark_up:
        for worker in cluster.workers:
            worker.engine.lose("Spark is starting")
    for name in (X, Y):
        cluster.create(name, config(2))
    cluster.run_until(lambda: count_running_tasks(cluster) == 4, timeout_s=30)
    cluster.request(PutConfig(name=X, config=config(3)))
    cluster.run_until(
        lambda: all(len(w.snapshot.config.connectors[X].tasks) == 3 for w in cluster.workers), timeout_s=30
    )
    assert count_running_tasks(cluster) >= 4, "the tasks of x stop slowly"
    return cluster


def count_running_tasks(cluster: EmbeddedCluster) -> int:
    return sum(len(worker.engine.running) for worker in cluster.workers)


def recover(cluster: EmbeddedCluster) -> None:
    for worker in cluster.workers:
        worker.engine.recover()
    cluster.settle()
    assert cluster.states(X) == ["RUNNING"] * 4
    assert cluster.states(Y) == ["RUNNING"] * 3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("is_spark_up", [True, False], ids=["Spark is up", "Spark is starting"])
@pytest.mark.parametrize("message", REQUESTS)
def test_restart_waits_without_409_while_tasks_stop(
    message: Ask[object],
    is_spark_up: bool,  # noqa: FBT001 - parametrized
    workers: int,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = cluster_with_stopping_tasks(seed, workers, monkeypatch, is_spark_up=is_spark_up)
    for worker in cluster.awake:
        cluster.request(message, worker, timeout_s=0)
    recover(cluster)


@pytest.mark.parametrize("seed", SEEDS)
def test_local_connector_is_restarted_immediately(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_with_stopping_tasks(seed, 1, monkeypatch, is_spark_up=False)
    start_s = cluster.clock.now()
    for name in (X, Y):
        cluster.ask(cluster.leader, RestartConnector(name=name))
    assert cluster.clock.now() - start_s < STOP_DELAY_S / 2
    recover(cluster)


@pytest.mark.parametrize("seed", SEEDS)
def test_restart_after_a_creation_waits_without_409(seed: int) -> None:
    cluster = EmbeddedCluster(1, seed=seed)
    cluster.settle()
    for name in (X, Y):
        cluster.ask(cluster.leader, CreateConnector(name=name, config=config(2)))
        cluster.ask(cluster.leader, RestartConnector(name=name))
    cluster.settle()


@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_request_fails_at_shutdown(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_with_stopping_tasks(seed, 1, monkeypatch, is_spark_up=True)
    herder = cluster.leader.assembly.herder
    request = herder.question(RestartTask(task=TaskId(X, 0)))
    cluster.scheduler.run()
    assert not request.done()
    shutdown = herder.question(ShutDown())
    cluster.run_until(request.done, timeout_s=1)
    assert isinstance(request.exception(), Unavailable)
    cluster.run_until(shutdown.done, timeout_s=30)


@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_request_fails_when_the_group_is_lost(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_with_stopping_tasks(seed, 1, monkeypatch, is_spark_up=True)
    leader = cluster.leader
    request = leader.assembly.herder.question(RestartTask(task=TaskId(X, 2)))
    cluster.scheduler.run()
    assert not request.done()
    leader.assembly.herder.tell(GroupLost("the test ends the membership"))
    cluster.run_until(request.done, timeout_s=1)
    assert isinstance(request.exception(), KraalError)

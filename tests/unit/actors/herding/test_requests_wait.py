"""Restart requests while tasks stop for a rebalance, for example before Spark is started.

A task stops after its plugin's `start` has returned, which may take seconds to import PySpark or join a group. In Java,
requests wait in the queue of the tick thread, which stops tasks and rebalances. Here, local instances are restarted at
once, and other requests wait until the owner is determined.
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
SLOW_S = 4.0

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


def cluster_with_slow_stops(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for worker in cluster.workers:
        monkeypatch.setattr(worker, "stop_delay_s", lambda: SLOW_S)


def cluster_with_stopping_tasks(
    seed: int, workers: int, monkeypatch: pytest.MonkeyPatch, *, up: bool
) -> EmbeddedCluster:
    """Return workers whose connector x has three tasks but runs its previous two; `up`: Spark has started."""
    cluster = EmbeddedCluster(workers, seed=seed)
    cluster.settle()
    cluster_with_slow_stops(cluster, monkeypatch)
    if not up:
        for worker in cluster.workers:
            worker.engine.lose("Spark is starting")
    for name in (X, Y):
        cluster.create(name, config(2))
    cluster.run_until(lambda: count_opened_tasks(cluster) == 4, timeout_s=30)
    cluster.request(PutConfig(name=X, config=config(3)))
    cluster.run_until(
        lambda: all(len(w.snapshot.config.connectors[X].tasks) == 3 for w in cluster.workers), timeout_s=30
    )
    assert count_opened_tasks(cluster) >= 4, "its tasks stop slowly"
    return cluster


def count_opened_tasks(cluster: EmbeddedCluster) -> int:
    return sum(len(worker.engine.running) for worker in cluster.workers)


def recover(cluster: EmbeddedCluster) -> None:
    for worker in cluster.workers:
        worker.engine.recover()
    cluster.settle()
    assert cluster.states(X) == ["RUNNING"] * 4
    assert cluster.states(Y) == ["RUNNING"] * 3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("up", [True, False], ids=["Spark is up", "Spark is starting"])
@pytest.mark.parametrize("message", REQUESTS)
def test_restart_waits_without_409_while_tasks_stop(
    message: Ask[object],
    up: bool,  # noqa: FBT001 - a row
    workers: int,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = cluster_with_stopping_tasks(seed, workers, monkeypatch, up=up)
    for worker in cluster.awake:
        cluster.request(message, worker, timeout_s=0)
    recover(cluster)


@pytest.mark.parametrize("seed", SEEDS)
def test_local_connector_is_restarted_immediately(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_with_stopping_tasks(seed, 1, monkeypatch, up=False)
    began_s = cluster.clock.now()
    for name in (X, Y):
        cluster.ask(cluster.leader, RestartConnector(name=name))
    assert cluster.clock.now() - began_s < SLOW_S / 2
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
    cluster = cluster_with_stopping_tasks(seed, 1, monkeypatch, up=True)
    herder = cluster.leader.assembly.herder
    waiting = herder.question(RestartTask(task=TaskId(X, 0)))
    cluster.scheduler.run()
    assert not waiting.done()
    closing = herder.question(ShutDown())
    cluster.run_until(waiting.done, timeout_s=1)
    assert isinstance(waiting.exception(), Unavailable)
    cluster.run_until(closing.done, timeout_s=30)


@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_request_completes_when_the_group_is_lost(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_with_stopping_tasks(seed, 1, monkeypatch, up=True)
    leader = cluster.leader
    waiting = leader.assembly.herder.question(RestartTask(task=TaskId(X, 2)))
    cluster.scheduler.run()
    assert not waiting.done()
    leader.assembly.herder.tell(GroupLost("the test says so"))
    cluster.run_until(waiting.done, timeout_s=1)
    assert isinstance(waiting.exception(), KraalError)

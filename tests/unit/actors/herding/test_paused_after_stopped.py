"""Tests that a connector that was STOPPED and is then PAUSED has no tasks until it is resumed, as in Java Connect.

Source: DistributedHerder and StandaloneHerder, which generate task configs only for a connector whose target state
is STARTED (Kafka 4.4.0); ConnectWorkerIntegrationTest.testPauseStopResume; KIP-875, KIP-980. The results of these
sequences were observed for both herders of a 4.3.0 worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.messages.herder import CreateConnector, PutConfig, RestartConnector, SetTargetState
from actors.runtime.mailbox import Ask
from kraal.cluster.views import rest as view
from kraal.core.ids import ConnectorName, TargetState
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
SEEDS = range(3)

STOP, PAUSE, RESUME = (
    SetTargetState(name=NAME, target=target)
    for target in (TargetState.STOPPED, TargetState.PAUSED, TargetState.STARTED)
)
RESTART = RestartConnector(name=NAME, include_tasks=False, only_failed=False)
RESTART_ALL = RestartConnector(name=NAME, include_tasks=True, only_failed=False)


def config(**overrides: str) -> dict[str, str | None]:
    return {"connector.class": FAKE_SOURCE, "tasks.max": "2", **overrides}


RECONFIGURE = PutConfig(name=NAME, config=config(**{"tasks.max": "3"}))

HISTORIES = [
    pytest.param(None, [STOP, PAUSE], id="running, stopped, paused"),
    pytest.param(None, [PAUSE, STOP, PAUSE, PAUSE], id="paused before the stop, and twice after it"),
    pytest.param(TargetState.PAUSED, [STOP, PAUSE], id="created paused"),
    pytest.param(TargetState.STOPPED, [PAUSE], id="created stopped"),
    pytest.param(None, [STOP, PAUSE, RESTART], id="restarted"),
    pytest.param(None, [STOP, PAUSE, RESTART_ALL], id="restarted with its tasks"),
    pytest.param(None, [STOP, PAUSE, STOP, RESUME, STOP, PAUSE], id="several times"),
]


class StandaloneWorker:
    """A standalone worker."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._worker = EmbeddedWorker(seed=seed)

    def send(self, message: Ask[Any]) -> None:
        self._worker.ask(message)
        self._worker.advance(2)

    def states(self) -> list[str]:
        assert len(view.task_infos(self._worker.snapshot, NAME)) == self.task_count()
        return self._worker.states(NAME)

    def task_count(self) -> int:
        return len(self._worker.status(NAME)["tasks"])

    def crash_actor(self, actor: str) -> None:
        self._worker.crash(actor)
        self._worker.advance(2)

    def restart(self) -> None:
        stopped_worker = self._worker
        stopped_worker.close()
        self._worker = EmbeddedWorker(
            seed=self._seed,
            config_log=stopped_worker.config_log,
            status_log=stopped_worker.status_log,
            offsets=stopped_worker.offsets,
        )
        self._worker.advance(2)


class Group:
    """A group of two workers."""

    def __init__(self, seed: int) -> None:
        self._cluster = EmbeddedCluster(2, seed=seed)
        self._cluster.settle()

    def send(self, message: Ask[Any]) -> None:
        self._cluster.request(message)
        self._cluster.advance(2)

    def states(self) -> list[str]:
        self._cluster.settle()
        infos = [view.task_infos(w.snapshot, NAME) for w in self._cluster.awake]
        assert {len(tasks) for tasks in infos} == {self.task_count()}
        return self._cluster.states(NAME)

    def task_count(self) -> int:
        return len(self._cluster.states(NAME)) - 1

    def crash_actor(self, actor: str) -> None:
        workers = [worker for worker in self._cluster.awake if actor in worker.actors]
        assert workers
        for worker in workers:
            self._cluster.crash(worker, actor)
        self._cluster.advance(2)

    def restart(self) -> None:
        for worker in list(self._cluster.awake):
            self._cluster.add()
            self._cluster.close(worker)
            self._cluster.settle()


WorkerFactory = Callable[[int], StandaloneWorker | Group]
BOTH_MODES = pytest.mark.parametrize(
    "create_worker", [StandaloneWorker, Group], ids=["standalone", "distributed"]
)


@BOTH_MODES
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("initial", "history"), HISTORIES)
def test_stopped_then_paused_connector_has_no_tasks_until_resume(
    create_worker: WorkerFactory, seed: int, initial: TargetState | None, history: list[Ask[Any]]
) -> None:
    worker = create_worker(seed)
    worker.send(CreateConnector(name=NAME, config=config(), initial_state=initial))
    for message in history:
        worker.send(message)
    assert worker.states() == ["PAUSED"]
    worker.send(RESUME)
    assert worker.states() == ["RUNNING", "RUNNING", "RUNNING"]


@BOTH_MODES
@pytest.mark.parametrize("seed", SEEDS)
def test_resume_applies_the_latest_config(create_worker: WorkerFactory, seed: int) -> None:
    worker = create_worker(seed)
    for message in (CreateConnector(name=NAME, config=config()), STOP, PAUSE, RECONFIGURE):
        worker.send(message)
    assert worker.states() == ["PAUSED"]
    worker.send(RESUME)
    assert worker.states() == ["RUNNING"] * 4


@BOTH_MODES
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("actor", ["herder", "worker", f"connector {NAME}"])
def test_actor_death_does_not_start_tasks(create_worker: WorkerFactory, seed: int, actor: str) -> None:
    worker = create_worker(seed)
    for message in (CreateConnector(name=NAME, config=config()), STOP, PAUSE):
        worker.send(message)
    worker.crash_actor(actor)
    assert worker.states() == ["PAUSED"]
    worker.send(RESUME)
    assert worker.states() == ["RUNNING", "RUNNING", "RUNNING"]


@BOTH_MODES
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("messages_before", [1, 2], ids=["between stop and pause", "after the pause"])
def test_worker_restart_does_not_start_tasks(
    create_worker: WorkerFactory, seed: int, messages_before: int
) -> None:
    worker = create_worker(seed)
    worker.send(CreateConnector(name=NAME, config=config()))
    for message in (STOP, PAUSE)[:messages_before]:
        worker.send(message)
    worker.restart()
    for message in (STOP, PAUSE)[messages_before:]:
        worker.send(message)
    assert worker.states() == ["PAUSED"]
    worker.send(RESUME)
    assert worker.states() == ["RUNNING", "RUNNING", "RUNNING"]


@BOTH_MODES
@pytest.mark.parametrize("seed", SEEDS)
def test_paused_connector_keeps_its_task_configs(create_worker: WorkerFactory, seed: int) -> None:
    worker = create_worker(seed)
    for message in (CreateConnector(name=NAME, config=config()), PAUSE, RECONFIGURE, RESTART_ALL):
        worker.send(message)
    assert worker.states() == ["PAUSED", "PAUSED", "PAUSED"]
    worker.send(RESUME)
    assert worker.states() == ["RUNNING"] * 4


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_creation_completes_if_the_connector_is_paused_or_stopped_meanwhile(
    seed: int, target: TargetState
) -> None:
    worker = EmbeddedWorker(seed=seed)
    creation = worker.assembly.herder.question(CreateConnector(name=NAME, config=config()))
    for _ in range(seed):
        worker.scheduler.step()
    if NAME in worker.snapshot.config.connectors:
        worker.ask(SetTargetState(name=NAME, target=target))
    worker.run()
    assert creation.done()
    assert creation.exception() is None

"""Tests that the instances of a restart request all stop before any of them starts, despite actor deaths (KIP-745)."""

from __future__ import annotations

from collections import Counter

import pytest

from actors.messages.herder import CreateConnector, RestartConnector
from kraal.core.errors import NotFound
from kraal.core.ids import ConnectorName, State, TaskId
from kraal.protocol.status_records import status_key
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
CONFIG = {"connector.class": FAKE_SOURCE, "tasks.max": "3"}
RESTART = RestartConnector(name=NAME, include_tasks=True)


@pytest.mark.parametrize("seed", range(6))
def test_restarted_instances_start_after_the_slowest_stop(seed: int) -> None:
    cluster = EmbeddedCluster(1, seed=seed, stop_s=2)
    cluster.settle()
    cluster.create(NAME, CONFIG)
    cluster.settle()
    [worker] = cluster.alive
    opened_before, opened_counts = len(worker.engine.opened), set()
    cluster.request(RESTART)
    for _ in range(300):
        cluster.advance(0.01)
        opened_counts.add(len(worker.engine.opened) - opened_before)
    assert opened_counts == {0, 3}, "the tasks stop one after another and start together"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("steps", [1, 3, 6, 10, 15, 25])
@pytest.mark.parametrize("actor", ["worker", "herder", "status writer"])
def test_restart_completes_when_an_actor_dies(seed: int, steps: int, actor: str) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    future = worker.assembly.herder.question(RESTART)
    for _ in range(steps):
        worker.scheduler.step()
    worker.crash(actor)
    worker.advance(20)
    assert future.done()
    assert worker.states(NAME) == ["RUNNING"] * 4
    assert worker.fake.running == {TaskId(NAME, number) for number in range(3)}


@pytest.mark.parametrize("seed", range(6))
def test_concurrent_restart_requests_both_complete(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    worker.fake.fail(TaskId(NAME, 1), "Broken: a test broke it")
    worker.run()
    restart_failed = RestartConnector(name=NAME, include_tasks=True, only_failed=True)
    futures = [
        worker.assembly.herder.question(message) for message in (restart_failed, RESTART, restart_failed)
    ]
    worker.run()
    assert all(future.result() for future in futures)
    assert worker.states(NAME) == ["RUNNING"] * 4
    keys = [record.key for record in worker.status_log.read(0, 1000)]
    assert keys[-1] in {status_key(NAME), *(status_key(TaskId(NAME, n)) for n in range(3))}
    assert State.RESTARTING not in worker.states(NAME)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("steps", [0, 2, 5, 14, 40, 80])
def test_restarted_herder_executes_a_restart_request_once(seed: int, steps: int) -> None:
    cluster = EmbeddedCluster(2, seed=seed)
    cluster.settle()
    cluster.create(NAME, CONFIG)
    cluster.settle()
    opened_before = [task for worker in cluster.alive for task in worker.engine.opened]
    follower = next(worker for worker in cluster.alive if worker is not cluster.leader)
    future = cluster.leader.assembly.herder.question(RESTART)
    for _ in range(steps):
        cluster.scheduler.step()
    cluster.crash(follower, "herder")
    cluster.run_until(future.done, timeout_s=30)
    cluster.advance(10)
    cluster.settle()
    assert future.done()
    reopened_tasks = Counter(task for worker in cluster.alive for task in worker.engine.opened) - Counter(
        opened_before
    )
    assert reopened_tasks == Counter(TaskId(NAME, number) for number in range(3))


@pytest.mark.parametrize("seed", range(4))
def test_deferred_restart_request_survives_the_herder(seed: int) -> None:
    cluster = EmbeddedCluster(3, seed=seed)
    cluster.settle()
    cluster.create(NAME, CONFIG)
    cluster.settle()
    for worker in cluster.alive:
        for task in set(worker.engine.running):
            worker.engine.fail(task, "Broken: a test broke it")
    cluster.advance(2)
    assert cluster.states(NAME).count("FAILED") == 3
    follower, frozen_worker = (worker for worker in cluster.alive if worker is not cluster.leader)
    cluster.freeze(frozen_worker)
    cluster.create("another", CONFIG)  # a rebalance begins, and waits for the frozen worker
    cluster.advance(0.3)
    restart_failed = RestartConnector(name=NAME, include_tasks=True, only_failed=True)
    future = cluster.leader.assembly.herder.question(restart_failed)
    cluster.advance(0.5)
    assert NAME not in {task.connector for task in follower.engine.running}, (
        "the restarted task waits for the end of the rebalance"
    )
    cluster.crash(follower, "herder")
    cluster.advance(1)
    cluster.thaw(frozen_worker)
    cluster.advance(10)
    cluster.settle()
    assert future.done()
    assert cluster.states(NAME) == ["RUNNING"] * 4


def test_restart_of_a_connector_without_a_status_is_ignored_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = []
    for steps in range(4, 20, 2):  # some of these steps lie between the reads of the config and of the status
        worker = EmbeddedWorker(seed=1)
        worker.run()
        worker.assembly.herder.question(CreateConnector(name=NAME, config=CONFIG))
        for _ in range(steps):
            worker.scheduler.step()
        future = worker.assembly.herder.question(RESTART)
        worker.run()
        if isinstance(future.exception(), NotFound) and "Status" in str(future.exception()):
            errors.append(str(future.exception()))
    ignored_requests = [
        message for message in caplog.messages if message.startswith("Ignored a restart request")
    ]
    assert errors
    assert set(errors) == {f"Status for connector {NAME} not found"}
    assert len(ignored_requests) == len(errors)

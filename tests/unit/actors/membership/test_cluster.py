"""Tests for clusters of workers under the seeded scheduler: assignments, failures and restart requests."""

from __future__ import annotations

from typing import Any

import pytest

from actors.messages.herder import (
    CreateConnector,
    DeleteConnector,
    Ping,
    PutConfig,
    RestartConnector,
    RestartTask,
    SetTargetState,
)
from kraal.core.errors import NotLeader, NotOwner, RetryableConflict
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.protocol.group import ConnectProtocol
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.cluster_worker import ClusterWorker
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE

NAME = ConnectorName("numbers")
SEEDS = range(4)
PROTOCOLS = list(ConnectProtocol)


def config(tasks: int = 4, plugin: str = FAKE_SOURCE) -> dict[str, str | None]:
    return {"connector.class": plugin, "tasks.max": str(tasks), "topics": "lines"}


def create_cluster(seed: int, *, tasks: int = 4, max_delay_s: float = 0.0) -> EmbeddedCluster:
    """Return a settled cluster of three workers with one connector."""
    cluster = EmbeddedCluster(3, seed=seed, max_delay_s=max_delay_s)
    cluster.settle()
    cluster.create(NAME, config(tasks))
    cluster.settle()
    return cluster


def followers(cluster: EmbeddedCluster) -> list[ClusterWorker]:
    return [w for w in cluster.awake if w is not cluster.leader]


def owner(cluster: EmbeddedCluster, instance: ConnectorName | TaskId) -> ClusterWorker:
    [owner] = cluster.owners(instance)
    return owner


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_workers_share_all_instances(seed: int, protocol: ConnectProtocol) -> None:
    cluster = EmbeddedCluster(3, seed=seed, protocol=protocol)
    cluster.settle()
    cluster.create(NAME, config(5))
    assert cluster.settle() < 5
    counts = sorted(len(w.running) for w in cluster.alive)
    assert counts[-1] - counts[0] <= 2, "the loads differ by at most one connector and one task"
    assert cluster.states(NAME) == ["RUNNING"] * 6


@pytest.mark.parametrize("seed", SEEDS)
def test_follower_sends_task_configs_to_the_leader(seed: int) -> None:
    cluster = create_cluster(seed)
    while owner(cluster, NAME) is cluster.leader:
        cluster.close(cluster.leader)
        cluster.add()
        cluster.settle()
    cluster.request(PutConfig(name=NAME, config=config(6)))
    cluster.settle()
    assert cluster.states(NAME) == ["RUNNING"] * 7


@pytest.mark.parametrize("seed", SEEDS)
def test_work_of_a_killed_worker_is_reassigned_after_session_timeout_and_delay(seed: int) -> None:
    cluster = create_cluster(seed, max_delay_s=4)
    killed_worker = followers(cluster)[seed % 2]
    instances_before = {w.name: set(w.running) for w in cluster.alive if w is not killed_worker}
    cluster.kill(killed_worker)
    duration_s = cluster.settle(20)
    assert 9 <= duration_s <= 14
    assert all(instances_before[w.name] <= w.running for w in cluster.alive), (
        "instances on other workers are not moved"
    )
    moved_tasks = {
        i for w in cluster.alive for i in w.running - instances_before[w.name] if isinstance(i, TaskId)
    }
    opened_tasks = [task for w in cluster.alive for task in w.engine.opened]
    assert all(opened_tasks.count(task) == 1 for task in opened_tasks if task not in moved_tasks), (
        "instances that stay on their worker are not restarted"
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "actor", ["herder", "membership", "worker", "config reader", "status writer", "publisher"]
)
def test_leader_survives_the_death_of_its_actors(seed: int, actor: str) -> None:
    cluster = create_cluster(seed)
    leader, instances_before = cluster.leader, {w.name: set(w.running) for w in cluster.alive}
    opened_count = sum(len(w.engine.opened) for w in cluster.alive)
    cluster.crash(leader, actor)
    cluster.advance(1)
    cluster.settle()
    assert cluster.leader is leader
    assert {w.name: w.running for w in cluster.alive} == instances_before
    assert sum(len(w.engine.opened) for w in cluster.alive) == opened_count, "no task was restarted"
    cluster.create("more", config(3))
    cluster.settle()


@pytest.mark.parametrize("seed", SEEDS)
def test_rejection_contains_the_url_of_the_leader_or_owner(seed: int) -> None:
    cluster = create_cluster(seed)
    for worker in followers(cluster):
        with pytest.raises(NotLeader) as not_leader:
            cluster.ask(worker, CreateConnector(name=ConnectorName("other"), config=config()))
        assert not_leader.value.leader_url == cluster.leader.url
    task = next(TaskId(NAME, n) for n in range(4) if owner(cluster, TaskId(NAME, n)) is not cluster.leader)
    with pytest.raises(NotOwner) as not_owner:
        cluster.ask(cluster.leader, RestartTask(task=task))
    assert not_owner.value.owner_url == owner(cluster, task).url
    third_worker = next(w for w in followers(cluster) if w is not owner(cluster, task))
    with pytest.raises(NotLeader):
        cluster.ask(third_worker, RestartTask(task=task))
    cluster.request(RestartTask(task=task), third_worker)
    cluster.settle()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("only_failed", [False, True])
def test_restart_request_is_executed_by_all_owners(seed: int, only_failed: bool) -> None:  # noqa: FBT001 - parametrized
    cluster = create_cluster(seed)
    failed_tasks = [TaskId(NAME, 1), TaskId(NAME, 3)]
    opened_counts = {
        task: sum(w.engine.opened.count(task) for w in cluster.alive) for task in map(_task, range(4))
    }
    for task in failed_tasks:
        owner(cluster, task).engine.fail(task, "DiskFull: no space left")
    cluster.advance(1)
    assert cluster.states(NAME).count("FAILED") == 2
    body: Any = cluster.request(
        RestartConnector(name=NAME, include_tasks=True, only_failed=only_failed), followers(cluster)[0]
    )
    assert body is not None
    assert [task["state"] for task in body["tasks"]] == [
        "RUNNING" if only_failed and task not in failed_tasks else "RESTARTING" for task in opened_counts
    ], "the states are derived from the statuses before the request"
    cluster.settle()
    restarted_tasks = {
        task
        for task, count in opened_counts.items()
        if sum(w.engine.opened.count(task) for w in cluster.alive) > count
    }
    assert restarted_tasks == (set(failed_tasks) if only_failed else set(opened_counts))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("plugin", [FAKE_SOURCE, FAKE_SINK])
def test_frozen_worker_writes_no_records_after_reassignment(seed: int, plugin: str) -> None:
    cluster = EmbeddedCluster(3, seed=seed)
    cluster.settle()
    cluster.create(NAME, config(3, plugin))
    cluster.settle()
    tasks = [_task(n) for n in range(3)]
    frozen_worker = owner(cluster, tasks[0])
    cluster.freeze(frozen_worker)
    for task in tasks:
        cluster.feed(task, 35)
    cluster.advance(10)
    cluster.settle()
    cluster.thaw(frozen_worker)
    for task in tasks:
        cluster.feed(task, 20)
    cluster.settle()
    cluster.advance(1)
    assert {task: cluster.outside.written[task] for task in tasks} == {
        task: list(range(55)) for task in tasks
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_frozen_leader_does_not_overwrite_its_successors_config(seed: int) -> None:
    cluster = create_cluster(seed)
    frozen_leader = cluster.leader
    late_request = frozen_leader.assembly.herder.question(PutConfig(name=NAME, config=config(1)))
    cluster.freeze(frozen_leader)
    cluster.advance(20)
    cluster.request(PutConfig(name=NAME, config=config(2)))
    cluster.settle()
    cluster.thaw(frozen_leader)
    cluster.run_until(late_request.done, timeout_s=30)
    cluster.settle()
    assert isinstance(late_request.exception(), RetryableConflict | NotLeader)
    assert cluster.states(NAME) == ["RUNNING"] * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_reassignments_duplicate_no_records(seed: int) -> None:
    cluster = create_cluster(seed)
    for step in range(6):
        for number in range(4):
            cluster.feed(_task(number), 7)
        if step % 2:
            cluster.close(cluster.random.choice(cluster.awake))
        else:
            cluster.add()
        cluster.advance(cluster.random.uniform(0, 1))
    cluster.settle()
    assert [cluster.outside.written[_task(n)] for n in range(4)] == [list(range(42))] * 4


@pytest.mark.parametrize("seed", SEEDS)
def test_returning_worker_stops_connectors_deleted_meanwhile(seed: int) -> None:
    cluster = create_cluster(seed)
    frozen_worker = followers(cluster)[0]
    cluster.freeze(frozen_worker)
    cluster.request(DeleteConnector(name=NAME))
    cluster.advance(20)
    cluster.thaw(frozen_worker)
    cluster.settle()
    assert [w.running for w in cluster.alive] == [set()] * 3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_restarted_herder_applies_a_target_state_set_meanwhile(seed: int, target: TargetState) -> None:
    cluster = create_cluster(seed)
    for worker in cluster.awake:
        cluster.crash(worker, "herder")
        cluster.crash(worker, "task numbers-0" if _task(0) in worker.running else "worker")
    cluster.advance(0)
    cluster.request(SetTargetState(name=NAME, target=target))
    cluster.settle()
    cluster.request(SetTargetState(name=NAME, target=TargetState.STARTED))
    cluster.settle()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("message_count", [0, 1, 2, 4])
def test_worker_becomes_ready_although_its_herder_dies_during_startup(seed: int, message_count: int) -> None:
    """Regression test: `/health` reported "starting" forever."""
    cluster = EmbeddedCluster(0, seed=seed)
    worker = cluster.add()
    while "herder" not in worker.actors:
        assert cluster.scheduler.step()
    for _ in range(message_count):
        cluster.scheduler.step()
    cluster.crash(worker, "herder")
    cluster.settle()
    assert worker.snapshot.ready
    cluster.ask(worker, Ping())


def _task(number: int) -> TaskId:
    return TaskId(NAME, number)

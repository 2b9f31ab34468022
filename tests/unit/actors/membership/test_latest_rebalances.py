"""Tests for the latest rebalances that each worker of a cluster stores."""

from __future__ import annotations

import pytest

from kraal.cluster.views.rebalances import MAX_REBALANCES, Rebalance
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.cluster_worker import ClusterWorker
from kraal.testing._simulation.worker import EmbeddedWorker

SEEDS = range(4)


def create_cluster(workers: int, seed: int) -> EmbeddedCluster:
    cluster = EmbeddedCluster(workers, seed=seed)
    cluster.settle()
    return cluster


def stored_rebalances(worker: ClusterWorker) -> tuple[Rebalance, ...]:
    return worker.snapshot.rebalances


@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_leader_stores_rebalance_reasons(seed: int) -> None:
    cluster = create_cluster(1, seed)
    leader = cluster.leader
    follower = cluster.add()
    cluster.settle()
    assert stored_rebalances(leader)[0].generation == leader.snapshot.generation
    assert any(
        (rebalance.reason or "").startswith("joined: http://") for rebalance in stored_rebalances(leader)
    )
    assert all(
        rebalance.reason is not None and rebalance.delay_ms is not None
        for rebalance in stored_rebalances(leader)
    )
    assert {rebalance.leader_url for rebalance in stored_rebalances(leader)} == {leader.snapshot.leader_url}
    generations = [rebalance.generation for rebalance in stored_rebalances(leader)]
    assert generations == sorted(generations, reverse=True)
    follower_generations = [rebalance.generation for rebalance in stored_rebalances(follower)]
    assert follower_generations == generations[: len(follower_generations)]
    assert {(rebalance.reason, rebalance.delay_ms) for rebalance in stored_rebalances(follower)} == {
        (None, None)
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_new_leader_has_no_reasons_of_earlier_rebalances(seed: int) -> None:
    cluster = create_cluster(2, seed)
    old_leader = cluster.leader
    [new_leader] = [worker for worker in cluster.alive if worker is not old_leader]
    earlier_rebalances = stored_rebalances(new_leader)
    cluster.kill(old_leader)
    cluster.settle()
    assert cluster.leader is new_leader
    later_rebalances = stored_rebalances(new_leader)[
        : len(stored_rebalances(new_leader)) - len(earlier_rebalances)
    ]
    assert stored_rebalances(new_leader)[len(later_rebalances) :] == earlier_rebalances
    assert later_rebalances
    assert all(rebalance.reason is not None for rebalance in later_rebalances)
    assert {rebalance.leader_url for rebalance in later_rebalances} == {new_leader.snapshot.leader_url}
    assert {rebalance.leader_url for rebalance in earlier_rebalances} == {old_leader.snapshot.leader_url}


@pytest.mark.parametrize("seed", SEEDS)
def test_restarted_herder_keeps_rebalances_without_duplicates(seed: int) -> None:
    cluster = create_cluster(2, seed)
    rebalances_before = {worker.name: stored_rebalances(worker) for worker in cluster.alive}
    for worker in cluster.alive:
        cluster.crash(worker, "herder")
    cluster.settle()
    cluster.advance(5)
    for worker in cluster.alive:
        rebalances_after = stored_rebalances(worker)
        new_count = len(rebalances_after) - len(rebalances_before[worker.name])
        assert rebalances_after[new_count:] == rebalances_before[worker.name]
        assert len({rebalance.generation for rebalance in rebalances_after}) == len(rebalances_after)
    assert all(rebalances_before.values())


def test_only_the_last_ten_rebalances_are_kept() -> None:
    cluster = create_cluster(1, 0)
    for _ in range(MAX_REBALANCES):
        worker = cluster.add()
        cluster.settle()
        cluster.close(worker)
        cluster.settle()
    rebalances = stored_rebalances(cluster.leader)
    assert len(rebalances) == MAX_REBALANCES == 10
    assert rebalances[0].generation == cluster.leader.snapshot.generation
    assert rebalances[0].completed_ms > rebalances[-1].completed_ms


def test_standalone_worker_has_no_rebalances() -> None:
    assert EmbeddedWorker().snapshot.rebalances == ()

"""The latest rebalances that each worker of a cluster stores."""

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
    assert any((each.reason or "").startswith("joined: http://") for each in stored_rebalances(leader))
    assert all(each.reason is not None and each.delay_ms is not None for each in stored_rebalances(leader))
    assert {each.leader_url for each in stored_rebalances(leader)} == {leader.snapshot.leader_url}
    generations = [each.generation for each in stored_rebalances(leader)]
    assert generations == sorted(generations, reverse=True)
    told = [each.generation for each in stored_rebalances(follower)]
    assert told == generations[: len(told)]
    assert {(each.reason, each.delay_ms) for each in stored_rebalances(follower)} == {(None, None)}


@pytest.mark.parametrize("seed", SEEDS)
def test_new_leader_has_no_reasons_of_earlier_rebalances(seed: int) -> None:
    cluster = create_cluster(2, seed)
    former = cluster.leader
    [heir] = [worker for worker in cluster.alive if worker is not former]
    before = stored_rebalances(heir)
    cluster.kill(former)
    cluster.settle()
    assert cluster.leader is heir
    own = stored_rebalances(heir)[: len(stored_rebalances(heir)) - len(before)]
    assert stored_rebalances(heir)[len(own) :] == before
    assert own
    assert all(each.reason is not None for each in own)
    assert {each.leader_url for each in own} == {heir.snapshot.leader_url}
    assert {each.leader_url for each in before} == {former.snapshot.leader_url}


@pytest.mark.parametrize("seed", SEEDS)
def test_restarted_herder_keeps_rebalances_without_duplicates(seed: int) -> None:
    cluster = create_cluster(2, seed)
    before = {worker.name: stored_rebalances(worker) for worker in cluster.alive}
    for worker in cluster.alive:
        cluster.crash(worker, "herder")
    cluster.settle()
    cluster.advance(5)
    for worker in cluster.alive:
        after = stored_rebalances(worker)
        latest = len(after) - len(before[worker.name])  # rebalances that the previous herder did not request
        assert after[latest:] == before[worker.name]
        assert len({each.generation for each in after}) == len(after)
    assert all(before.values())


def test_only_the_last_ten_rebalances_are_kept() -> None:
    cluster = create_cluster(1, 0)
    for _ in range(MAX_REBALANCES):
        other = cluster.add()
        cluster.settle()
        cluster.close(other)
        cluster.settle()
    found = stored_rebalances(cluster.leader)
    assert len(found) == MAX_REBALANCES == 10
    assert found[0].generation == cluster.leader.snapshot.generation
    assert found[0].completed_ms > found[-1].completed_ms


def test_standalone_worker_has_no_rebalances() -> None:
    assert EmbeddedWorker().snapshot.rebalances == ()

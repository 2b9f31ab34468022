"""What each worker of a cluster remembers of the latest rebalances."""

from __future__ import annotations

import pytest

from kraal.cluster.views.rebalances import MAX_REBALANCES, Rebalance
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.cluster_worker import ClusterWorker
from kraal.testing._simulation.worker import EmbeddedWorker

SEEDS = range(4)


def cluster_of(workers: int, seed: int) -> EmbeddedCluster:
    cluster = EmbeddedCluster(workers, seed=seed)
    cluster.settle()
    return cluster


def kept(worker: ClusterWorker) -> tuple[Rebalance, ...]:
    return worker.snapshot.rebalances


@pytest.mark.parametrize("seed", SEEDS)
def test_the_leader_keeps_its_reasons_and_a_follower_keeps_generations_alone(seed: int) -> None:
    cluster = cluster_of(1, seed)
    leader = cluster.leader
    follower = cluster.add()
    cluster.settle()
    assert kept(leader)[0].generation == leader.snapshot.generation
    assert any((each.reason or "").startswith("joined: http://") for each in kept(leader))
    assert all(each.reason is not None and each.delay_ms is not None for each in kept(leader))
    assert {each.leader_url for each in kept(leader)} == {leader.snapshot.leader_url}
    generations = [each.generation for each in kept(leader)]
    assert generations == sorted(generations, reverse=True)
    told = [each.generation for each in kept(follower)]
    assert told == generations[: len(told)]
    assert {(each.reason, each.delay_ms) for each in kept(follower)} == {(None, None)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_leader_knows_its_own_reasons_and_that_another_worker_led_before(seed: int) -> None:
    cluster = cluster_of(2, seed)
    former = cluster.leader
    [heir] = [worker for worker in cluster.alive if worker is not former]
    before = kept(heir)
    cluster.kill(former)
    cluster.settle()
    assert cluster.leader is heir
    own = kept(heir)[: len(kept(heir)) - len(before)]
    assert kept(heir)[len(own) :] == before
    assert own
    assert all(each.reason is not None for each in own)
    assert {each.leader_url for each in own} == {heir.snapshot.leader_url}
    assert {each.leader_url for each in before} == {former.snapshot.leader_url}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_herder_keeps_them_and_counts_no_assignment_twice(seed: int) -> None:
    cluster = cluster_of(2, seed)
    before = {worker.name: kept(worker) for worker in cluster.alive}
    for worker in cluster.alive:
        cluster.crash(worker, "herder")
    cluster.settle()
    cluster.advance(5)
    for worker in cluster.alive:
        after = kept(worker)
        latest = len(after) - len(before[worker.name])  # of rebalances that the former herder did not request
        assert after[latest:] == before[worker.name]
        assert len({each.generation for each in after}) == len(after)
    assert all(before.values())


def test_only_the_last_ten_are_kept() -> None:
    cluster = cluster_of(1, 0)
    for _ in range(MAX_REBALANCES):
        other = cluster.add()
        cluster.settle()
        cluster.close(other)
        cluster.settle()
    found = kept(cluster.leader)
    assert len(found) == MAX_REBALANCES == 10
    assert found[0].generation == cluster.leader.snapshot.generation
    assert found[0].completed_ms > found[-1].completed_ms


def test_a_standalone_worker_has_none() -> None:
    assert EmbeddedWorker().snapshot.rebalances == ()

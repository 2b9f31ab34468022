"""Tests for membership in a simulated group, whose workers run in one thread and in virtual time."""

from __future__ import annotations

import pytest

from kraal.core.ids import ConnectorName
from kraal.protocol.group import ConnectorOrTask, ConnectProtocol, GroupProtocol
from tests.fakes.cluster.group_cluster import Cluster

SEEDS = range(12)
EAGER, COMPATIBLE, SESSIONED = ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED
PROTOCOLS = list(ConnectProtocol)


def create_cluster(count: int, seed: int, protocol: ConnectProtocol = SESSIONED, **options: float) -> Cluster:
    """Return a settled group with two connectors of four tasks each."""
    cluster = Cluster(seed, **options)
    for _ in range(count):
        cluster.add(protocol)
    cluster.configure(c1=4, c2=4)
    cluster.settle(30)
    return cluster


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_workers_share_all_instances(seed: int, protocol: ConnectProtocol) -> None:
    cluster = create_cluster(3, seed, protocol)
    assert len(cluster.broker.members) == 3
    assert (
        max(cluster.count_instances()) - min(cluster.count_instances()) <= 2
    )  # at most one connector and one task more
    leaders = [w for w in cluster.workers if w.deliveries[-1].is_leader]
    assert [w.url for w in leaders] == [cluster.workers[0].leader_url]
    assert {w.leader_url for w in cluster.workers} == {leaders[0].url}


@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_leader_receives_the_plan_with_all_owners(seed: int) -> None:
    cluster = create_cluster(3, seed)
    [leader] = [w for w in cluster.workers if w.deliveries[-1].is_leader]
    plan = leader.deliveries[-1].plan
    assert plan is not None
    owners = {instance: w.url for w in cluster.workers for instance in w.running}
    assert {
        connector_or_task: plan.owner_url(connector_or_task.instance) for connector_or_task in owners
    } == owners
    assert [w.deliveries[-1].plan for w in cluster.workers if w is not leader] == [None, None]


@pytest.mark.parametrize("seed", SEEDS)
def test_joining_worker_receives_its_share(seed: int) -> None:
    cluster = create_cluster(2, seed)
    instances_before, generation_before = (
        {w.name: w.running for w in cluster.workers},
        cluster.broker.generation,
    )
    newcomer = cluster.add()
    cluster.advance(5)
    cluster.settle(10)
    assert len(newcomer.running) in (2, 3)  # two tasks, and possibly a connector or a third task
    kept_instances = [
        instance for w in cluster.workers[:2] for instance in w.running & instances_before[w.name]
    ]
    assert len(kept_instances) == 10 - len(newcomer.running), "no other instance was reassigned"
    assert cluster.broker.generation - generation_before <= 4


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_only_work_of_a_leaving_member_is_reassigned(seed: int, is_killed: bool) -> None:  # noqa: FBT001 - parametrized
    cluster = create_cluster(3, seed)
    leaving_worker, *other_workers = sorted(cluster.workers, key=lambda w: w.deliveries[-1].is_leader)
    instances_before = {w.name: w.running for w in other_workers}
    cluster.remove(leaving_worker, kill=is_killed)
    duration_s = cluster.settle(20)
    assert duration_s <= (9 if is_killed else 3)
    assert all(instances_before[w.name] <= w.running for w in other_workers)


@pytest.mark.parametrize("seed", SEEDS)
def test_new_leader_is_elected_when_the_leader_leaves(seed: int) -> None:
    cluster = create_cluster(3, seed)
    [leader] = [w for w in cluster.workers if w.deliveries[-1].is_leader]
    cluster.remove(leader, kill=True)
    cluster.settle(20)
    assert [w.deliveries[-1].is_leader for w in cluster.alive].count(True) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_lost_work_waits_for_the_rebalance_delay(seed: int) -> None:
    cluster = create_cluster(3, seed, max_delay_s=30.0)
    leaving_worker, *_ = sorted(cluster.workers, key=lambda w: w.deliveries[-1].is_leader)
    lost_instances = leaving_worker.running
    cluster.remove(leaving_worker)
    cluster.advance(10)
    assert not cluster.is_settled
    newcomer = cluster.add()
    cluster.settle(30)
    assert newcomer.running == lost_instances


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_stop_work_without_a_coordinator_and_rejoin_with_the_same_id(
    seed: int, protocol: ConnectProtocol
) -> None:
    cluster = create_cluster(3, seed, protocol, max_delay_s=30.0)
    members = {w.group.member_id for w in cluster.workers}
    cluster.broker.stop()
    cluster.advance(10)
    assert [w.running for w in cluster.workers] == [frozenset()] * 3
    assert [w.leader_url for w in cluster.workers] == [None] * 3
    cluster.broker.start()
    cluster.settle(10)
    assert {w.group.member_id for w in cluster.workers} == members


@pytest.mark.parametrize("seed", SEEDS)
def test_short_coordinator_outage_does_not_stop_work(seed: int) -> None:
    cluster = create_cluster(3, seed)
    delivery_counts, generation = [len(w.deliveries) for w in cluster.workers], cluster.broker.generation
    cluster.broker.stop()
    cluster.advance(2)
    cluster.broker.start()
    cluster.settle(5)
    cluster.advance(10)
    assert [len(w.deliveries) for w in cluster.workers] == delivery_counts
    assert cluster.broker.generation == generation


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("max_delay_s", [0.0, 60.0])
def test_frozen_worker_stops_its_work_before_rejoining(seed: int, max_delay_s: float) -> None:
    cluster = create_cluster(3, seed, max_delay_s=max_delay_s)
    frozen_worker, *other_workers = sorted(cluster.workers, key=lambda w: w.deliveries[-1].is_leader)
    frozen_instances, instances_before = frozen_worker.running, {w.name: w.running for w in other_workers}
    frozen_worker.group.freeze()
    cluster.advance(15)
    cluster.check()
    assert frozen_worker.running == frozen_instances
    assert frozen_worker.leased_instances == frozenset()
    frozen_worker.group.thaw()
    cluster.settle(20)
    if max_delay_s:
        assert frozen_worker.running == frozen_instances, "the work has not been reassigned yet"
        assert {w.name: w.running for w in other_workers} == instances_before


@pytest.mark.parametrize("seed", SEEDS)
def test_member_with_a_hung_herder_leaves_and_rejoins_afterwards(seed: int) -> None:
    cluster = create_cluster(3, seed)
    worker = cluster.workers[seed % 3]
    worker.is_hung = True
    cluster.advance(45)
    assert len(cluster.broker.members) == 2
    worker.is_hung = False
    cluster.advance(10)
    cluster.settle(20)
    assert len(cluster.broker.members) == 3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_actor_deaths_do_not_reassign_work(seed: int, protocol: ConnectProtocol) -> None:
    cluster = create_cluster(3, seed, protocol, max_delay_s=60.0)
    members = cluster.broker.members
    instances_before = {w.name: w.running for w in cluster.workers}
    for worker in cluster.workers:
        worker.crash(worker.herder if cluster.random.random() < 0.5 else worker.address)
        cluster.advance(cluster.random.uniform(0, 2))
    cluster.settle(30)
    assert cluster.broker.members == members
    if protocol is not EAGER:
        assert {w.name: w.running for w in cluster.workers} == instances_before


@pytest.mark.parametrize("seed", SEEDS)
def test_group_is_eager_while_an_eager_worker_is_a_member(seed: int) -> None:
    cluster = create_cluster(2, seed, SESSIONED)
    assert {w.deliveries[-1].protocol for w in cluster.workers} == {GroupProtocol.SESSIONED}
    # A previous owner learns of the change at the same time as the new owner (docs/compat.md).
    cluster.checks_ownership = False
    eager_worker = cluster.add(EAGER)
    cluster.advance(10)
    cluster.settle(20)
    assert {w.deliveries[-1].protocol for w in cluster.workers} == {GroupProtocol.DEFAULT}
    cluster.checks_ownership = True
    cluster.remove(eager_worker)
    cluster.settle(20)
    assert {w.deliveries[-1].protocol for w in cluster.alive} == {GroupProtocol.SESSIONED}


@pytest.mark.parametrize("seed", SEEDS)
def test_worker_with_a_stuck_config_reader_does_not_delay_others(seed: int) -> None:
    cluster = create_cluster(3, seed, max_delay_s=5.0)
    stuck_worker = cluster.workers[seed % 3]
    other_workers = [w for w in cluster.workers if w is not stuck_worker]
    stuck_worker.is_reader_stuck = True
    cluster.configure(c3=2)
    cluster.advance(15)
    assert len(cluster.broker.members) == 2
    new_instances = {
        ConnectorOrTask(ConnectorName("c3")),
        ConnectorOrTask(ConnectorName("c3"), 0),
        ConnectorOrTask(ConnectorName("c3"), 1),
    }
    assert new_instances <= {instance for w in other_workers for instance in w.running}
    stuck_worker.is_reader_stuck = False
    cluster.show_config(stuck_worker)
    cluster.advance(1)
    cluster.settle(30)
    assert len(cluster.broker.members) == 3

"""Tests for static assignments (KIP-987) in clusters: the test plan of the KIP, fallbacks, and statuses."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kraal.cluster.views import rest as view
from kraal.core.ids import ConnectorName, Instance, TaskId
from kraal.protocol.group import ConnectProtocol, GroupProtocol
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.cluster_worker import ClusterWorker
from kraal.testing._simulation.plugins import FAKE_SOURCE

SEEDS = range(4)
C1, C2 = ConnectorName("c1"), ConnectorName("c2")
EAGER, COMPATIBLE, SESSIONED = ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED
ALL_INSTANCES: list[Instance] = [C1, TaskId(C1, 0), TaskId(C1, 1), C2, TaskId(C2, 0), TaskId(C2, 1)]


def create_cluster(
    *workers: tuple[Instance, ...],
    seed: int = 0,
    protocol: ConnectProtocol = ConnectProtocol.STATIC,
    max_delay_s: float = 0.0,
) -> EmbeddedCluster:
    """Return a settled group that runs c1 and c2 with two tasks each; `workers` has the static list of each worker."""
    cluster = EmbeddedCluster(0, seed=seed, protocol=protocol, max_delay_s=max_delay_s)
    for static_list in workers:
        cluster.add(static=static_list)
    cluster.settle()
    for name in (C1, C2):
        cluster.create(name, {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
    cluster.settle()
    return cluster


def owner_names(cluster: EmbeddedCluster, instance: Instance) -> list[str]:
    return [worker.name for worker in cluster.owners(instance)]


def feed(cluster: EmbeddedCluster, count: int) -> None:
    """Make every task write `count` more records, and check that no record is lost."""
    for instance in ALL_INSTANCES:
        if isinstance(instance, TaskId):
            cluster.feed(instance, count)
    cluster.settle()
    cluster.advance(5)
    for task, supply in cluster.outside.supply.items():
        assert sorted(set(cluster.outside.written[task])) == list(range(supply)), task


def elected_protocols(cluster: EmbeddedCluster) -> set[GroupProtocol | None]:
    return {worker.snapshot.protocol for worker in cluster.alive}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("protocol", [EAGER, COMPATIBLE, SESSIONED])
def test_kip_987_test_plan_passes(seed: int, protocol: ConnectProtocol) -> None:
    cluster = create_cluster((), (), seed=seed, protocol=protocol)
    feed(cluster, 10)
    for old_worker in cluster.alive:  # switch to static assignments by a rolling restart
        cluster.add(protocol=ConnectProtocol.STATIC)
        cluster.close(old_worker)
        feed(cluster, 10)
    assert elected_protocols(cluster) == {GroupProtocol.STATIC}
    cluster.protocol = ConnectProtocol.STATIC
    wildcard_workers = list(cluster.alive)

    connector_worker = cluster.add(static=[C1])
    feed(cluster, 10)
    assert connector_worker.running == {C1}
    task_worker = cluster.add(static=[TaskId(C1, 0)])
    feed(cluster, 10)
    assert task_worker.running == {TaskId(C1, 0)}
    duplicate_worker = cluster.add(static=[C1, TaskId(C1, 0)])
    feed(cluster, 10)
    assert duplicate_worker.running == set(), (
        "both listed instances already run on other workers that list them"
    )

    cluster.close(wildcard_workers[0])
    feed(cluster, 10)
    static_workers = [
        cluster.add(static=[listed_instance])
        for listed_instance in ALL_INSTANCES
        if listed_instance not in {C1, TaskId(C1, 0)}
    ]
    feed(cluster, 10)
    assert wildcard_workers[1].running == set()
    cluster.close(wildcard_workers[1])
    feed(cluster, 10)
    for worker, instance in zip(
        static_workers,
        [listed_instance for listed_instance in ALL_INSTANCES if listed_instance not in {C1, TaskId(C1, 0)}],
        strict=True,
    ):
        assert worker.running == {instance}
    cluster.kill(connector_worker)
    feed(cluster, 10)
    assert duplicate_worker.running == {C1}


@pytest.mark.parametrize("older_protocol", [COMPATIBLE, SESSIONED])
@pytest.mark.parametrize("seed", SEEDS)
def test_static_assignments_are_ignored_until_an_older_worker_leaves(
    seed: int, older_protocol: ConnectProtocol
) -> None:
    cluster = create_cluster((C1,), (TaskId(C1, 0),), (), seed=seed)
    first, second, wildcard_worker = cluster.alive
    assert (first.running, second.running) == ({C1}, {TaskId(C1, 0)})
    older_worker = cluster.add(protocol=older_protocol)
    cluster.advance(5)
    cluster.settle()
    assert elected_protocols(cluster) == {older_protocol.offered_protocols[0]}
    instance_counts = sorted(len(worker.running) for worker in cluster.alive)
    assert sum(instance_counts) == len(ALL_INSTANCES)
    assert instance_counts[0] >= 1, "every worker receives a share"
    cluster.close(older_worker)
    cluster.advance(5)
    cluster.settle()
    assert elected_protocols(cluster) == {GroupProtocol.STATIC}
    assert (first.running, second.running) == ({C1}, {TaskId(C1, 0)})
    assert wildcard_worker.running == {*ALL_INSTANCES} - {C1, TaskId(C1, 0)}


@pytest.mark.parametrize("seed", SEEDS)
def test_static_assignments_set_before_the_upgrade_move_no_work(seed: int) -> None:
    cluster = create_cluster((), seed=seed, protocol=SESSIONED)
    [old_worker] = cluster.alive
    first = cluster.add(static=[TaskId(C1, 0)], protocol=ConnectProtocol.STATIC)
    second = cluster.add(static=[TaskId(C1, 1)], protocol=ConnectProtocol.STATIC)
    cluster.settle()
    instances_before = {worker.name: set(worker.running) for worker in cluster.alive}
    cluster.advance(30)
    assert {worker.name: worker.running for worker in cluster.alive} == instances_before
    cluster.add(protocol=ConnectProtocol.STATIC)
    cluster.close(old_worker)
    cluster.settle()
    assert (first.running, second.running) == ({TaskId(C1, 0)}, {TaskId(C1, 1)})


@pytest.mark.parametrize("seed", SEEDS)
def test_wildcard_workers_take_over_from_a_static_worker(seed: int) -> None:
    cluster = create_cluster((), (), seed=seed, max_delay_s=60)
    static_worker = cluster.add(static=[C1, TaskId(C1, 0)])
    cluster.settle()
    assert static_worker.running == {C1, TaskId(C1, 0)}
    assert cluster.leader is not static_worker, (
        "as in Java, a new leader does not know the lost instances, and would reassign them without a delay"
    )
    cluster.kill(static_worker)
    cluster.advance(30)
    assert owner_names(cluster, C1) == [], "the work is not reassigned while its worker may return"
    cluster.advance(60)
    cluster.settle()
    returning_worker = cluster.add(static=[C1, TaskId(C1, 0)])
    cluster.settle()
    assert returning_worker.running == {C1, TaskId(C1, 0)}


def states(worker: ClusterWorker, name: ConnectorName) -> dict[str, tuple[object, object]]:
    """Return the state and the trace of a connector and of its tasks, as in `GET /connectors/{c}/status`."""
    status: dict[str, Any] = view.connector_status(worker.snapshot, name)
    statuses = {"connector": status["connector"], **{str(task["id"]): task for task in status["tasks"]}}
    return {key: (entry["state"], entry.get("trace")) for key, entry in statuses.items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_unassignable_instance_is_unassigned_with_a_reason(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = create_cluster((C1, TaskId(C1, 0)), (), seed=seed)
    static_worker, wildcard_worker = cluster.alive
    with caplog.at_level(logging.WARNING):
        cluster.close(wildcard_worker)
        cluster.advance(10)
    reason = (
        "No worker may run it: every worker of the group has static assignments, and none lists {}. List it in {} "
        "of a worker, or start a worker without static assignments."
    )
    assert states(static_worker, C1) == {
        "connector": ("RUNNING", None),
        "0": ("RUNNING", None),
        "1": ("UNASSIGNED", reason.format("task c1-1", "static.tasks")),
    }
    assert states(static_worker, C2)["connector"] == (
        "UNASSIGNED",
        reason.format("connector c2", "static.connectors"),
    )
    warnings = [
        record.getMessage() for record in caplog.records if "No worker of the group" in record.getMessage()
    ]
    assert len(warnings) == 1
    assert "may run c1-1, c2, c2-0, c2-1: every worker has static assignments" in warnings[0]

    cluster.create("c3", {"connector.class": FAKE_SOURCE, "tasks.max": "1"})
    cluster.advance(10)
    assert states(static_worker, ConnectorName("c3")) == {
        "connector": ("UNASSIGNED", reason.format("connector c3", "static.connectors"))
    }
    cluster.add()
    cluster.settle()
    assert set(states(static_worker, C2).values()) == {("RUNNING", None)}

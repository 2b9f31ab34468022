"""Tests for KIP-987: static assignments in a group. The quoted sentences apply only to distributed mode.

This is draft v1 of the KIP, which Apache Kafka does not implement. tests/integration/cluster/test_static.py has the
same tests with real processes.
"""

from __future__ import annotations

import pytest

from kraal.config.worker.distributed import parse_distributed
from kraal.core.ids import ConnectorName, Instance, TaskId
from kraal.protocol.group import ConnectProtocol, GroupProtocol
from kraal.testing._simulation.cluster_worker import ClusterWorker
from tests.fakes.workers.worker_config import MINIMAL_CONFIG
from tests.kips.modes import ThreeWorkers

ONE, TWO = ConnectorName("one"), ConnectorName("two")
OLDER_PROTOCOLS = [ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED]


def list_instances(*names: ConnectorName) -> set[Instance]:
    """Return the instances of these connectors with two tasks each."""
    return {*names, *(TaskId(name, number) for name in names for number in range(2))}


def create_connectors(connect: ThreeWorkers, *names: ConnectorName) -> list[ClusterWorker]:
    """Create connectors with two tasks; return the workers, which have no static assignments."""
    for name in names:
        connect.create(name, 2)
    connect.cluster.settle()
    return list(connect.cluster.alive)


def add_worker(
    connect: ThreeWorkers, *static_instances: Instance, protocol: ConnectProtocol | None = None
) -> ClusterWorker:
    """Add a worker with or without static assignments."""
    worker = connect.cluster.add(static=static_instances, protocol=protocol)
    connect.advance_until_idle()
    connect.cluster.settle()
    return worker


def close_workers(connect: ThreeWorkers, *workers: ClusterWorker) -> None:
    for worker in workers:
        connect.cluster.close(worker)
        connect.advance_until_idle()


def check_flow(connect: ThreeWorkers, *names: ConnectorName) -> None:
    """Check that every task writes new records."""
    for name in names:
        for task in range(2):
            count_before = len(connect.get_written_numbers(name, task))
            connect.feed(name, task, 5)
            connect.cluster.advance(5)
            assert len(connect.get_written_numbers(name, task)) >= count_before + 5, (
                f"{name}-{task} writes nothing"
            )


def count_instances(*workers: ClusterWorker) -> list[list[int]]:
    """Return the sorted numbers of connectors and of tasks that these workers run."""
    tasks = [sum(isinstance(instance, TaskId) for instance in worker.running) for worker in workers]
    connectors = [len(worker.running) - count for worker, count in zip(workers, tasks, strict=True)]
    return [sorted(connectors), sorted(tasks)]


def get_protocols(connect: ThreeWorkers) -> set[GroupProtocol | None]:
    return {worker.snapshot.protocol for worker in connect.cluster.alive}


def test_static_protocol_is_the_default(distributed: ThreeWorkers) -> None:
    """The protocol supports lists of connectors and of tasks.

    > Workers will accept a new connect.protocol , static which is backwards-compatible with sessioned and will be the
    > new default.

    > static.connectors A list of connector names (e.g. connector-name) which are allowed to be executed by this node

    > static.tasks A list of task ids (e.g. connector-name-0) which are allowed to be executed by this node
    """
    assert parse_distributed(MINIMAL_CONFIG).protocol is ConnectProtocol.STATIC
    lists = {"static.connectors": "one", "static.tasks": "one-0,two-1"}
    static_assignments = parse_distributed({**MINIMAL_CONFIG, **lists}).static_assignments
    assert static_assignments is not None
    create_connectors(distributed, ONE, TWO)
    assert get_protocols(distributed) == {GroupProtocol.STATIC}
    worker = add_worker(
        distributed, *(connector_or_task.instance for connector_or_task in static_assignments)
    )
    assert worker.running == {ONE, TaskId(ONE, 0), TaskId(TWO, 1)}
    add_worker(distributed, protocol=ConnectProtocol.SESSIONED)
    assert get_protocols(distributed) == {GroupProtocol.SESSIONED}
    check_flow(distributed, ONE, TWO)


def test_lists_are_ignored_while_an_older_worker_is_a_member(distributed: ThreeWorkers) -> None:
    """A single older worker disables all static assignments until it leaves.

    > If static assignments are not specified, or at least one worker in the cluster is not using the static protocol,
    > they are ignored and the worker may receive an arbitrary assignment.

    > If the connect.protocol is set to static, each worker will send it's static.connectors and static.tasks to the
    > coordinator during rebalances.

    > The leader will perform the following assignment algorithm if all members of the cluster support the static
    > protocol.

    > A heterogeneous-protocol cluster, (with both sessioned and static protocol in-use), will still require workers
    > with static assignments to run arbitrary assignments, as the leader may not support the static protocol.

    > Downgrading to a version which does not support the static protocol will cause any static assignments to be
    > ignored, so they can be safely left in-place during a temporary downgrade if necessary.
    """
    create_connectors(distributed, ONE, TWO)
    static_worker = add_worker(distributed, ONE)
    assert static_worker.running == {ONE}
    old_worker = add_worker(distributed, protocol=ConnectProtocol.SESSIONED)
    assert get_protocols(distributed) == {GroupProtocol.SESSIONED}
    assert static_worker.running - {ONE}, "the static worker also runs unlisted instances"
    assert [worker["kind"] for worker in distributed.get("/admin/assignments").body["workers"]] == [
        "wildcard"
    ] * 5
    close_workers(distributed, old_worker)
    distributed.cluster.settle()
    assert get_protocols(distributed) == {GroupProtocol.STATIC}
    assert static_worker.running == {ONE}


def test_workers_and_instances_are_static_or_wildcard(distributed: ThreeWorkers) -> None:
    """`GET /admin/assignments` reports the categories.

    > Categorize workers with static assignments as "static workers" and those without as "wildcard workers".

    > Categorize connectors and tasks that are included in at least one static assignment are "static jobs", and those
    > not included in any as "wildcard jobs".
    """
    wildcard_workers = create_connectors(distributed, ONE)
    static_worker = add_worker(distributed, ONE, TaskId(ONE, 0))
    reported_workers = {
        worker["url"]: worker for worker in distributed.get("/admin/assignments").body["workers"]
    }
    assert {url: description["kind"] for url, description in reported_workers.items()} == {
        static_worker.url: "static",
        **{worker.url: "wildcard" for worker in wildcard_workers},
    }
    assert (
        reported_workers[static_worker.url]["static_connectors"],
        reported_workers[static_worker.url]["static_tasks"],
    ) == (
        ["one"],
        ["one-0"],
    )
    assert static_worker.running == {ONE, TaskId(ONE, 0)}
    assert set().union(*(worker.running for worker in wildcard_workers)) == {TaskId(ONE, 1)}


def test_instances_are_revoked_from_workers_that_must_not_run_them(distributed: ThreeWorkers) -> None:
    """When the only older worker leaves, steps 3 to 5 revoke instances, and step 6 assigns the static instances.

    > Revoke any static jobs running on wildcard workers

    > Revoke any static jobs running on static workers which do not specify that job.

    > Revoke any wildcard jobs running on static workers.

    > Assign each unassigned static job to a static worker which specifies that job, choosing arbitrarily if there are
    > multiple valid workers.
    """
    initial_workers = create_connectors(distributed, ONE, TWO)
    old_worker = add_worker(distributed, protocol=ConnectProtocol.SESSIONED)
    close_workers(distributed, *initial_workers)
    worker_one = add_worker(distributed, ONE, TaskId(TWO, 0))
    worker_two = add_worker(distributed, TWO, TaskId(ONE, 0), TaskId(TWO, 0))
    wildcard_worker = add_worker(distributed)
    assert all(worker.running for worker in (worker_one, worker_two, wildcard_worker)), (
        "static assignments must be ignored while an older worker is a member"
    )
    close_workers(distributed, old_worker)
    distributed.cluster.settle()
    assert wildcard_worker.running == {TaskId(ONE, 1), TaskId(TWO, 1)}
    assert {ONE} <= worker_one.running <= {ONE, TaskId(TWO, 0)}
    assert {TWO, TaskId(ONE, 0)} <= worker_two.running <= {TWO, TaskId(ONE, 0), TaskId(TWO, 0)}
    assert worker_one.running | worker_two.running == list_instances(ONE, TWO) - wildcard_worker.running


def test_wildcard_instances_are_balanced_among_wildcard_workers(distributed: ThreeWorkers) -> None:
    """A wildcard worker joins, and steps 7 and 8 move instances to it.

    > Revoke wildcard jobs from wildcard workers following the least-disruption algorithm assuming that all wildcard
    > jobs (assigned or not) must eventually be evenly distributed among the wildcard workers.

    > Assign each unassigned wildcard job to a wildcard worker which is least loaded.

    > Note that the final two steps are the algorithm followed by the existing Incremental Cooperative Assignor, but
    > limited in scope to the wildcard jobs & wildcard workers.
    """
    names = [ConnectorName(f"c{number}") for number in range(6)]
    wildcard_workers = create_connectors(distributed, *names)
    add_worker(distributed, names[0], TaskId(names[0], 0), TaskId(names[0], 1))
    idle_worker = add_worker(distributed, ConnectorName("elsewhere"))
    assert count_instances(*wildcard_workers) == [[1, 2, 2], [3, 3, 4]]
    instances_before = {worker.name: set(worker.running) for worker in wildcard_workers}
    new_worker = add_worker(distributed)
    assert count_instances(*wildcard_workers, new_worker) == [[1, 1, 1, 2], [2, 2, 3, 3]]
    retained_instances = [
        instance for worker in wildcard_workers for instance in worker.running & instances_before[worker.name]
    ]
    assert len(retained_instances) == 15 - len(new_worker.running), "no other instance has moved"
    assert idle_worker.running == set()


def test_assignment_without_static_workers_equals_the_sessioned_protocol(distributed: ThreeWorkers) -> None:
    """Both groups have the same numbers of instances per worker; test_static_properties.py compares each round.

    > A static protocol cluster with no static workers behaves identically to the sessioned protocol.

    > This makes the static assignment feature opt-in even if the protocol is automatically upgraded by default.
    """
    cluster = distributed.cluster
    counts = []
    for protocol in (ConnectProtocol.STATIC, ConnectProtocol.SESSIONED):
        cluster.protocol = protocol
        distributed.restart_workers()
        if protocol is ConnectProtocol.STATIC:
            create_connectors(distributed, ONE, TWO)
            distributed.restart_workers()
        cluster.settle()
        counts.append(count_instances(*cluster.alive))
        add_worker(distributed)
        counts.append(count_instances(*cluster.alive))
    assert counts[:2] == counts[2:]
    assert get_protocols(distributed) == {GroupProtocol.SESSIONED}


def test_single_instances_can_be_isolated_in_a_shared_cluster(distributed: ThreeWorkers) -> None:
    """A task, and then the instances of two connectors, temporarily get a dedicated worker.

    > A cluster with both static and wildcard workers can be used in an ad-hoc manner to isolate specific jobs in a
    > shared cluster.

    > Disruptive jobs may be given a separate worker to lessen interruptions to other jobs

    > Jobs may be temporarily given a static worker for additional instrumentation (debugging/metrics/etc)

    > Connector instances may be assigned to a static worker to improve round-robin balance of tasks among the wildcard
    > workers

    > After finishing an upgrade to a version which supports the Static Assignments feature, workers can individually be
    > given assignments.

    > If used in an ad-hoc manner, workers can be added to the cluster with a static assignment.

    > If that additional worker then goes offline, the job will migrate back to the wildcard workers.

    > A cluster with both static and wildcard workers can use wildcard workers as backups for disaster recovery.
    """
    wildcard_workers = create_connectors(distributed, ONE, TWO)
    task_worker = add_worker(distributed, TaskId(ONE, 0))
    assert task_worker.running == {TaskId(ONE, 0)}
    connector_worker = add_worker(distributed, ONE, TWO)
    assert connector_worker.running == {ONE, TWO}
    assert count_instances(*wildcard_workers) == [[0, 0, 0], [1, 1, 1]]
    check_flow(distributed, ONE, TWO)
    close_workers(distributed, task_worker)
    distributed.cluster.kill(connector_worker)
    distributed.cluster.settle(60)
    assert set().union(*(worker.running for worker in wildcard_workers)) == list_instances(ONE, TWO)
    check_flow(distributed, ONE, TWO)


def test_cluster_can_consist_of_static_workers_only(distributed: ThreeWorkers) -> None:
    """Each instance gets a dedicated worker, so that the lists alone determine the assignment.

    > A cluster with both static and wildcard workers can be an intermediate state during a rolling upgrade to a cluster
    > with only static workers.

    > If migrating to a cluster with only static workers, static workers can be added until the wildcard workers are
    > drained, and then the wildcard workers can be removed.

    > A cluster with only static workers can completely replace the internal unweighted scheduler with custom scheduling
    > which includes resource usage estimates and heterogeneous workers.

    > A cluster with only static workers can specify single tasks/connectors per worker to provide process and resource
    > isolation between jobs.
    """
    wildcard_workers = create_connectors(distributed, ONE)
    workers = {
        instance: add_worker(distributed, instance) for instance in sorted(list_instances(ONE), key=str)
    }
    assert [worker.running for worker in wildcard_workers] == [set()] * 3, (
        "wildcard workers have no instances"
    )
    close_workers(distributed, *wildcard_workers)
    assert {instance: worker.running for instance, worker in workers.items()} == {
        instance: {instance} for instance in workers
    }
    check_flow(distributed, ONE)
    distributed.create(TWO, 1)
    distributed.advance_until_idle()
    waiting_instances = distributed.get("/admin/assignments").body["waiting"]
    assert [(instance["connector"], instance["state"]) for instance in waiting_instances] == [
        ("two", "unlisted")
    ], "unlisted instances wait"


@pytest.mark.parametrize("protocol", OLDER_PROTOCOLS)
def test_migration_plan_of_the_kip_keeps_data_flowing(
    distributed: ThreeWorkers, protocol: ConnectProtocol
) -> None:
    """tests/integration/cluster/test_static.py has the same test with processes and counted lines.

    > Begin with an eager,compatible, or sessioned cluster

    > Create multiple connectors with multiple tasks

    > Roll the cluster to static and confirm that data flow continues

    > Add a static worker with a static connector assignment

    > Add a static worker with a static task assignment

    > Add a static worker with duplicate connector and task assignments

    > Remove a wildcard worker

    > Add remaining necessary static workers to cover all connectors and tasks

    > Remove remaining wildcard workers
    """
    cluster = distributed.cluster
    cluster.protocol = protocol
    distributed.restart_workers()
    old_workers = create_connectors(distributed, ONE, TWO)
    assert get_protocols(distributed) == {protocol.offered_protocols[0]}
    cluster.protocol = ConnectProtocol.STATIC
    for worker in old_workers:
        close_workers(distributed, worker)
        add_worker(distributed)
        check_flow(distributed, ONE, TWO)
    assert get_protocols(distributed) == {GroupProtocol.STATIC}
    wildcard_workers = list(cluster.alive)
    connector_worker = add_worker(distributed, ONE)
    assert connector_worker.running == {ONE}
    task_worker = add_worker(distributed, TaskId(ONE, 0))
    assert task_worker.running == {TaskId(ONE, 0)}
    duplicate_worker = add_worker(distributed, ONE, TaskId(ONE, 0))
    assert (connector_worker.running, task_worker.running, duplicate_worker.running) == (
        {ONE},
        {TaskId(ONE, 0)},
        set(),
    )
    close_workers(distributed, wildcard_workers.pop())
    check_flow(distributed, ONE, TWO)
    remaining_instances = list_instances(ONE, TWO) - {ONE, TaskId(ONE, 0)}
    workers = {
        instance: add_worker(distributed, instance) for instance in sorted(remaining_instances, key=str)
    }
    close_workers(distributed, *wildcard_workers)
    assert {instance: worker.running for instance, worker in workers.items()} == {
        instance: {instance} for instance in remaining_instances
    }
    check_flow(distributed, ONE, TWO)

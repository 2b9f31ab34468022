"""Tests for `Work`, including the adoption of running instances.

After a herder restart, the target states of running instances are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from actors.herding.work import Work
from actors.messages.herder import DeleteConnector, InstanceChanged, RestartTask, SetTargetState
from actors.messages.worker import Assign
from actors.runtime.mailbox import Address
from kraal.cluster.state.cluster_state import ConnectorEntry
from kraal.cluster.state.wanted_work import Assignment, Incarnation
from kraal.core.ids import ConnectorName, Instance, State, TargetState, TaskId
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
TASK = TaskId(NAME, 0)
INCARNATION = Incarnation(3)
NEXT_INCARNATION = Incarnation(3, restarts=1)
RUNNING_INCARNATIONS: dict[Instance, Incarnation] = {NAME: INCARNATION, TASK: INCARNATION}
ASSIGNMENT = Assignment(connectors=frozenset([NAME]), tasks=frozenset([TASK]))


def make_work(*entries: ConnectorEntry) -> tuple[Work, list[Assign]]:
    """Return a `Work` for these connectors, and the list of messages that it sends to the worker."""
    messages: list[Assign] = []

    def deliver(message: object) -> bool:
        assert isinstance(message, Assign)
        messages.append(message)
        return True

    worker = Address("worker")
    worker.bind(deliver)
    connectors = {entry.name: entry for entry in entries}
    work = Work(worker=worker, connectors=lambda: connectors, is_live=lambda: True, restart_counts={})
    return work, messages


def adopt(
    target: TargetState = TargetState.STARTED,
    *,
    wanted_incarnations: Mapping[Instance, Incarnation] = RUNNING_INCARNATIONS,
) -> tuple[Work, list[Assign]]:
    """Return a `Work` that has adopted a connector with one task, and the list of messages to the worker.

    The worker starts `wanted_incarnations` when the running incarnations have stopped.
    """
    entry = ConnectorEntry(
        name=NAME, config={}, target=target, tasks=({},), task_count=1, version=3, tasks_version=3
    )
    work, messages = make_work(entry)
    work.adopt(RUNNING_INCARNATIONS, wanted_incarnations)
    return work, messages


def test_instances_are_sent_ordered_by_name() -> None:
    names = [ConnectorName(name) for name in "cab"]
    work, messages = make_work(*(ConnectorEntry(name=name, config={}) for name in names))
    work.assign(Assignment(connectors=frozenset(names)))
    work.apply(names)
    assert [list(assign.changes) for assign in messages] == [sorted(names)]


@pytest.mark.parametrize("target", TargetState)
def test_adopted_instances_are_sent_their_target_state(target: TargetState) -> None:
    work, messages = adopt(target)
    work.assign(ASSIGNMENT)
    work.apply([NAME])
    [assign] = messages
    targets = {i: None if wanted is None else wanted.target for i, wanted in assign.changes.items()}
    assert targets == {NAME: target, TASK: None if target is TargetState.STOPPED else target}
    work.apply([NAME])
    assert messages == [assign]  # nothing has changed since the first call


def test_worker_restart_before_the_assignment_keeps_adopted_instances() -> None:
    work, messages = adopt()
    work.resend(
        {i: InstanceChanged(instance=i, incarnation=INCARNATION, state=State.RUNNING) for i in (NAME, TASK)}
    )
    assert [dict(assign.changes) for assign in messages] == [{}]


def test_unassigned_adopted_instance_is_stopped_after_a_restart() -> None:
    work, messages = adopt(wanted_incarnations={TASK: NEXT_INCARNATION})
    work.on_instance_stopped(TASK)
    assert work.wanted_instances(NAME)[TASK].incarnation == NEXT_INCARNATION
    work.assign(replace(ASSIGNMENT, tasks=frozenset()))
    work.apply([NAME])
    assert messages[0].changes[TASK] is None
    was_stopping = work.is_stopping
    work.on_instance_stopped(TASK)
    assert (was_stopping, work.is_stopping) == (True, False)
    assert work.announced_instances == {NAME}


def test_stopping_adopted_instance_is_not_restarted() -> None:
    work, _ = adopt(wanted_incarnations={})
    for instance in RUNNING_INCARNATIONS:
        work.on_instance_stopped(instance)
    assert not work.announced_instances
    assert not work.wanted_instances(NAME)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("target", [TargetState.STOPPED, TargetState.PAUSED])
def test_connector_stops_or_pauses_despite_a_herder_death(target: TargetState, seed: int) -> None:
    for message_count in range(12):
        worker = EmbeddedWorker(seed=seed)
        worker.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
        worker.assembly.herder.question(SetTargetState(name=NAME, target=target))
        for _ in range(message_count):
            worker.scheduler.step()
        worker.crash("herder")
        worker.advance(5)
        # The herder may have died before it wrote the record.
        if worker.snapshot.config.connectors[NAME].target is target:
            assert worker.states(NAME)[0] == target, f"after {message_count} messages"


@pytest.mark.parametrize("seed", range(6))
def test_deleted_task_stops_despite_a_herder_death(seed: int) -> None:
    for message_count in range(8):
        cluster = EmbeddedCluster(2, seed=seed)
        cluster.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
        cluster.settle()
        [owner] = cluster.owners(TASK)
        cluster.leader.assembly.herder.question(DeleteConnector(name=NAME))
        owner.assembly.herder.question(RestartTask(task=TASK))
        for _ in range(message_count):
            cluster.scheduler.step()
        cluster.crash(owner, "herder")
        cluster.advance(1)
        cluster.settle()

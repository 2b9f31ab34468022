"""Tests for the assignments that the leader plans and that members apply (KIP-415, EagerAssignor)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraal.cluster.assignment.leader import (
    GroupPlan,
    JoinResult,
    apply_assignment,
    latest_offset,
    list_instances,
    plan_group,
    to_assignment,
)
from kraal.cluster.assignment.rebalance import AssignorState
from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.state.wanted_work import Assignment
from kraal.core.ids import ConnectorName, TaskId
from kraal.protocol.group import (
    AssignmentError,
    ConnectorOrTask,
    GroupAssignment,
    GroupProtocol,
    WorkerMetadata,
)

OFFSET = 4
C1, C2, C3 = (ConnectorName(name) for name in ("c1", "c2", "c3"))


def cluster(**tasks: int) -> ClusterState:
    entries = {
        ConnectorName(name): ConnectorEntry(name=ConnectorName(name), config={}, tasks=({},) * count)
        for name, count in tasks.items()
    }
    return ClusterState(offset=OFFSET, connectors=entries)


def member(
    name: str, version: int = 2, offset: int = OFFSET, running: tuple[ConnectorOrTask, ...] = ()
) -> WorkerMetadata:
    allocation = GroupAssignment(
        version=version, leader="leader", leader_url="leaderUrl", config_offset=offset, assigned=running
    )
    return WorkerMetadata(
        version=version, url=f"{name}Url", config_offset=offset, allocation=allocation if running else None
    )


def join_result(protocol: GroupProtocol, *members: str, offset: int = OFFSET) -> JoinResult:
    return JoinResult(
        protocol=protocol,
        leader="leader",
        members={name: member(name, protocol.version, offset) for name in members},
        generation=7,
        last_completed_generation=6,
    )


def plan(group: JoinResult, state: ClusterState, previous_state: AssignorState | None = None) -> GroupPlan:
    return plan_group(group, state, previous_state or AssignorState(), now_ms=1, max_delay_ms=300_000)


LEADER, MEMBER = "leader", "member"


@pytest.mark.parametrize(
    ("tasks", "leader_instances", "member_instances"),
    [
        pytest.param(
            {"c1": 1}, [ConnectorOrTask(C1)], [ConnectorOrTask(C1, 0)], id="a connector with one task"
        ),
        pytest.param(
            {"c1": 2, "c2": 1},
            [ConnectorOrTask(C1), ConnectorOrTask(C1, 0), ConnectorOrTask(C2, 0)],
            [ConnectorOrTask(C2), ConnectorOrTask(C1, 1)],
            id="two connectors",
        ),
        pytest.param(
            {"c3": 1, "c2": 1, "c1": 1},
            [ConnectorOrTask(C1), ConnectorOrTask(C3), ConnectorOrTask(C2, 0)],
            [ConnectorOrTask(C2), ConnectorOrTask(C1, 0), ConnectorOrTask(C3, 0)],
            id="connectors with one task each",
        ),
    ],
)
def test_eager_round_reassigns_all_instances(
    tasks: dict[str, int], leader_instances: list[ConnectorOrTask], member_instances: list[ConnectorOrTask]
) -> None:
    group = join_result(GroupProtocol.DEFAULT, MEMBER, LEADER)
    group_plan = plan(group, cluster(**tasks))
    expected = GroupAssignment(version=0, leader=LEADER, leader_url="leaderUrl", config_offset=OFFSET)
    assert group_plan.assignments == {
        LEADER: replace(expected, assigned=tuple(leader_instances)),
        MEMBER: replace(expected, assigned=tuple(member_instances)),
    }
    assert group_plan.state == AssignorState()
    assert group_plan.owner_url(C1) == "leaderUrl"


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_assignments_have_the_version_of_the_elected_protocol(protocol: GroupProtocol) -> None:
    group_plan = plan(join_result(protocol, LEADER), cluster(c1=1))
    assert group_plan.assignments[LEADER].version == protocol.version
    assert set(group_plan.assignments[LEADER].assigned) == {ConnectorOrTask(C1), ConnectorOrTask(C1, 0)}


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_lagging_leader_assigns_no_work(protocol: GroupProtocol) -> None:
    group = join_result(protocol, LEADER, MEMBER)
    newer_group = replace(
        group, members={**group.members, MEMBER: member(MEMBER, protocol.version, offset=9)}
    )
    previous_state = AssignorState(generation=6)
    group_plan = plan(newer_group, cluster(c1=1), previous_state)
    assert latest_offset(newer_group.members) == 9
    for assignment in group_plan.assignments.values():
        assert (assignment.failed, assignment.error, assignment.config_offset) == (
            True,
            AssignmentError.CONFIG_MISMATCH,
            9,
        )
        assert (assignment.version, assignment.assigned, assignment.revoked, assignment.delay_ms) == (
            protocol.version,
            (),
            (),
            0,
        )
    assert group_plan.state is previous_state
    assert group_plan.owner_url(C1) is None


def test_leader_ahead_of_members_assigns_its_own_configs() -> None:
    group_plan = plan(join_result(GroupProtocol.SESSIONED, LEADER, MEMBER, offset=2), cluster(c1=1))
    assert {assignment.config_offset for assignment in group_plan.assignments.values()} == {OFFSET}
    assert not any(assignment.failed for assignment in group_plan.assignments.values())


def test_cooperative_members_keep_their_work() -> None:
    group = join_result(GroupProtocol.SESSIONED, LEADER)
    running_member = member(MEMBER, running=(ConnectorOrTask(C1), ConnectorOrTask(C1, 0)))
    group_plan = plan(replace(group, members={**group.members, MEMBER: running_member}), cluster(c1=1, c2=1))
    assert group_plan.assignments[LEADER].assigned == (ConnectorOrTask(C2), ConnectorOrTask(C2, 0))
    assert group_plan.assignments[MEMBER].assigned == ()
    assert group_plan.owner_url(TaskId(C1, 0)) == "memberUrl"
    assert group_plan.owner_url(TaskId(C2, 0)) == "leaderUrl"
    assert group_plan.owner_url(C3) is None


def test_every_member_receives_the_same_delay() -> None:
    previous_state = AssignorState(
        assigned=frozenset({ConnectorOrTask(C1)}), generation=6, members=frozenset({LEADER, MEMBER, "gone"})
    )
    group_plan = plan(join_result(GroupProtocol.SESSIONED, LEADER, MEMBER), cluster(c1=0), previous_state)
    assert {assignment.delay_ms for assignment in group_plan.assignments.values()} == {300_000}
    assert group_plan.owners == {}


def test_connector_with_inconsistent_task_configs_has_no_tasks() -> None:
    entry = ConnectorEntry(name=C1, config={}, task_count=3, inconsistent=True)
    assert list_instances(ClusterState(connectors={C1: entry})) == {ConnectorOrTask(C1)}


PREVIOUS_ASSIGNMENT = GroupAssignment(
    version=2,
    leader="m0",
    leader_url="u0",
    config_offset=3,
    assigned=(ConnectorOrTask(C1), ConnectorOrTask(C1, 0), ConnectorOrTask(C1, 1)),
)
NEW_ASSIGNMENT = GroupAssignment(
    version=2,
    leader="m1",
    leader_url="u1",
    config_offset=OFFSET,
    assigned=(ConnectorOrTask(C2),),
    revoked=(ConnectorOrTask(C1, 0),),
    delay_ms=40,
)


@pytest.mark.parametrize(
    "error", [pytest.param(0, id="successful"), pytest.param(AssignmentError.CONFIG_MISMATCH, id="failed")]
)
def test_cooperative_member_keeps_unrevoked_instances(error: int) -> None:
    assignment = replace(NEW_ASSIGNMENT, error=error)
    assert apply_assignment(PREVIOUS_ASSIGNMENT, assignment) == replace(
        assignment, assigned=(ConnectorOrTask(C2), ConnectorOrTask(C1), ConnectorOrTask(C1, 1))
    )
    assert apply_assignment(None, assignment) == assignment


def test_eager_member_keeps_no_instances() -> None:
    assignment = replace(NEW_ASSIGNMENT, version=0, revoked=(), delay_ms=0)
    assert apply_assignment(PREVIOUS_ASSIGNMENT, assignment) == assignment


def test_assignment_is_converted_for_the_herder() -> None:
    assert to_assignment(PREVIOUS_ASSIGNMENT) == Assignment(
        connectors=frozenset({C1}), tasks=frozenset({TaskId(C1, 0), TaskId(C1, 1)})
    )

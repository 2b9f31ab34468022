"""Tests for static assignments in the metadata of members, by protocol (KIP-987)."""

from __future__ import annotations

import pytest

from kraal.cluster.assignment.leader import JoinResult, plan_group
from kraal.cluster.assignment.rebalance import AssignorState
from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.core.ids import ConnectorName
from kraal.protocol.group import ConnectorOrTask, GroupAssignment, GroupProtocol, WorkerMetadata
from tests.fakes.cluster.static_scenario import FIVE_MINUTES_MS


def test_worker_with_empty_lists_is_a_wildcard_worker() -> None:
    def member(static: tuple[ConnectorOrTask, ...] | None) -> WorkerMetadata:
        return WorkerMetadata(version=3, url="http://w/", config_offset=1, static_assignment=static)

    c1 = ConnectorName("c1")
    state = ClusterState(offset=1, connectors={c1: ConnectorEntry(name=c1, config={})})
    for static in (None, ()):
        join_result = JoinResult(
            protocol=GroupProtocol.STATIC,
            leader="w1",
            members={"w1": member(static)},
            generation=1,
            last_completed_generation=-1,
        )
        plan = plan_group(join_result, state, AssignorState(), now_ms=0, max_delay_ms=0)
        assert plan.assignments["w1"].assigned == (ConnectorOrTask(c1),)
        assert plan.state.lists == {}


def create_group(protocol: GroupProtocol, lists: dict[str, tuple[ConnectorOrTask, ...]]) -> JoinResult:
    """Return a group whose leader runs the connector c1 and both of its tasks."""
    c1 = ConnectorName("c1")
    leader_assignment = GroupAssignment(
        version=protocol.version,
        leader="w1",
        leader_url="",
        config_offset=1,
        assigned=(ConnectorOrTask(c1), ConnectorOrTask(c1, 0), ConnectorOrTask(c1, 1)),
    )
    members = {
        name: WorkerMetadata(
            version=protocol.version,
            url=name,
            config_offset=1,
            allocation=leader_assignment if name == "w1" else None,
            static_assignment=listed,
        )
        for name, listed in lists.items()
    }
    return JoinResult(
        protocol=protocol, leader="w1", members=members, generation=2, last_completed_generation=1
    )


C1 = ConnectorName("c1")
CLUSTER = ClusterState(offset=1, connectors={C1: ConnectorEntry(name=C1, config={}, tasks=({}, {}))})


def test_first_static_round_revokes_instances_listed_elsewhere() -> None:
    previous_state = AssignorState(
        assigned=frozenset({ConnectorOrTask(C1), ConnectorOrTask(C1, 0), ConnectorOrTask(C1, 1)}),
        generation=1,
    )
    lists = {"w1": (ConnectorOrTask(C1, 1),), "w2": (ConnectorOrTask(C1), ConnectorOrTask(C1, 0))}
    sessioned_plan = plan_group(
        create_group(GroupProtocol.SESSIONED, lists),
        CLUSTER,
        previous_state,
        now_ms=0,
        max_delay_ms=FIVE_MINUTES_MS,
    )
    assert sessioned_plan.assignments["w1"].revoked == (ConnectorOrTask(C1, 0),), (
        "only one task is revoked to balance the load"
    )
    static_plan = plan_group(
        create_group(GroupProtocol.STATIC, lists),
        CLUSTER,
        previous_state,
        now_ms=0,
        max_delay_ms=FIVE_MINUTES_MS,
    )
    assert set(static_plan.assignments["w1"].revoked) == {ConnectorOrTask(C1), ConnectorOrTask(C1, 0)}


@pytest.mark.parametrize(
    "protocol", [GroupProtocol.DEFAULT, GroupProtocol.COMPATIBLE, GroupProtocol.SESSIONED]
)
def test_older_protocol_ignores_lists(protocol: GroupProtocol) -> None:
    lists = {
        "w1": (ConnectorOrTask(C1),),
        "w2": (ConnectorOrTask(C1), ConnectorOrTask(C1, 0), ConnectorOrTask(C1, 1)),
    }
    no_lists: dict[str, tuple[ConnectorOrTask, ...]] = {"w1": (), "w2": ()}
    plans = [
        plan_group(create_group(protocol, static_lists), CLUSTER, AssignorState(), now_ms=0, max_delay_ms=0)
        for static_lists in (lists, no_lists)
    ]
    assert plans[0] == plans[1]

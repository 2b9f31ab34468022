"""Tests that a plan contains the reason for each placement, and the sets from which the plan was derived."""

from __future__ import annotations

import pytest

from kraal.cluster.assignment.leader import GroupPlan, JoinResult, plan_group
from kraal.cluster.assignment.placement import PlacedBy, Placement, placement_reason
from kraal.cluster.assignment.rebalance import AssignorState, LostHandling
from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.core.ids import ConnectorName
from kraal.protocol.group import ConnectorOrTask, GroupAssignment, GroupProtocol, WorkerMetadata

C, D = ConnectorName("c"), ConnectorName("d")
MAX_DELAY_MS = 300_000


class Leader:
    """A leader that plans several rounds, in which the members report their last assignments."""

    def __init__(self, protocol: GroupProtocol = GroupProtocol.STATIC) -> None:
        self.protocol = protocol
        self.plan: GroupPlan | None = None
        self.generation = 0
        self.now_ms = 0

    def round(
        self, *members: str, static: dict[str, tuple[ConnectorOrTask, ...]] | None = None, **tasks: int
    ) -> GroupPlan:
        self.generation += 1
        previous_plan = self.plan
        owners = {} if previous_plan is None else previous_plan.owners
        metadata = {
            member: WorkerMetadata(
                version=self.protocol.version,
                url=f"http://{member}/",
                config_offset=1,
                allocation=GroupAssignment(
                    version=self.protocol.version,
                    leader="w1",
                    leader_url="http://w1/",
                    config_offset=1,
                    assigned=tuple(instance for instance, owner in owners.items() if owner == member),
                ),
                static_assignment=(static or {}).get(member),
            )
            for member in members
        }
        connectors = {
            ConnectorName(name): ConnectorEntry(name=ConnectorName(name), config={}, tasks=({},) * count)
            for name, count in tasks.items()
        }
        self.plan = plan_group(
            JoinResult(
                protocol=self.protocol,
                leader="w1",
                members=metadata,
                generation=self.generation,
                last_completed_generation=self.generation - 1,
            ),
            ClusterState(offset=1, connectors=connectors),
            AssignorState(generation=0) if previous_plan is None else previous_plan.state,
            now_ms=self.now_ms,
            max_delay_ms=MAX_DELAY_MS,
            previous=previous_plan,
        )
        return self.plan


def test_new_submission_keeps_its_placement() -> None:
    leader = Leader()
    assert leader.round("w1", c=1).placements[ConnectorOrTask(C)] == Placement(PlacedBy.NEW, 1)
    plan = leader.round("w1", c=1, d=0)
    assert plan.placements == {
        ConnectorOrTask(C): Placement(PlacedBy.NEW, 1),
        ConnectorOrTask(C, 0): Placement(PlacedBy.NEW, 1),
        ConnectorOrTask(D): Placement(PlacedBy.NEW, 2),
    }
    assert plan.derived_sets.new_submissions == {ConnectorOrTask(D)}


def test_lost_instance_is_placed_on_a_candidate_after_the_delay() -> None:
    leader = Leader()
    leader.round("w1", "w2", c=0, d=0)
    delayed_plan = leader.round("w1", c=0, d=0)
    assert delayed_plan.derived_sets.lost_handling is LostHandling.DELAYED
    [lost_instance] = delayed_plan.derived_sets.lost
    assert lost_instance not in delayed_plan.placements
    leader.now_ms += MAX_DELAY_MS // 2
    leader.round("w1", "w3", c=0, d=0)
    leader.now_ms += MAX_DELAY_MS
    plan = leader.round("w1", "w3", c=0, d=0)
    assert plan.derived_sets.lost_handling is LostHandling.CANDIDATES
    assert plan.placements[lost_instance] == Placement(PlacedBy.CANDIDATE, 4)


def test_instance_of_a_lost_worker_is_placed_as_lost_after_the_delay() -> None:
    leader = Leader()
    leader.round("w1", "w2", c=0, d=0)
    [lost_instance] = leader.round("w1", c=0, d=0).derived_sets.lost
    leader.now_ms += MAX_DELAY_MS
    plan = leader.round("w1", c=0, d=0)
    assert (plan.derived_sets.lost_handling, plan.placements[lost_instance]) == (
        LostHandling.REASSIGNED,
        Placement(PlacedBy.LOST, 3),
    )


def test_revoked_instance_is_placed_as_revoked() -> None:
    leader = Leader()
    leader.round("w1", c=3)
    first_plan = leader.round("w1", "w2", c=3)
    assert first_plan.derived_sets.surplus == frozenset(first_plan.assignments["w1"].revoked)
    assert first_plan.derived_sets.surplus
    second_plan = leader.round("w1", "w2", c=3)
    assert {second_plan.placements[instance].by for instance in first_plan.derived_sets.surplus} == {
        PlacedBy.REVOKED
    }


def test_listed_instance_is_placed_as_static() -> None:
    leader = Leader()
    plan = leader.round("w1", "w2", static={"w2": (ConnectorOrTask(C, 0),)}, c=1)
    assert plan.placements[ConnectorOrTask(C, 0)] == Placement(PlacedBy.STATIC, 1)
    assert placement_reason(ConnectorOrTask(C, 0), plan.placements[ConnectorOrTask(C, 0)]).endswith(
        " lists it in static.tasks (KIP-987)."
    )


def test_instance_that_only_another_worker_lists_is_misplaced() -> None:
    leader = Leader()
    leader.round("w1", c=1)
    plan = leader.round("w1", "w2", static={"w2": (ConnectorOrTask(C, 0),)}, c=1)
    assert plan.derived_sets.misplaced == {ConnectorOrTask(C, 0)}


def test_new_leader_places_work_as_reported() -> None:
    leader = Leader()
    owners = leader.round("w1", c=1).owners
    successor = Leader()
    successor.plan, successor.generation = (
        GroupPlan(assignments={}, state=AssignorState(), owners=owners, urls={}),
        7,
    )
    assert set(successor.round("w1", c=1).placements.values()) == {Placement(PlacedBy.REPORTED, 8)}


def test_placements_of_the_eager_protocol_have_the_reason_eager() -> None:
    leader = Leader(GroupProtocol.DEFAULT)
    assert set(leader.round("w1", c=1).placements.values()) == {Placement(PlacedBy.EAGER, 1)}


@pytest.mark.parametrize("by", PlacedBy)
def test_every_placement_has_a_reason(by: PlacedBy) -> None:
    assert " generation 3" in placement_reason(ConnectorOrTask(C), Placement(by, 3))

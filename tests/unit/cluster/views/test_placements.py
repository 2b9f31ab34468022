"""Tests for `describe_placement`, which derives the placement of a connector or task from the leader's plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraal.cluster.views.placements import describe_placement
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.ids import ConnectorName, Instance, TaskId, WorkerId
from tests.fakes.cluster.static_plans import PLANNED_MS, Leader, make_url
from tests.fakes.cluster.static_scenario import FIVE_MINUTES_MS

C1, C2 = ConnectorName("c1"), ConnectorName("c2")


def kinds(snapshot: Snapshot, *instances: Instance) -> list[object]:
    return [(describe_placement(snapshot, instance) or {}).get("kind") for instance in instances]


def test_static_and_new_work_name_their_worker_and_generation() -> None:
    leader = Leader(c1=2)
    leader.join("w1")
    leader.join("w2", "c1 c1-0")
    leader.rebalance()
    snapshot = leader.snapshot()
    assert kinds(snapshot, C1, TaskId(C1, 0), TaskId(C1, 1)) == ["static", "static", "new"]
    assert describe_placement(snapshot, C1) == {
        "kind": "static",
        "worker": make_url("w2"),
        "generation": 1,
        "why": "Assigned in generation 1 to a worker that lists it in static.connectors (KIP-987).",
        "rebalance": "unknown: this is the leader's first rebalance, or the previous one failed",
        "until_ms": None,
    }


def test_lost_work_waits_until_the_delay_ends() -> None:
    leader = Leader(c1=0, c2=0)
    leader.join("w1")
    leader.join("w2")
    leader.rebalance()
    del leader.workers["w2"]
    leader.rebalance()
    placement = describe_placement(leader.snapshot(), C2)
    assert placement is not None
    assert (placement["kind"], placement["worker"]) == ("lost", None)
    assert placement["until_ms"] == PLANNED_MS + FIVE_MINUTES_MS
    assert placement["rebalance"] == f"left: {make_url('w2')}"


def test_revoked_work_waits_for_the_next_rebalance() -> None:
    leader = Leader(c1=0, c2=0)
    leader.join("w1")
    leader.rebalance()
    leader.join("w2")
    leader.rebalance()
    assert sorted(map(str, kinds(leader.snapshot(), C1, C2))) == ["moving", "new"]
    leader.rebalance()
    assert sorted(map(str, kinds(leader.snapshot(), C1, C2))) == ["new", "revoked"]


def test_work_newer_than_the_plan_is_unplanned() -> None:
    leader = Leader(c1=0)
    leader.join("w1")
    leader.rebalance()
    leader.configure(c1=0, c2=0)
    assert kinds(leader.snapshot(), C1, C2) == ["new", "unplanned"]


@pytest.mark.parametrize(("is_leader", "kind"), [(True, "standalone"), (False, None)])
def test_placement_without_a_plan_is_standalone_or_unknown(*, is_leader: bool, kind: str | None) -> None:
    snapshot = Snapshot(worker_id=WorkerId("w"), leader_url="http://w/", is_leader=is_leader)
    assert kinds(snapshot, C1) == [kind]
    leader = Leader(c1=0)
    leader.join("w1")
    leader.rebalance()
    follower = replace(leader.snapshot(), plan=None, is_leader=False)
    assert describe_placement(follower, C1) is None

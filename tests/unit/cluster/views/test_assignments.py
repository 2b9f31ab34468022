"""Tests for the response of `GET /admin/assignments`: workers, static assignments, waiting instances and reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraal.cluster.assignment.leader import JoinResult, plan_group
from kraal.cluster.assignment.rebalance import AssignorState
from kraal.cluster.views.assignments import group_assignments
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.ids import WorkerId
from kraal.protocol.group import GroupProtocol, WorkerMetadata
from tests.fakes.cluster.static_plans import Leader, make_url

W1, W2, W3 = (make_url(name) for name in ("w1", "w2", "w3"))
UNKNOWN_REASON = "unknown: this is the leader's first rebalance, or the previous one failed"


def test_response_lists_static_and_wildcard_workers() -> None:
    leader = Leader(c1=2)
    leader.join("w2", "c1 c1-0 elsewhere elsewhere-3")
    leader.join("w1")
    leader.rebalance()
    assert group_assignments(leader.snapshot()) == {
        "protocol": "static",
        "generation": 1,
        "leader": W1,
        "note": None,
        "rebalance": {"completed_ms": 1_700_000_000_000, "reason": UNKNOWN_REASON, "delay_ms": 0},
        "rebalances": [
            {
                "generation": 1,
                "completed_ms": 1_700_000_000_000,
                "leader": W1,
                "reason": UNKNOWN_REASON,
                "delay_ms": 0,
            }
        ],
        "workers": [
            {
                "url": W1,
                "kind": "wildcard",
                "static_connectors": None,
                "static_tasks": None,
                "connectors": [],
                "tasks": ["c1-1"],
            },
            {
                "url": W2,
                "kind": "static",
                "static_connectors": ["c1", "elsewhere"],
                "static_tasks": ["c1-0", "elsewhere-3"],
                "connectors": ["c1"],
                "tasks": ["c1-0"],
            },
        ],
        "waiting": [],
    }


def test_earlier_rebalances_follow_the_last_one() -> None:
    leader = Leader(c1=0)
    for name in ("w1", "w2"):
        leader.join(name)
        leader.rebalance()
    assignments = group_assignments(leader.snapshot())
    assert isinstance(rows := assignments["rebalances"], list)
    assert [isinstance(row, dict) and (row["generation"], row["reason"]) for row in rows] == [
        (2, f"joined: {W2}"),
        (1, UNKNOWN_REASON),
    ]


def waiting_instances(leader: Leader) -> dict[tuple[object, object], tuple[object, object]]:
    rows = group_assignments(leader.snapshot())["waiting"]
    assert isinstance(rows, list)
    reasons: dict[tuple[object, object], tuple[object, object]] = {}
    for row in rows:
        assert isinstance(row, dict)
        reasons[row["connector"], row["task"]] = (row["state"], row["reason"])
    return reasons


def test_waiting_instances_report_the_reason_and_the_remedy() -> None:
    leader = Leader(c1=1)
    leader.join("w1", "elsewhere")
    leader.rebalance()
    reason = (
        "No worker may run it: every worker of the group has static assignments, and none lists {}. List it in {} "
        "of a worker, or start a worker without static assignments."
    )
    assert waiting_instances(leader) == {
        ("c1", None): ("unlisted", reason.format("connector c1", "static.connectors")),
        ("c1", 0): ("unlisted", reason.format("task c1-0", "static.tasks")),
    }


def test_lost_instances_wait_for_their_worker_and_moving_instances_for_the_next_rebalance() -> None:
    leader = Leader(c1=0, c2=0, c3=0)
    for name in ("w1", "w2", "w3"):
        leader.join(name)
    leader.rebalance()
    lost_instance = next(instance for instance, member in leader.rebalance().owners.items() if member == "w2")
    del leader.workers["w2"]
    plan = leader.rebalance()
    assert plan.delay_ms > 0
    assert waiting_instances(leader).keys() == {(lost_instance.connector, None)}
    assert waiting_instances(leader)[lost_instance.connector, None][0] == "lost"
    moving_instance = next(instance for instance in plan.owners)
    leader.join("w4", moving_instance.connector)
    leader.rebalance()
    assert waiting_instances(leader)[moving_instance.connector, None][0] == "moving"
    assert leader.rebalance().owners[moving_instance] == "w4"


def test_rebalance_reasons_describe_all_changes() -> None:
    leader = Leader(c1=2)
    leader.join("w1")
    assert leader.rebalance().why == UNKNOWN_REASON
    leader.join("w2")
    assert leader.rebalance().why == f"joined: {W2}"
    assert leader.rebalance().why == "assigning work that has stopped elsewhere: c1-0"
    leader.configure(c1=10)
    assert leader.rebalance().why == "new: c1-2, c1-3, c1-4, c1-5, c1-6 and 3 more"
    leader.configure(c1=2)
    assert leader.rebalance().why == "deleted: c1-2, c1-3, c1-4, c1-5, c1-6 and 3 more"
    del leader.workers["w2"]
    leader.join("w3")
    assert leader.rebalance().why == f"joined: {W3}; left: {W2}"
    leader.now_ms += leader.plan.delay_ms if leader.plan else 0
    assert leader.rebalance().why == "the delay of the previous rebalance has expired"
    assert (
        leader.rebalance().why
        == "a worker requested it: new task configs, or a worker whose config was behind"
    )


def test_unassignable_instance_is_new_only_once() -> None:
    leader = Leader(c1=0)
    leader.join("w1", "elsewhere")
    leader.rebalance()
    leader.configure(c1=0, c2=0)
    assert leader.rebalance().why == "new: c2"
    assert leader.rebalance().why.startswith("a worker requested it")


@pytest.mark.parametrize("protocol", [GroupProtocol.DEFAULT, GroupProtocol.SESSIONED])
def test_note_reports_static_assignments_ignored_because_of_an_older_worker(protocol: GroupProtocol) -> None:
    leader = Leader(protocol, c1=0)
    leader.join("w1", "elsewhere")
    leader.rebalance()
    assignments = group_assignments(leader.snapshot())
    assert assignments["protocol"] == protocol
    assert assignments["note"] == (
        "Static assignments are ignored, because not every worker of the group has connect.protocol=static. "
        "Workers of Apache Kafka do not support this protocol."
    )
    assert isinstance(workers := assignments["workers"], list)
    assert isinstance(worker := workers[0], dict)
    assert (worker["kind"], worker["static_connectors"], worker["connectors"]) == ("wildcard", None, ["c1"])


def test_standalone_worker_is_assigned_all_instances() -> None:
    leader = Leader(c1=1)
    snapshot = Snapshot(
        worker_id=WorkerId("w1:8083"), is_leader=True, leader_url=W1, config=leader.cluster, live=True
    )
    assignments = group_assignments(snapshot)
    assert (
        assignments["protocol"],
        assignments["rebalance"],
        assignments["note"],
        assignments["waiting"],
    ) == (None, None, None, [])
    assert assignments["rebalances"] == []
    assert isinstance(workers := assignments["workers"], list)
    assert isinstance(worker := workers[0], dict)
    assert (worker["url"], worker["connectors"], worker["tasks"]) == (W1, ["c1"], ["c1-0"])


def test_lagging_leader_is_reported() -> None:
    leader = Leader(c1=0)
    join_result = JoinResult(
        protocol=GroupProtocol.STATIC,
        leader="w1",
        members={"w1": WorkerMetadata(version=3, url=W1, config_offset=9)},
        generation=1,
        last_completed_generation=-1,
    )
    plan = plan_group(join_result, leader.cluster, AssignorState(), now_ms=0, max_delay_ms=0)
    assert plan.why == "the leader has read the config up to offset 1, another worker up to 9"
    snapshot = replace(leader.snapshot(), plan=plan)
    assert group_assignments(snapshot)["waiting"] == []

"""Tests for `kraal assignments`."""

from __future__ import annotations

import json

from kraal.cluster.views.assignments import group_assignments
from kraal.cluster.views.rebalances import describe_rebalance
from kraal.core.ids import Generation
from kraal.protocol.group import GroupProtocol
from tests.fakes.cluster.static_plans import Leader
from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.conftest import Kraal


def script_response(worker: Connect, leader: Leader) -> object:
    """Script the response of this leader on the worker, and return the response."""
    assignments = group_assignments(leader.snapshot())
    worker.script("GET", "/admin/assignments", ScriptedResponse(body=assignments))
    return assignments


def test_assignments_shows_static_and_current_assignments_and_the_last_rebalance(
    kraal: Kraal, worker: Connect
) -> None:
    leader = Leader(c1=1, c2=0)
    leader.join("w1", "c1")
    leader.join("w2", "c1-0 c1-7")
    leader.rebalance()
    script_response(worker, leader)
    assert kraal.out("assignments") == (
        "WORKER            KIND     STATIC       RUNNING\n"
        "http://w1:8083/   static   c1           c1\n"
        "http://w2:8083/   static   c1-0, c1-7   c1-0\n"
        "\n"
        "WAITING   REASON\n"
        "c2        No worker may run it: every worker of the group has static assignments, and none lists connector "
        "c2. List it in static.connectors of a worker, or start a worker without static assignments.\n"
        "\n"
        "Last rebalance: generation 1 of protocol static, 2023-11-14 22:13:20+00:00, led by http://w1:8083/\n"
        "unknown: this is the leader's first rebalance, or the previous one failed\n"
    )


def test_assignments_shows_why_static_assignments_are_ignored_and_lost_work_waits(
    kraal: Kraal, worker: Connect
) -> None:
    leader = Leader(GroupProtocol.SESSIONED, c1=0, c2=0)
    leader.join("w1")
    leader.join("w2")
    leader.rebalance()
    del leader.workers["w2"]
    leader.rebalance()
    script_response(worker, leader)
    lines = kraal.out("assignments").splitlines()
    assert lines[1] == "http://w1:8083/   wildcard   -        c1"
    assert lines[4].startswith("c2        Its worker has left the group.")
    assert lines[6].startswith("Static assignments are ignored, because not every worker of the group has")
    assert lines[9] == (
        "left: http://w2:8083/; the next rebalance follows within 300 s to reassign lost work"
    )


def test_assignments_shows_earlier_rebalances_with_reasons_and_leaders(kraal: Kraal, worker: Connect) -> None:
    leader = Leader(c1=0)
    foreign_rebalance = describe_rebalance(
        None, generation=Generation(7), leader_url="http://w9:8083/", now_ms=0
    )
    leader.rebalances = (foreign_rebalance,)
    for name in ("w1", "w2"):
        leader.join(name)
        leader.rebalance()
    script_response(worker, leader)
    lines = kraal.out("assignments").splitlines()
    assert lines[-3].split() == ["EARLIER", "GENERATION", "LEADER", "REASON"]
    assert lines[-2].startswith(
        "2023-11-14 22:13:20+00:00   1            http://w1:8083/   unknown: this is the"
    )
    assert (
        lines[-1]
        == "1970-01-01 00:00:00+00:00   7            http://w9:8083/   unknown: another worker was the leader"
    )


def test_older_worker_reports_only_the_last_rebalance(kraal: Kraal, worker: Connect) -> None:
    leader = Leader(c1=1)
    leader.join("w1")
    leader.rebalance()
    assignments = group_assignments(leader.snapshot())
    del assignments["rebalances"]
    worker.script("GET", "/admin/assignments", ScriptedResponse(body=assignments))
    assert (
        kraal.out("assignments").splitlines()[-1].startswith("unknown: this is the leader's first rebalance")
    )


def test_json_output_is_the_response(kraal: Kraal, worker: Connect) -> None:
    leader = Leader(c1=1)
    leader.join("w1")
    leader.rebalance()
    assignments = script_response(worker, leader)
    assert json.loads(kraal.out("assignments", "-o", "json")) == assignments


def test_standalone_worker_runs_all_instances(kraal: Kraal, worker: Connect) -> None:
    worker.create("orders", {"connector.class": "FakeSource", "tasks.max": "1"})
    assert "wildcard   -        orders, orders-0" in kraal.out("assignments")


def test_missing_assignments_endpoint_is_reported(kraal: Kraal, worker: Connect) -> None:
    not_found_body = {"error_code": 404, "message": "HTTP 404 Not Found"}
    worker.script("GET", "/admin/assignments", ScriptedResponse(404, not_found_body))
    assert "this worker does not serve /admin/assignments on this listener: it is not a Kraal worker" in (
        kraal.error("assignments")
    )

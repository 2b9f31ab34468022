"""Tests for the cluster view, built from the leader's response or only from statuses."""

from __future__ import annotations

from typing import Any

from web.ui.views.cluster import Cluster, Rebalance, build_cluster, worker_id
from web.ui.views.states import DisplayState
from web.ui.views.statuses import connector_status

A, B = "10.0.0.1:8083", "10.0.0.2:8083"
STATUSES = [
    connector_status(
        "orders-1",
        {
            "connector": {"state": "RUNNING", "worker_id": A},
            "tasks": [
                {"id": 0, "state": "RUNNING", "worker_id": B},
                {"id": 1, "state": "UNASSIGNED", "worker_id": B},
                {"id": 2, "state": "FAILED", "worker_id": B},
            ],
        },
    )
]
ASSIGNMENTS: dict[str, Any] = {
    "protocol": "sessioned",
    "generation": 7,
    "leader": f"http://{A}/",
    "note": None,
    "rebalance": {"completed_ms": 5, "reason": "a worker left", "delay_ms": 300_000},
    "rebalances": [
        {
            "generation": 7,
            "completed_ms": 5,
            "leader": f"http://{A}/",
            "reason": "a worker left",
            "delay_ms": 1,
        },
        {"generation": 6, "completed_ms": 4, "leader": f"http://{B}/", "reason": None, "delay_ms": None},
    ],
    "workers": [
        {"url": f"http://{A}/", "kind": "wildcard", "connectors": ["orders-1"], "tasks": []},
        {
            "url": "http://10.0.0.3:8083/",
            "kind": "static",
            "connectors": [],
            "tasks": ["orders-1-0", "orders-1-12"],
        },
    ],
    "waiting": [{"connector": "orders-1", "task": None, "state": "lost", "reason": "Its worker was lost."}],
}


def workers(cluster: Cluster) -> dict[str, dict[str, list[int | None]]]:
    return {worker.id: dict(worker.connectors) for worker in cluster.workers}


def test_workers_of_a_java_cluster_are_derived_from_statuses() -> None:
    cluster = build_cluster(None, STATUSES)
    assert not cluster.has_assignments
    assert workers(cluster) == {A: {"orders-1": [None]}, B: {"orders-1": [0, 2]}}
    assert (cluster.workers[1].task_count, cluster.workers[1].connector_count) == (2, 0)
    assert cluster.workers[1].counts == [(DisplayState.FAILED, 1), (DisplayState.RUNNING, 1)]


def test_leader_reports_assignments_and_unassigned_instances() -> None:
    cluster = build_cluster(ASSIGNMENTS, STATUSES)
    assert (cluster.generation, cluster.leader, cluster.reason, cluster.delay_ms) == (
        7, f"http://{A}/", "a worker left", 300_000,
    )  # fmt: skip
    assert workers(cluster)["10.0.0.3:8083"] == {"orders-1": [0, 12]}
    assert [(worker.id, worker.is_leader, worker.is_static) for worker in cluster.workers] == [
        (A, True, False), (B, False, False), ("10.0.0.3:8083", False, True),
    ]  # fmt: skip
    assert cluster.unassigned_instances[0].reason == "Its worker was lost."
    assert cluster.unassigned_instances[0].task is None


def test_leader_reports_the_latest_rebalances() -> None:
    cluster = build_cluster(ASSIGNMENTS, ())
    assert cluster.rebalances == [Rebalance(7, 5, A, "a worker left"), Rebalance(6, 4, B, "")]
    assert not build_cluster({"leader": "x", "rebalances": None}, ()).rebalances, (
        "older workers do not report rebalances"
    )


def test_standalone_worker_has_no_group() -> None:
    assignments = {
        **ASSIGNMENTS,
        "protocol": None,
        "rebalance": None,
        "waiting": [],
        "workers": [{"url": None}],
    }
    cluster = build_cluster(assignments, ())
    assert (cluster.protocol, cluster.rebalanced_ms, list(cluster.unassigned_instances)) == ("", None, [])


def test_malformed_responses_cause_no_error() -> None:
    assert (
        build_cluster(
            {"workers": 7, "waiting": [1], "rebalance": [], "rebalances": [1], "leader": 3}, ()
        ).workers
        == []
    )


def test_worker_id_is_host_and_port() -> None:
    assert worker_id("https://h:1/") == "h:1"
    assert worker_id("h:1") == "h:1"

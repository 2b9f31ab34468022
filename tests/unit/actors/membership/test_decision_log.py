"""Tests that the leader and the members log each decision with the sets of instances on which the decision is based."""

from __future__ import annotations

import logging

import pytest

from actors.membership.decision_log import log_plan
from kraal.cluster.assignment.leader import JoinResult, plan_group
from kraal.cluster.assignment.rebalance import AssignorState
from kraal.cluster.state.cluster_state import ClusterState
from kraal.protocol.group import GroupProtocol, WorkerMetadata
from tests.fakes.cluster.group_cluster import Cluster


def texts(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


@pytest.fixture
def cluster(caplog: pytest.LogCaptureFixture) -> Cluster:
    caplog.set_level(logging.DEBUG, logger="actors.membership.decision_log")
    cluster = Cluster(max_delay_s=30.0)
    for _ in range(2):
        cluster.add()
    cluster.configure(c1=0, c2=0)
    cluster.settle(30)
    return cluster


def test_leader_logs_new_submissions_and_previous_assignments(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    cluster.configure(c3=0)
    cluster.settle(30)
    [line] = [text for text in texts(caplog, logging.INFO) if "1 new submissions" in text]
    assert line.startswith("Planned generation ")
    assert line.endswith(" on 2 members: 1 new submissions, 0 lost assignments, 0 to revoke; reason: new: c3")
    details = texts(caplog, logging.DEBUG)
    assert "Derived from the reports of all members: new submissions: [c3]" in details
    assert "Derived from the reports of all members: previous assignments: [c1, c2]" in details
    assert [
        text for text in details if text.startswith("Applied the assignment of generation ") and "c3" in text
    ]


def test_leader_logs_a_delayed_rebalance_and_its_end(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    member = min(cluster.workers, key=lambda worker: worker.deliveries[-1].is_leader)
    [lost_connector_or_task] = member.running
    caplog.clear()
    cluster.remove(member)
    cluster.advance(10)
    assert (
        f"Delaying the rebalance by 30000 ms; lost assignments: {lost_connector_or_task.instance}"
        in texts(caplog, logging.INFO)
    )
    cluster.settle(40)
    assert (
        f"Reassigning lost assignments, because their worker has not returned: {lost_connector_or_task.instance}"
        in texts(caplog, logging.INFO)
    )


def test_member_logs_revoked_work(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    cluster.configure(c1=-1)
    cluster.settle(30)
    details = texts(caplog, logging.DEBUG)
    assert [text for text in details if text.startswith("Revocation ") and "connectors [c1]" in text]
    assert [text for text in details if "deleted assignments: [c1]" in text]


def test_lagging_leader_logs_a_refused_assignment(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    metadata = WorkerMetadata(version=2, url="http://w/", config_offset=9)
    join_result = JoinResult(
        protocol=GroupProtocol.SESSIONED,
        leader="w",
        members={"w": metadata},
        generation=3,
        last_completed_generation=2,
    )
    log_plan(plan_group(join_result, ClusterState(offset=4), AssignorState(), now_ms=0, max_delay_ms=0), 3)
    reason = "the leader has read the config up to offset 4, another worker up to 9"
    assert texts(caplog, logging.INFO) == [
        f"Computed no assignments for generation 3: {reason}; all members rejoin"
    ]

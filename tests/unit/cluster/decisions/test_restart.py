"""Tests for restart requests, restart plans and the body of the 202 response (KIP-745)."""

from __future__ import annotations

import itertools

import pytest

from kraal.cluster.decisions.restart import (
    RestartPlan,
    RestartRequest,
    higher_impact,
    plan_response,
    plan_restart,
    restart_entry,
)
from kraal.cluster.state.statuses import ConnectorStatuses, StatusState
from kraal.core.ids import ConnectorName, Generation, State, TaskId, WorkerId
from kraal.protocol.status_records import Status

X = ConnectorName("my-connector")


def status(state: State, worker: str, trace: str | None = None) -> Status:
    return Status(
        state=state, worker_id=WorkerId(worker), generation=Generation(1), trace=trace, version="4.3.0"
    )


def statuses(connector: State, *tasks: State) -> StatusState:
    """Return statuses whose tasks are in reverse order, because a plan must not depend on their order."""
    task_statuses = {n: status(s, f"fakehost{n}:8083") for n, s in reversed(list(enumerate(tasks)))}
    return StatusState(
        statuses={X: ConnectorStatuses(connector=status(connector, "fakehost1:8083"), tasks=task_statuses)}
    )


def request(*, include_tasks: bool, only_failed: bool) -> RestartRequest:
    return RestartRequest(name=X, include_tasks=include_tasks, only_failed=only_failed)


def make_plan(restart_request: RestartRequest, status_state: StatusState) -> RestartPlan:
    plan = plan_restart(restart_request, status_state)
    assert plan is not None
    return plan


FAILED_CONNECTOR = request(include_tasks=False, only_failed=True)
FAILED_INSTANCES = request(include_tasks=True, only_failed=True)
CONNECTOR_ONLY = request(include_tasks=False, only_failed=False)
ALL_INSTANCES = request(include_tasks=True, only_failed=False)
RUNNING, FAILED = State.RUNNING, State.FAILED


@pytest.mark.parametrize(
    ("restart_request", "connector", "tasks", "starts"),
    [
        pytest.param(CONNECTOR_ONLY, RUNNING, [RUNNING] * 4, (1, []), id="running: connector only"),
        pytest.param(ALL_INSTANCES, RUNNING, [RUNNING] * 4, (1, [0, 1, 2, 3]), id="running: all"),
        pytest.param(FAILED_CONNECTOR, RUNNING, [RUNNING] * 4, (0, []), id="running: failed connector"),
        pytest.param(FAILED_INSTANCES, RUNNING, [RUNNING] * 4, (0, []), id="running: all failed"),
        pytest.param(
            FAILED_CONNECTOR, FAILED, [RUNNING] * 4, (1, []), id="failed connector: failed connector"
        ),
        pytest.param(FAILED_INSTANCES, FAILED, [RUNNING] * 4, (1, []), id="failed connector: all failed"),
        pytest.param(
            FAILED_INSTANCES,
            RUNNING,
            [RUNNING, FAILED, RUNNING, FAILED],
            (0, [1, 3]),
            id="failed tasks: all failed",
        ),
        pytest.param(FAILED_CONNECTOR, RUNNING, [FAILED] * 4, (0, []), id="failed tasks: failed connector"),
        pytest.param(ALL_INSTANCES, RUNNING, [FAILED] * 4, (1, [0, 1, 2, 3]), id="failed tasks: all"),
    ],
)
def test_restart_plan_matches_kip_745(
    restart_request: RestartRequest, connector: State, tasks: list[State], starts: tuple[int, list[int]]
) -> None:
    """KIP-745: "“onlyFailed” specifies whether to restart just the instances with a FAILED status"."""
    plan = make_plan(restart_request, statuses(connector, *tasks))
    assert (int(plan.restarts_connector), [t.task for t in plan.tasks]) == starts


def test_instances_in_every_state_are_restarted_without_only_failed() -> None:
    """KIP-745: "... or all instances (“onlyFailed=false”)": PAUSED, STOPPED and UNASSIGNED as well."""
    for state in State:
        plan = make_plan(ALL_INSTANCES, statuses(state, state))
        assert plan.instances == (X, TaskId(X, 0))


def test_connector_without_a_status_has_no_plan() -> None:
    assert plan_restart(ALL_INSTANCES, StatusState()) is None


def test_response_shows_restarting_for_planned_instances_only() -> None:
    """KIP-745's example: tasks 1 and 2 failed, "?includeTasks=true&onlyFailed=true"."""
    plan = make_plan(FAILED_INSTANCES, statuses(RUNNING, RUNNING, FAILED, FAILED))
    assert plan_response(plan, "source") == {
        "name": "my-connector",
        "connector": {"state": "RUNNING", "worker_id": "fakehost1:8083", "version": "4.3.0"},
        "tasks": [
            {"id": 0, "state": "RUNNING", "worker_id": "fakehost0:8083", "version": "4.3.0"},
            {"id": 1, "state": "RESTARTING", "worker_id": "fakehost1:8083", "version": "4.3.0"},
            {"id": 2, "state": "RESTARTING", "worker_id": "fakehost2:8083", "version": "4.3.0"},
        ],
        "type": "source",
    }


def test_response_keeps_an_old_trace_as_in_java() -> None:
    connector_statuses = ConnectorStatuses(connector=status(FAILED, "w:1", trace="boom"))
    body = plan_response(make_plan(FAILED_CONNECTOR, StatusState(statuses={X: connector_statuses})), "sink")
    assert list(body) == ["name", "connector", "tasks", "type"]
    assert body["connector"] == {
        "state": "RESTARTING",
        "worker_id": "w:1",
        "version": "4.3.0",
        "trace": "boom",
    }


def test_impact_grows_with_the_scope() -> None:
    """RestartRequest.impactRank: (onlyFailed,noTasks) < (onlyFailed,tasks) < (all,noTasks) < (all,tasks)."""
    requests_by_impact = [FAILED_CONNECTOR, FAILED_INSTANCES, CONNECTOR_ONLY, ALL_INSTANCES]
    assert [r.impact for r in requests_by_impact] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("pending_request", "new_request"),
    list(itertools.product([FAILED_CONNECTOR, FAILED_INSTANCES, CONNECTOR_ONLY, ALL_INSTANCES], repeat=2)),
)
def test_only_a_higher_impact_replaces_the_pending_request(
    pending_request: RestartRequest, new_request: RestartRequest
) -> None:
    """Source: DistributedHerder.requestRestart, RestartRequest.compareTo."""
    request_to_keep = higher_impact(pending_request, new_request)
    has_higher_impact = new_request.impact > pending_request.impact
    assert request_to_keep is (new_request if has_higher_impact else pending_request)


def test_only_a_request_without_flags_is_plain() -> None:
    assert [r.is_plain for r in (FAILED_CONNECTOR, FAILED_INSTANCES, CONNECTOR_ONLY, ALL_INSTANCES)] == [
        False,
        False,
        True,
        False,
    ]


def test_restart_record_matches_kip_745() -> None:
    """KIP-745: key "restart-connector-<connectorName>", value include-tasks and only-failed."""
    entry = restart_entry(FAILED_INSTANCES)
    assert entry.key == "restart-connector-my-connector"
    assert entry.value == b'{"include-tasks":true,"only-failed":true}'

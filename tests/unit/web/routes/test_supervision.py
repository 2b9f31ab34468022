"""Tests for `expand=supervision`, and for stalled tasks in `/health`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from kraal.cluster.decisions.auto_restart import FailureHistory, NoRestartReason
from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.cluster.state.wanted_work import Incarnation
from kraal.core.ids import ConnectorName, State, TaskId, WorkerId
from tests.unit.web.api import Api, document, status
from tests.unit.web.openapi.test_document import matches
from tests.unit.web.workers import FakePeer, Worker
from web.settings import Settings

if TYPE_CHECKING:
    from kraal.metrics.stalls.work import Work

NAME = ConnectorName("c")
T0, T1 = TaskId(NAME, 0), TaskId(NAME, 1)
SUPERVISION_PATH = "/connectors/c/status?expand=supervision"
HEALTHY = '{"status":"healthy","message":"Worker has completed startup and is ready to handle requests."}'


def start_task(api: Api, **config: str) -> Work:
    """Publish a connector with a task on this worker; return the task's `Work`, with which the engine reports steps."""
    api.herder.put("c", {"errors.auto.restart": "task", **config}, tasks=1)
    for instance in (NAME, T0):
        api.metrics.record_start(instance)
        api.metrics.record_state(instance, State.RUNNING, "1.0")
    return api.metrics.track(T0)


def get_supervision(api: Api) -> dict[str, Any]:
    code, text = api.request("GET", SUPERVISION_PATH)
    assert code == 200
    body = json.loads(text)
    openapi = document(Settings(advertised_url="http://worker:8083/"))
    assert matches(openapi["components"]["schemas"]["ConnectorStateInfo"], body, openapi)
    supervision: dict[str, Any] = body["supervision"]
    return supervision


@pytest.mark.parametrize("query", ["", "?expand=status", "?expand=", "?supervision", "?expand=Supervision"])
def test_response_without_expand_matches_connect(api: Api, query: str) -> None:
    start_task(api)
    connect_response = api.request("GET", "/connectors/c/status")
    assert "supervision" not in connect_response[1]
    get_supervision(api)
    assert api.request("GET", f"/connectors/c/status{query}") == connect_response


def test_status_is_unchanged_and_precedes_supervision(api: Api) -> None:
    start_task(api)
    connect_status = json.loads(api.request("GET", "/connectors/c/status")[1])
    expanded_status = json.loads(api.request("GET", SUPERVISION_PATH)[1])
    assert list(expanded_status) == [*connect_status, "supervision"]
    assert {name: expanded_status[name] for name in connect_status} == connect_status


def test_connector_policy_overrides_the_worker_policy(api: Api) -> None:
    start_task(api, **{"errors.auto.restart.window.ms": "500", "errors.auto.restart.backoff.ms": "nonsense"})
    assert get_supervision(api)["policy"] == {
        "restart": "task",
        "max": 5,
        "window_ms": 500,
        "backoff_ms": 1000,
    }


def test_failed_instances_report_past_and_next_restarts(api: Api) -> None:
    start_task(api)
    api.clock.advance_to(100.0)
    failure_history = FailureHistory(
        incarnation=Incarnation(1), config_version=1, trace="OSError: x", restarts=(-4000.0, 50.0), total=7,
        restarted_ms=1_700_000_050_000, due_s=101.0, due_ms=1_700_000_101_000,
    )  # fmt: skip
    api.herder.publish(watched={T0: failure_history, T1: failure_history})
    body = get_supervision(api)
    assert body["silent"] == []
    assert body["connector"]["supervised"] is False, "only tasks are supervised"
    [task] = body["tasks"]
    assert task == {
        "id": 0, "worker_id": "worker:8083", "supervised": True, "restarts": 7, "restarts_in_window": 1,
        "last_restart_ms": 1_700_000_050_000,
        "next_restart_ms": 1_700_000_101_000, "given_up": None, "why": None, "stalled": False,
        "stall_cause": None, "step_ms": None,
        "last_batch_age_ms": None, "last_batch_way": None,
    }  # fmt: skip


def test_abandoned_restarts_report_the_reason(api: Api) -> None:
    start_task(api)
    api.herder.publish(
        watched={
            T0: FailureHistory(
                incarnation=Incarnation(1), config_version=1, given_up=NoRestartReason.TOO_OFTEN
            )
        }
    )
    [task] = get_supervision(api)["tasks"]
    assert task["given_up"] == "too-often"
    assert task["why"].startswith(
        "It was restarted 5 times within 3600 s, and errors.auto.restart.max allows no more"
    )


def test_slow_step_is_stalled_and_worker_stays_healthy(api: Api) -> None:
    work = start_task(api)
    work(busy=True, step="batch")
    api.clock.advance_to(60.0)
    assert not get_supervision(api)["tasks"][0]["stalled"], "the stall timeout is a minute"
    assert api.request("GET", "/health") == (200, HEALTHY)
    api.clock.advance_to(61.0)
    work(busy=True, failure="the broker is away")  # a retry is not progress
    [task] = get_supervision(api)["tasks"]
    cause = "The batch does not complete: the broker is away"
    assert (task["stalled"], task["stall_cause"], task["step_ms"]) == (True, cause, 61_000), (
        "responses are not cached"
    )
    code, text = api.request("GET", "/health")
    assert (code, json.loads(text)) == (
        200,
        {
            **json.loads(HEALTHY),
            "stalled_tasks": 1,
            "stalled": [
                {
                    "connector": "c",
                    "task": 0,
                    "cause": cause,
                    "stalled_ms": 61_000,
                    "step_ms": 61_000,
                    "last_batch_age_ms": None,
                }
            ],
        },
    )
    state = json.loads(api.request("GET", "/connectors/c/status")[1])["tasks"][0]["state"]
    assert state == "RUNNING", "the stall does not replace Connect's state"
    work(busy=False)
    assert not get_supervision(api)["tasks"][0]["stalled"]
    assert api.request("GET", "/health") == (200, HEALTHY)


def publish_tasks(worker: Worker, *, task: int, tasks: Mapping[int, str]) -> None:
    """Publish `tasks` (task number to worker id) on a worker, which itself runs only `task`."""
    statuses_by_task = {
        number: replace(status(State.RUNNING), worker_id=WorkerId(owner)) for number, owner in tasks.items()
    }
    worker_id = WorkerId(urlsplit(worker.url).netloc)
    connector = replace(status(State.RUNNING), worker_id=worker_id)
    statuses = ConnectorStatuses(connector=connector, tasks=statuses_by_task)
    worker.api.herder.publish(worker_id=worker_id)
    worker.api.herder.put("c", {"errors.auto.restart": "task"}, tasks=len(tasks), statuses=statuses)
    for task_number in tasks:
        worker.api.metrics.remove(TaskId(NAME, task_number))
    worker.api.metrics.record_start(TaskId(NAME, task))


def test_instances_of_other_workers_are_reported_by_their_owner(
    follower: Worker, leader: Worker, peer: tuple[str, FakePeer]
) -> None:
    url, stub = peer
    follower_id, leader_id, java_id = (
        urlsplit(worker_url).netloc for worker_url in (follower.url, leader.url, url)
    )
    stub.status, stub.body = 200, b'{"name":"c"}'
    tasks = {0: follower_id, 1: leader_id, 2: java_id, 3: "no worker/at:1"}
    publish_tasks(follower, task=0, tasks=tasks)
    publish_tasks(leader, task=1, tasks=tasks)
    response = follower.ask("GET", "/connectors/c/status?expand=supervision").json()["supervision"]
    assert [(task["id"], task["worker_id"]) for task in response["tasks"]] == [
        (0, follower_id),
        (1, leader_id),
    ]
    assert sorted(response["silent"]) == sorted([java_id, "no worker/at:1"])
    [request] = stub.requests
    assert request.target == "/connectors/c/status?forward=false&expand=supervision"
    local_supervision = leader.ask("GET", "/connectors/c/status?forward=false&expand=supervision").json()[
        "supervision"
    ]
    assert ([task["id"] for task in local_supervision["tasks"]], local_supervision["silent"]) == ([1], [])


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (500, b'{"error_code":500,"message":"x"}'),
        (200, b"nonsense"),
        (200, b'{"supervision":7}'),
        (200, b'{"supervision":{"tasks":[7]}}'),
        (200, b""),
        (204, b""),
    ],
)
def test_worker_with_a_malformed_response_is_listed_as_silent(
    follower: Worker, peer: tuple[str, FakePeer], code: int, body: bytes
) -> None:
    url, stub = peer
    stub.status, stub.body = code, body
    java_id, follower_id = urlsplit(url).netloc, urlsplit(follower.url).netloc
    publish_tasks(follower, task=0, tasks={0: follower_id, 1: java_id})
    response = follower.ask("GET", "/connectors/c/status?expand=supervision").json()["supervision"]
    assert java_id in response["silent"]
    assert [task["id"] for task in response["tasks"]] == [0]


def test_unknown_connector_returns_404(api: Api) -> None:
    assert api.request("GET", SUPERVISION_PATH) == api.request("GET", "/connectors/c/status")
    assert api.request("GET", SUPERVISION_PATH)[0] == 404

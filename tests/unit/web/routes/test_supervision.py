"""`expand=supervision`, and stalled tasks in `/health`: next to Connect's answers, never instead of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from kraal.cluster.decisions.auto_restart import GivenUp, Watched
from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.cluster.state.wanted_work import Incarnation
from kraal.core.ids import ConnectorName, State, TaskId, WorkerId
from tests.unit.web.api import Api, document, status
from tests.unit.web.openapi.test_document import matches
from tests.unit.web.workers import Stranger, Worker
from web.settings import Settings

if TYPE_CHECKING:
    from kraal.metrics.stalls.work import Work

NAME = ConnectorName("c")
T0, T1 = TaskId(NAME, 0), TaskId(NAME, 1)
EXPANDED = "/connectors/c/status?expand=supervision"
HEALTHY = '{"status":"healthy","message":"Worker has completed startup and is ready to handle requests."}'


def running(api: Api, **config: str) -> Work:
    """Have a connector with a task run here; return what the engine tells of the task."""
    api.herder.put("c", {"errors.auto.restart": "task", **config}, tasks=1)
    for each in (NAME, T0):
        api.metrics.record_start(each)
        api.metrics.record_state(each, State.RUNNING, "1.0")
    return api.metrics.follow(T0)


def answer(api: Api) -> dict[str, Any]:
    code, text = api.request("GET", EXPANDED)
    assert code == 200
    body = json.loads(text)
    schemas = document(Settings(advertised_url="http://worker:8083/"))
    assert matches(schemas["components"]["schemas"]["ConnectorStateInfo"], body, schemas)
    supervision: dict[str, Any] = body["supervision"]
    return supervision


@pytest.mark.parametrize("query", ["", "?expand=status", "?expand=", "?supervision", "?expand=Supervision"])
def test_without_it_the_answer_is_connects(api: Api, query: str) -> None:
    running(api)
    plain = api.request("GET", "/connectors/c/status")
    assert "supervision" not in plain[1]
    answer(api)
    assert api.request("GET", f"/connectors/c/status{query}") == plain


def test_the_status_comes_first_and_is_the_same(api: Api) -> None:
    running(api)
    plain = json.loads(api.request("GET", "/connectors/c/status")[1])
    expanded = json.loads(api.request("GET", EXPANDED)[1])
    assert list(expanded) == [*plain, "supervision"]
    assert {name: expanded[name] for name in plain} == plain


def test_the_policy_is_the_connectors_where_it_has_one(api: Api) -> None:
    running(api, **{"errors.auto.restart.window.ms": "500", "errors.auto.restart.backoff.ms": "nonsense"})
    assert answer(api)["policy"] == {"restart": "task", "max": 5, "window_ms": 500, "backoff_ms": 1000}


def test_failed_instances_show_their_restarts_and_the_next_one(api: Api) -> None:
    running(api)
    api.clock.advance_to(100.0)
    watched = Watched(
        life=Incarnation(1), config_version=1, trace="OSError: x", restarts=(-4000.0, 50.0), total=7,
        restarted_ms=1_700_000_050_000, due_s=101.0, due_ms=1_700_000_101_000,
    )  # fmt: skip
    api.herder.publish(watched={T0: watched, T1: watched})
    body = answer(api)
    assert body["silent"] == []
    assert body["connector"]["supervised"] is False, "only tasks are"
    [task] = body["tasks"]
    assert task == {
        "id": 0, "worker_id": "worker:8083", "supervised": True, "restarts": 7, "restarts_in_window": 1,
        "last_restart_ms": 1_700_000_050_000,
        "next_restart_ms": 1_700_000_101_000, "given_up": None, "why": None, "stalled": False,
        "stall_cause": None, "step_ms": None,
        "last_batch_age_ms": None, "last_batch_way": None,
    }  # fmt: skip


def test_abandoned_restarts_report_the_reason(api: Api) -> None:
    running(api)
    api.herder.publish(
        watched={T0: Watched(life=Incarnation(1), config_version=1, given_up=GivenUp.TOO_OFTEN)}
    )
    [task] = answer(api)["tasks"]
    assert task["given_up"] == "too-often"
    assert task["why"].startswith(
        "It was restarted 5 times within 3600 s, and errors.auto.restart.max allows no more"
    )


def test_a_step_that_takes_too_long_is_stalled_and_the_worker_healthy(api: Api) -> None:
    work = running(api)
    work(busy=True, step="batch")
    api.clock.advance_to(60.0)
    assert not answer(api)["tasks"][0]["stalled"], "a minute is allowed"
    assert api.request("GET", "/health") == (200, HEALTHY)
    api.clock.advance_to(61.0)
    work(busy=True, failure="the broker is away")  # it is tried again
    [task] = answer(api)["tasks"]
    cause = "Its batch does not end: the broker is away"
    assert (task["stalled"], task["stall_cause"], task["step_ms"]) == (True, cause, 61_000), (
        "answers are not kept"
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
    assert state == "RUNNING", "beside Connect's state, not instead of it"
    work(busy=False)
    assert not answer(api)["tasks"][0]["stalled"]
    assert api.request("GET", "/health") == (200, HEALTHY)


def in_group(one: Worker, *, task: int, tasks: Mapping[int, str]) -> None:
    """Have a task of a connector run on a worker, and the others where `tasks` says."""
    statuses_by_task = {
        number: replace(status(State.RUNNING), worker_id=WorkerId(of)) for number, of in tasks.items()
    }
    local = WorkerId(urlsplit(one.url).netloc)
    connector = replace(status(State.RUNNING), worker_id=local)
    statuses = ConnectorStatuses(connector=connector, tasks=statuses_by_task)
    one.api.herder.publish(worker_id=local)
    one.api.herder.put("c", {"errors.auto.restart": "task"}, tasks=len(tasks), statuses=statuses)
    for each in tasks:
        one.api.metrics.remove(TaskId(NAME, each))
    one.api.metrics.record_start(TaskId(NAME, task))


def test_the_owner_reports_instances_of_other_workers(
    follower: Worker, leader: Worker, peer: tuple[str, Stranger]
) -> None:
    url, stub = peer
    ours, theirs, java = (urlsplit(each).netloc for each in (follower.url, leader.url, url))
    stub.status, stub.body = 200, b'{"name":"c"}'
    tasks = {0: ours, 1: theirs, 2: java, 3: "no worker/at:1"}
    in_group(follower, task=0, tasks=tasks)
    in_group(leader, task=1, tasks=tasks)
    answer = follower.ask("GET", "/connectors/c/status?expand=supervision").json()["supervision"]
    assert [(each["id"], each["worker_id"]) for each in answer["tasks"]] == [(0, ours), (1, theirs)]
    assert sorted(answer["silent"]) == sorted([java, "no worker/at:1"])
    [seen] = stub.seen
    assert seen.target == "/connectors/c/status?forward=false&expand=supervision"
    local = leader.ask("GET", "/connectors/c/status?forward=false&expand=supervision").json()["supervision"]
    assert ([each["id"] for each in local["tasks"]], local["silent"]) == ([1], [])


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
def test_a_worker_that_answers_oddly_is_silent(
    follower: Worker, peer: tuple[str, Stranger], code: int, body: bytes
) -> None:
    url, stub = peer
    stub.status, stub.body = code, body
    java, ours = urlsplit(url).netloc, urlsplit(follower.url).netloc
    in_group(follower, task=0, tasks={0: ours, 1: java})
    answer = follower.ask("GET", "/connectors/c/status?expand=supervision").json()["supervision"]
    assert java in answer["silent"]
    assert [each["id"] for each in answer["tasks"]] == [0]


def test_an_unknown_connector_is_not_found(api: Api) -> None:
    assert api.request("GET", EXPANDED) == api.request("GET", "/connectors/c/status")
    assert api.request("GET", EXPANDED)[0] == 404

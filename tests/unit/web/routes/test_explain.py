"""Tests for `GET /connectors/{c}/explain`, whose response includes data of the leader and of the instances' workers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from kraal.cluster.assignment.leader import GroupPlan
from kraal.cluster.assignment.placement import PlacedBy, Placement
from kraal.cluster.assignment.rebalance import AssignorState
from kraal.cluster.decisions.auto_restart import FailureHistory, NoRestartReason
from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.cluster.state.wanted_work import Incarnation
from kraal.core.ids import ConnectorName, State, TargetState, TaskId, WorkerId
from kraal.journal.events import EventKind
from kraal.protocol.group import ConnectorOrTask, GroupProtocol
from tests.unit.web.api import Api, document, status
from tests.unit.web.openapi.test_document import matches
from tests.unit.web.workers import FakePeer, Worker
from web.settings import Settings

NAME = ConnectorName("c")
T0 = TaskId(NAME, 0)
PATH = "/connectors/c/explain"
TRACE = "OSError: disk full\n  in task c-0"
DOCUMENT = document(Settings(advertised_url="http://worker:8083/"))
OPERATION = DOCUMENT["paths"]["/connectors/{connector}/explain"]["get"]
SCHEMA = OPERATION["responses"]["200"]["content"]["application/json"]["schema"]


def explain(api: Api) -> dict[str, Any]:
    code, text = api.request("GET", PATH)
    assert code == 200, text
    body: dict[str, Any] = json.loads(text)
    assert matches(SCHEMA, body, DOCUMENT)
    return body


def list_reason_kinds(instance: dict[str, Any]) -> list[str]:
    return [reason["kind"] for reason in instance["reasons"]]


def test_unknown_connector_is_not_found(api: Api) -> None:
    code, text = api.request("GET", PATH)
    assert (code, json.loads(text)["message"]) == (404, "Connector c not found")


def test_standalone_worker_explains_a_failed_task(api: Api) -> None:
    failed_status = status(State.FAILED, TRACE)
    api.herder.put(
        "c",
        {},
        tasks=1,
        statuses=ConnectorStatuses(connector=status(State.RUNNING), tasks={0: failed_status}),
    )
    api.journal.record_event(EventKind.RESTART, "restart requested", T0, "POST from 10.0.0.9")
    api.journal.record_event(EventKind.LOGGER, "The level of root was set to DEBUG")
    api.metrics.record_start(T0)
    api.metrics.record_state(T0, State.FAILED, "1.0")
    api.herder.publish(
        is_leader=True,
        leader_url="http://worker:8083/",
        watched={
            T0: FailureHistory(
                incarnation=Incarnation(1), config_version=1, trace=TRACE, given_up=NoRestartReason.TOO_OFTEN
            )
        },
    )
    body = explain(api)
    assert (body["target"], body["worker_id"], body["silent"]) == ("STARTED", "worker:8083", [])
    assert body["connector"]["placement"]["kind"] == "standalone"
    assert body["connector"]["reasons"] == []
    [task] = body["tasks"]
    assert (task["id"], task["state"], task["worker_id"]) == (0, "FAILED", "worker:8083")
    assert task["reasons"][0] == {"kind": "failure", "text": "OSError: disk full"}
    assert [(event["kind"], event["text"], event["by"]) for event in task["events"]] == [
        ("restart", "restart requested", "POST from 10.0.0.9")
    ]
    assert list_reason_kinds(task) == ["failure", "given_up"]


def test_reasons_include_pause_pending_restart_wait_and_missing_status(api: Api) -> None:
    waiting_status = status(State.UNASSIGNED, "waiting for Spark")
    api.herder.put(
        "c", {}, TargetState.PAUSED, tasks=2, statuses=ConnectorStatuses(tasks={0: waiting_status})
    )
    api.herder.publish(restarting=frozenset({T0}))
    body = explain(api)
    assert list_reason_kinds(body["connector"]) == ["target", "no_status"]
    assert [list_reason_kinds(task) for task in body["tasks"]] == [
        ["target", "restart", "waiting"],
        ["target", "no_status"],
    ]


def test_stalled_task_is_explained_with_its_cause(api: Api) -> None:
    api.herder.put("c", {}, tasks=1)
    for instance in (NAME, T0):
        api.metrics.record_start(instance)
        api.metrics.record_state(instance, State.RUNNING, "1.0")
    api.metrics.track(T0)(busy=True, step="batch", failure="the broker is away")
    api.clock.advance_to(61.0)
    [task] = explain(api)["tasks"]
    assert {
        "kind": "stall",
        "text": "It is stalled: The batch does not complete: the broker is away",
    } in task["reasons"]


def parse_worker_id(worker: Worker) -> WorkerId:
    return WorkerId(urlsplit(worker.url).netloc)


def publish_leader_assignment(follower: Worker, leader: Worker) -> None:
    """Publish to both workers that the connector and its task run on the leader."""
    running_status = replace(status(State.RUNNING), worker_id=parse_worker_id(leader))
    statuses = ConnectorStatuses(connector=running_status, tasks={0: running_status})
    for group_worker in (follower, leader):
        group_worker.api.herder.put("c", {}, tasks=1, statuses=statuses)
    connectors_and_tasks = (ConnectorOrTask(NAME), ConnectorOrTask(NAME, 0))
    plan = GroupPlan(
        assignments={},
        state=AssignorState(),
        owners=dict.fromkeys(connectors_and_tasks, "m"),
        urls={"m": leader.url},
        placements=dict.fromkeys(connectors_and_tasks, Placement(PlacedBy.REVOKED, 7)),
    )
    leader.api.herder.publish(
        plan=plan, is_leader=True, leader_url=leader.url, protocol=GroupProtocol.SESSIONED
    )
    follower.api.herder.publish(is_leader=False, leader_url=leader.url, protocol=GroupProtocol.SESSIONED)


def test_follower_returns_placements_and_events_of_the_leader(follower: Worker, leader: Worker) -> None:
    publish_leader_assignment(follower, leader)
    text = "task c-0 RUNNING on w: restarted"
    follower.api.journal.record_event(EventKind.STATE, text, T0, "POST from 10.0.0.9")
    leader.api.journal.record_event(EventKind.STATE, text, T0, "another worker")
    leader.api.journal.record_event(
        EventKind.AUTO_RESTART, "automatic restart 1 of at most 5 within 3600 s", T0
    )
    body = follower.ask("GET", PATH).json()
    assert matches(SCHEMA, body, DOCUMENT)
    assert body["silent"] == []
    [task] = body["tasks"]
    placement = task["placement"]
    assert (placement["kind"], placement["worker"], placement["generation"]) == ("revoked", leader.url, 7)
    assert [(event["kind"], event["by"]) for event in task["events"]] == [
        ("state", "POST from 10.0.0.9"),
        ("auto_restart", ""),
    ]
    assert leader.ask("GET", PATH).json()["tasks"][0]["placement"] == placement


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        "{}",
        '{"connector": {}, "tasks": []}',
        '{"connector": {"placement": null, "reasons": [1], "events": []}, "tasks": []}',
    ],
)
def test_worker_with_a_malformed_response_is_listed_as_silent(
    follower: Worker, peer: tuple[str, FakePeer], body: str
) -> None:
    url, stub = peer
    stub.status, stub.body, stub.headers = 200, body.encode(), {"Content-Type": "application/json"}
    worker_id = WorkerId(urlsplit(url).netloc)
    instance_status = replace(status(State.RUNNING), worker_id=worker_id)
    statuses = ConnectorStatuses(connector=instance_status, tasks={0: instance_status})
    follower.api.herder.put("c", {}, tasks=1, statuses=statuses)
    follower.api.herder.publish(is_leader=False, leader_url=url, protocol=GroupProtocol.SESSIONED)
    response = follower.ask("GET", PATH).json()
    assert matches(SCHEMA, response, DOCUMENT)
    assert response["silent"] == [worker_id]
    assert response["connector"]["placement"] is None

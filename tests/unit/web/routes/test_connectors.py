"""Tests for `/connectors` and its subresources."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from actors.messages import herder as messages
from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.core.errors import (
    ActorDied,
    ConfigInvalid,
    KraalError,
    NotLeader,
    NotOwner,
    RetryableConflict,
    StoreError,
    Unavailable,
)
from kraal.core.ids import ConnectorName, State, TargetState, TaskId
from kraal.core.offsets import Pair
from tests.unit.web.api import Api, send_raw_get, status
from web.middleware.admission import Limits
from web.settings import Settings

CONFIG = {"connector.class": "FileStreamSource", "topic": "t"}
A = ConnectorName("a")


def test_create_response_has_the_location(api: Api) -> None:
    response = api.client.post("/connectors", json={"name": " a\n", "config": CONFIG})
    assert response.status_code == 201
    assert response.headers["Location"] == "http://worker:8083/connectors/a"
    assert response.headers["Content-Type"] == "application/json"
    assert response.text == (
        '{"name":"a","config":{"connector.class":"FileStreamSource","topic":"t","name":"a"},'
        '"tasks":[],"type":"source"}'
    )
    assert api.herder.requests == [messages.CreateConnector(name=A, config=CONFIG)]


@pytest.mark.parametrize(
    ("initial_state", "target"),
    [
        ("RUNNING", TargetState.STARTED),
        ("paused", TargetState.PAUSED),
        ("Stopped", TargetState.STOPPED),
        (None, None),
    ],
)
def test_initial_state_is_sent_to_the_herder(
    api: Api, initial_state: str | None, target: TargetState | None
) -> None:
    api.client.post("/connectors", json={"name": "a", "config": CONFIG, "initial_state": initial_state})
    assert api.herder.requests == [messages.CreateConnector(name=A, config=CONFIG, initial_state=target)]


def test_initial_offsets_are_sent_and_their_status_is_returned(api: Api) -> None:
    offsets = [
        {"partition": {"file": "f", "n": 1}, "offset": {"position": 2.5}},
        {"partition": {}, "offset": None},
    ]
    response = api.client.post(
        "/connectors", json={"name": "a", "config": CONFIG, "initial_offsets": offsets}
    )
    pairs: list[Pair] = [({"file": "f", "n": 1}, {"position": 2.5}), ({}, None)]
    assert api.herder.requests == [messages.CreateConnector(name=A, config=CONFIG, initial_offsets=pairs)]
    assert (response.status_code, [*response.json()][-1], response.json()["offsets_status"]) == (
        201,
        "offsets_status",
        "altered",
    )


def test_duplicate_connector_name_is_a_conflict(api: Api) -> None:
    api.herder.put("a", CONFIG)
    response = api.client.post("/connectors", json={"name": "a", "config": CONFIG})
    assert response.status_code == 409
    assert response.text == '{"error_code":409,"message":"Connector a already exists"}'
    assert "Retry-After" not in response.headers


def test_put_config_creates_and_then_replaces(api: Api) -> None:
    first = api.client.put("/connectors/a%20b/config", json=CONFIG)
    assert first.status_code == 201
    assert first.headers["Location"] == "http://worker:8083/connectors/a%20b"
    second = api.client.put("/connectors/a%20b/config", json={**CONFIG, "topic": "u"})
    assert second.status_code == 200
    assert "Location" not in second.headers
    assert '"topic":"u"' in second.text


def test_put_config_does_not_trim_the_name(api: Api) -> None:
    api.client.put("/connectors/%20a%20/config", json=CONFIG)
    assert api.herder.requests == [messages.PutConfig(name=ConnectorName(" a "), config=CONFIG)]


def test_patch_config_returns_the_merged_connector(api: Api) -> None:
    api.herder.put("a", CONFIG)
    response = api.request("PATCH", "/connectors/a/config", '{"topic":null,"x":1}')
    assert response == (
        200,
        '{"name":"a","config":{"connector.class":"FileStreamSource","name":"a","x":"1"},"tasks":[],"type":"source"}',
    )


@pytest.mark.parametrize(
    ("method", "path", "expected", "message"),
    [
        (
            "PUT",
            "/connectors/a/pause",
            202,
            messages.SetTargetState(name=A, target=TargetState.PAUSED),
        ),
        ("PUT", "/connectors/a/resume", 202, messages.SetTargetState(name=A, target=TargetState.STARTED)),
        ("PUT", "/connectors/a/stop", 204, messages.SetTargetState(name=A, target=TargetState.STOPPED)),
        ("DELETE", "/connectors/a", 204, messages.DeleteConnector(name=A)),
        ("POST", "/connectors/a/restart", 204, messages.RestartConnector(name=A)),
        (
            "POST",
            "/connectors/a/restart?includeTasks=1&onlyFailed=no",
            204,
            messages.RestartConnector(name=A),
        ),
        ("POST", "/connectors/a/tasks/0/restart", 204, messages.RestartTask(task=TaskId(A, 0))),
        ("PUT", "/connectors/a/topics/reset", 200, messages.ResetTopics(name=A)),
    ],
)
def test_commands_return_an_empty_body(
    api: Api, method: str, path: str, expected: int, message: object
) -> None:
    api.herder.put("a", CONFIG)
    response = api.client.request(method, path)
    assert (response.status_code, response.content) == (expected, b"")
    assert "Content-Type" not in response.headers
    assert response.headers.get("Content-Length") == (None if expected == 204 else "0")
    assert api.herder.requests == [message]


@pytest.mark.parametrize(
    ("query", "include_tasks", "only_failed"),
    [
        ("includeTasks=TRUE", True, False),
        ("onlyFailed=true", False, True),
        ("includeTasks=true&onlyFailed=true", True, True),
    ],
)
def test_restart_returns_its_plan(api: Api, query: str, *, include_tasks: bool, only_failed: bool) -> None:
    api.herder.put("a", CONFIG)
    assert api.request("POST", f"/connectors/a/restart?{query}") == (202, '{"name":"a","plan":true}')
    request = messages.RestartConnector(name=A, include_tasks=include_tasks, only_failed=only_failed)
    assert api.herder.requests == [request]


def test_gets_are_rendered_from_the_snapshot(api: Api) -> None:
    statuses = ConnectorStatuses(
        connector=status(State.RUNNING), tasks={1: status(State.RUNNING), 0: status(State.FAILED, "why")}
    )
    api.herder.put("a", CONFIG, tasks=2, statuses=statuses, topics=frozenset({"t"}))
    info = (
        '{"name":"a","config":{"connector.class":"FileStreamSource","topic":"t","name":"a"},'
        '"tasks":[{"connector":"a","task":0},{"connector":"a","task":1}],"type":"source"}'
    )
    running_fields = '"state":"RUNNING","worker_id":"worker:8083","version":"0.1.0"'
    status_body = (
        f'{{"name":"a","connector":{{{running_fields}}},"tasks":[{{"id":0,"state":"FAILED","worker_id":"worker:8083",'
        f'"version":"0.1.0","trace":"why"}},{{"id":1,{running_fields}}}],"type":"source"}}'
    )
    for path, body in {
        "/connectors": '["a"]',
        "/connectors/": '["a"]',
        "/connectors?expand=": '{"a":{}}',
        "/connectors?expand=STATUS&expand=x": '{"a":{}}',
        "/connectors?expand=info": f'{{"a":{{"info":{info}}}}}',
        "/connectors?expand=info&expand=status": f'{{"a":{{"info":{info},"status":{status_body}}}}}',
        "/connectors?expand=status&expand=x&expand=info": f'{{"a":{{"status":{status_body},"info":{info}}}}}',
        "/connectors/a": info,
        "/connectors/a/": info,
        "/connectors/a/config": '{"connector.class":"FileStreamSource","topic":"t","name":"a"}',
        "/connectors/a/status": status_body,
        "/connectors/a/tasks/1/status": f'{{"id":1,{running_fields}}}',
        "/connectors/a/topics": '{"a":{"topics":["t"]}}',
        "/connectors/a/tasks": (
            '[{"id":{"connector":"a","task":0},"config":{"connector.class":"FileStreamSource","topic":"t","task":"0"}},'
            '{"id":{"connector":"a","task":1},"config":{"connector.class":"FileStreamSource","topic":"t","task":"1"}}]'
        ),
    }.items():
        for attempt in ("rendered", "cached"):
            assert api.request("GET", path) == (200, body), (path, attempt)
    assert api.herder.requests == []


def test_expand_status_omits_connectors_without_status(api: Api) -> None:
    api.herder.put("a", CONFIG)
    api.herder.put("b", CONFIG, statuses=ConnectorStatuses())
    assert api.client.get("/connectors").json() == ["a", "b"]
    assert list(api.client.get("/connectors?expand=info").json()) == ["a", "b"]
    assert list(api.client.get("/connectors?expand=info&expand=status").json()) == ["a"]


def test_response_is_cached_until_the_next_snapshot(api: Api) -> None:
    api.herder.put("a", CONFIG)
    assert api.client.get("/connectors").json() == ["a"]
    assert api.client.get("/connectors").json() == ["a"]
    api.herder.put("b", CONFIG)
    assert api.client.get("/connectors").json() == ["a", "b"]
    api.herder.remove("a")
    assert api.client.get("/connectors").json() == ["b"]


def test_cached_response_equals_the_rendered_response(api: Api) -> None:
    api.herder.put("a", CONFIG)
    rendered_response, cached_response = (api.client.get("/connectors/a/status") for _ in range(2))
    assert sorted(rendered_response.headers.items()) == sorted(cached_response.headers.items())
    assert rendered_response.headers["Server"].startswith("kraal/")
    assert api.client.get("/connectors/a/status", headers={"Accept": "text/html"}).status_code == 406
    assert api.client.get("/connectors/a/status", headers={"Content-Type": "text/html"}).status_code == 415
    assert api.client.head("/connectors/a/status").headers["Content-Length"] == str(
        len(cached_response.content)
    )


@pytest.mark.parametrize(
    "name", ["a b", "a/b", "100%", "%2F", "é😀", "a+b", "a;x=1", "a?b#c", "..a", '"q"', "[x]"]
)
def test_connectors_with_any_name_can_be_created_read_and_deleted(api: Api, name: str) -> None:
    create_response = api.client.post("/connectors", json={"name": name, "config": CONFIG})
    assert create_response.status_code == 201
    location_path = create_response.headers["Location"].removeprefix("http://worker:8083")
    assert api.client.get("/connectors").json() == [name]
    for path in (location_path, f"/connectors/{quote(name, safe='')}"):
        assert api.client.get(path).json()["name"] == name
        assert api.client.get(f"{path}/status").json()["name"] == name
        assert api.client.get(f"{path}/topics").json() == {name: {"topics": []}}
    assert api.client.delete(location_path).status_code == 204
    assert api.client.get("/connectors").json() == []


@pytest.mark.parametrize(
    ("name", "segment"),
    [("g:?#[]@!$&'()*+,;=~ é", "g:%3F%23%5B%5D@!$&'()*+,;=~%20%C3%A9"), ("a/b%", "a%2Fb%25")],
)
def test_location_is_encoded_as_in_java(api: Api, name: str, segment: str) -> None:
    response = api.client.post("/connectors", json={"name": name, "config": CONFIG})
    assert response.headers["Location"] == f"http://worker:8083/connectors/{segment}"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "/connectors/a%zz/status",
            "Path segment a%zz contains a % that is not followed by two hexadecimal digits",
        ),
        ("/connectors/a%ff/status", "Path segment a%ff is not UTF-8 when decoded"),
    ],
)
async def test_undecodable_name_is_a_bad_request(api: Api, path: str, message: str) -> None:
    response_messages = await send_raw_get(api, path)
    assert response_messages[0]["status"] == 400
    assert message in str(response_messages[1]["body"])


@pytest.mark.parametrize(
    ("error", "code", "message", "retry_after"),
    [
        pytest.param(
            RetryableConflict("Cannot complete request momentarily"),
            409,
            '"Cannot complete request momentarily"',
            "1",
            id="rebalance in progress",
        ),
        pytest.param(
            NotLeader(None),
            409,
            '"Cannot complete request momentarily due to no known leader URL, '
            'likely because a rebalance was underway."',
            "1",
            id="no leader",
        ),
        pytest.param(
            NotOwner("http://worker:8083/"),
            409,
            '"Cannot complete request because of a conflicting operation (e.g. worker rebalance)"',
            None,
            id="owner is this worker",
        ),
        pytest.param(ConfigInvalid("two\nlines", ["x"]), 400, '"two\\nlines"', None, id="invalid config"),
        pytest.param(StoreError("no"), 500, '"no"', None, id="write failed"),
        pytest.param(ActorDied("herder died"), 500, '"herder died"', None, id="the herder died"),
        pytest.param(Unavailable("starting", retry_after_s=3), 503, '"starting"', "3", id="starting"),
        pytest.param(Unavailable("stopping"), 503, '"stopping"', None, id="stopping"),
        pytest.param(KraalError("é"), 500, '"é"', None, id="other KraalError"),
        pytest.param(ValueError("oops"), 500, '"oops"', None, id="unexpected error"),
        pytest.param(ValueError(), 500, "null", None, id="unexpected error without a message"),
    ],
)
def test_herder_errors_become_error_responses(
    api: Api, error: Exception, code: int, message: str, retry_after: str | None
) -> None:
    api.herder.error = error
    response = api.client.put("/connectors/a/pause")
    assert response.status_code == code
    assert response.text == f'{{"error_code":{code},"message":{message}}}'
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers.get("Retry-After") == retry_after
    assert response.headers["Server"].startswith("kraal/")


def test_too_many_pending_requests_are_rejected() -> None:
    api = Api(Settings(advertised_url="http://worker:8083/", limits=Limits(waiting=0)))
    response = api.client.delete("/connectors/a")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert api.herder.requests == []


@pytest.mark.parametrize(
    ("is_tracking_enabled", "is_reset_enabled", "method", "path", "message"),
    [
        (False, True, "GET", "/connectors/a/topics", "Topic tracking is disabled."),
        (False, False, "PUT", "/connectors/a/topics/reset", "Topic tracking is disabled."),
        (True, False, "PUT", "/connectors/a/topics/reset", "Topic tracking reset is disabled"),
    ],
)
def test_topic_tracking_can_be_disabled(
    method: str, path: str, message: str, *, is_tracking_enabled: bool, is_reset_enabled: bool
) -> None:
    settings = Settings(
        advertised_url="http://x/", topic_tracking=is_tracking_enabled, topic_reset=is_reset_enabled
    )
    api = Api(settings)
    assert api.request(method, path) == (403, f'{{"error_code":403,"message":"{message}"}}')
    assert api.herder.requests == []

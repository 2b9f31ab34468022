"""Tests for the forwarding of requests to the responsible worker (HerderRequestHandler)."""

from __future__ import annotations

import json

import pytest

from actors.messages import herder as messages
from kraal import __version__
from kraal.core.errors import NotLeader, NotOwner
from kraal.core.ids import ConnectorName, TaskId
from tests.unit.web.workers import FakePeer, Worker, set_leader, worker

CONFLICT_ERROR = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
NO_LEADER_ERROR = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
)
CREATE_BODY = '{"name":"a b/é","config":{"x":1.50},"initial_state":"PAUSED"}'


def test_follower_forwards_create_requests_to_the_leader(follower: Worker, leader: Worker) -> None:
    set_leader(follower, leader.url)
    response = follower.ask("POST", "/connectors", CREATE_BODY)
    assert response.status_code == 201
    assert response.json() == {
        "name": "a b/é",
        "config": {"x": "1.50", "name": "a b/é"},
        "tasks": [],
        "type": "source",
    }
    assert response.headers["Location"] == f"{leader.url}connectors/a%20b%2F%C3%A9"
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers.get_list("Server") == [f"kraal/{__version__}"]
    assert len(response.headers.get_list("Content-Length")) == 1
    assert leader.client.get(response.headers["Location"]).status_code == 200
    assert leader.api.herder.requests == follower.api.herder.requests


def test_forwarded_put_and_patch_return_the_status_of_the_leader(follower: Worker, leader: Worker) -> None:
    set_leader(follower, leader.url)
    responses = [follower.ask("PUT", "/connectors/a/config", "{}") for _ in range(2)]
    assert [response.status_code for response in responses] == [201, 200]
    assert "Location" not in responses[1].headers
    patch_response = follower.ask("PATCH", "/connectors/a/config", '{"k":"v"}')
    assert (patch_response.status_code, patch_response.json()["config"]) == (200, {"name": "a", "k": "v"})


FORWARDED_REQUESTS = [
    ("POST", "/connectors", "", CREATE_BODY),
    ("PUT", "/connectors/a/config", "", ' {"x" : null}'),
    ("PATCH", "/connectors/a/config", "", '{"x":null}'),
    ("DELETE", "/connectors/a", "", None),
    ("PUT", "/connectors/a/stop", "", None),
    ("POST", "/connectors/a/restart", "", None),
    ("POST", "/connectors/a/restart", "includeTasks=true&onlyFailed=false", None),
    ("POST", "/connectors/a/restart", "includeTasks=false&onlyFailed=true", None),
    ("POST", "/connectors/a/restart", "includeTasks=true&onlyFailed=true", None),
    ("POST", "/connectors/a/tasks/12/restart", "", None),
]


@pytest.mark.parametrize(("method", "path", "query", "body"), FORWARDED_REQUESTS)
@pytest.mark.parametrize(("hop", "next_hop"), [("", "true"), ("true", "false"), ("TRUE", "false")])
def test_forwarded_request_keeps_its_body_and_marks_the_next_hop(
    follower: Worker,
    peer: tuple[str, FakePeer],
    method: str,
    path: str,
    query: str,
    body: str | None,
    hop: str,
    next_hop: str,
) -> None:
    url, stub = peer
    set_leader(follower, url)
    request_query = "&".join(part for part in (f"forward={hop}" if hop else "", query) if part)
    assert follower.ask(method, f"{path}?{request_query}", body).status_code == 204
    [request] = stub.requests
    assert request.method == method
    assert request.target == f"{path}?forward={next_hop}" + (f"&{query}" if query else "")
    assert request.body == (body or "").encode()
    assert request.headers["accept"] == "application/json"
    assert request.headers["user-agent"] == "kafka-connect"
    assert request.headers.get("content-type") == ("application/json" if body else None)
    assert set(request.headers) <= {"accept", "user-agent", "content-type", "content-length", "host"}


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/connectors/a?x=1&forward=true&y=%2F&y", "/connectors/a?forward=false&x=1&y=%2F&y"),
        ("/connectors/a?forwards=1", "/connectors/a?forward=true&forwards=1"),
        ("/connectors/a%2Fb%20%25%C3%A9%3F%23;v=1", "/connectors/a%2Fb%20%25%C3%A9%3F%23;v=1?forward=true"),
    ],
)
def test_names_and_other_parameters_are_forwarded_unchanged(
    follower: Worker, peer: tuple[str, FakePeer], path: str, target: str
) -> None:
    url, stub = peer
    set_leader(follower, url)
    follower.ask("DELETE", path)
    assert [request.target for request in stub.requests] == [target]


@pytest.mark.parametrize(
    ("query", "target"),
    [
        ("?includeTasks=TRUE", "?forward=true&includeTasks=true&onlyFailed=false"),
        ("?onlyFailed=true&x=1", "?forward=true&includeTasks=false&onlyFailed=true"),
        ("?includeTasks=false&onlyFailed=no", "?forward=true"),
    ],
)
def test_restart_is_forwarded_with_both_parameters_or_neither(
    follower: Worker, peer: tuple[str, FakePeer], query: str, target: str
) -> None:
    url, stub = peer
    set_leader(follower, url)
    follower.ask("POST", f"/connectors/a/restart{query}")
    assert [request.target for request in stub.requests] == [f"/connectors/a/restart{target}"]


def test_only_the_authorization_header_is_forwarded(follower: Worker, peer: tuple[str, FakePeer]) -> None:
    url, stub = peer
    set_leader(follower, url)
    stub.headers["Set-Cookie"] = "peer=1"
    for value in ("Basic dTpw", "Bearer x"):
        response = follower.ask(
            "DELETE", "/connectors/a", Authorization=value, Cookie="c=1", X_Other="y", Accept_Encoding="gzip"
        )
        assert "Set-Cookie" not in response.headers
    follower.ask("DELETE", "/connectors/a")
    assert [request.headers.get("authorization") for request in stub.requests] == [
        "Basic dTpw",
        "Bearer x",
        None,
    ]
    for request in stub.requests:
        assert set(request.headers) - {"authorization"} == {"accept", "user-agent", "host"}


def test_connections_are_reused(follower: Worker, peer: tuple[str, FakePeer]) -> None:
    url, stub = peer
    set_leader(follower, url)
    for _ in range(5):
        follower.ask("DELETE", "/connectors/a")
    assert len({request.connection for request in stub.requests}) == 1


def test_large_config_is_forwarded(follower: Worker, leader: Worker) -> None:
    set_leader(follower, leader.url)
    value = "ü" * 450_000
    response = follower.ask("PUT", "/connectors/a/config", json.dumps({"k": value}, ensure_ascii=False))
    assert response.json()["config"]["k"] == value
    assert leader.api.published.latest.config.connectors[ConnectorName("a")].config["k"] == value


# -- hops --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/connectors/a/restart", messages.RestartConnector(name=ConnectorName("a"))),
        ("/connectors/a/tasks/0/restart", messages.RestartTask(task=TaskId(ConnectorName("a"), 0))),
    ],
)
def test_request_reaches_the_owner_through_the_leader(
    follower: Worker, leader: Worker, path: str, message: object
) -> None:
    with worker() as owner:
        owner.api.herder.put("a", {}, tasks=1)
        set_leader(follower, leader.url)
        leader.api.herder.error = NotOwner(owner.url)
        response = follower.ask("POST", path)
        assert (response.status_code, response.content) == (204, b"")
        assert (
            owner.api.herder.requests
            == leader.api.herder.requests
            == follower.api.herder.requests
            == [message]
        )


def test_third_worker_does_not_forward_the_request(follower: Worker, leader: Worker) -> None:
    with worker() as third:
        set_leader(follower, leader.url)
        set_leader(leader, third.url)
        set_leader(third, follower.url)
        response = follower.ask("DELETE", "/connectors/a")
        assert (response.status_code, response.json()) == (
            409,
            {"error_code": 409, "message": CONFLICT_ERROR},
        )
        assert [len(group_worker.api.herder.requests) for group_worker in (follower, leader, third)] == [
            1,
            1,
            1,
        ]


def test_mutual_forwarding_stops_after_two_hops(follower: Worker, leader: Worker) -> None:
    set_leader(follower, leader.url)
    set_leader(leader, follower.url)
    response = follower.ask("DELETE", "/connectors/a")
    assert (response.status_code, response.json()["message"]) == (409, CONFLICT_ERROR)
    assert [len(group_worker.api.herder.requests) for group_worker in (follower, leader)] == [2, 1]


@pytest.mark.parametrize("value", ["false", "FALSE", "", "1", "false&forward=true"])
def test_request_at_the_hop_limit_is_a_conflict(
    follower: Worker, peer: tuple[str, FakePeer], value: str
) -> None:
    url, stub = peer
    for leader_url in (url, None):
        set_leader(follower, leader_url)
        response = follower.ask("DELETE", f"/connectors/a?forward={value}")
        assert (response.status_code, response.json()["message"]) == (409, CONFLICT_ERROR)
        assert "Retry-After" not in response.headers
    assert stub.requests == []


@pytest.mark.parametrize("query", ["", "?forward=true"])
def test_unknown_leader_is_a_retriable_error(follower: Worker, query: str) -> None:
    for error in (NotLeader(None), NotOwner(None)):
        follower.api.herder.error = error
        response = follower.ask("DELETE", f"/connectors/a{query}")
        assert (response.status_code, response.json()["message"]) == (409, NO_LEADER_ERROR)
        assert response.headers["Retry-After"] == "1"


def test_worker_does_not_forward_to_itself(follower: Worker) -> None:
    for url in (follower.url, follower.url.removesuffix("/")):
        set_leader(follower, url)
        response = follower.ask("DELETE", "/connectors/a")
        assert (response.status_code, response.json()["message"]) == (409, CONFLICT_ERROR)
    assert len(follower.api.herder.requests) == 2


def test_reads_are_not_forwarded(follower: Worker, peer: tuple[str, FakePeer]) -> None:
    url, stub = peer
    follower.api.herder.put("a", {}, tasks=1)
    set_leader(follower, url)
    subpaths = ("", "/status", "/config", "/tasks", "/tasks/0/status", "/topics")
    for path in ("/connectors", *(f"/connectors/a{subpath}" for subpath in subpaths), "/"):
        for method in ("GET", "HEAD", "OPTIONS"):
            assert follower.ask(method, path).status_code == 200
    assert stub.requests == []

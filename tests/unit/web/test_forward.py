"""Requests that another worker has to carry out: R12, F1 to F6, C13."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from actors.messages import herder as messages
from kraal.errors import BadRequest, NotLeader, NotOwner
from kraal.ids import ConnectorName, TaskId
from tests.unit.web.workers import Stranger, Worker, worker

CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
NO_LEADER = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
)
CREATE = '{"name":"a b/é","config":{"x":1.50},"initial_state":"PAUSED"}'


def follow(one: Worker, url: str | None) -> None:
    one.api.herder.error = NotLeader(url)


def test_a_follower_creates_by_its_leader(follower: Worker, leader: Worker) -> None:
    follow(follower, leader.url)
    answer = follower.ask("POST", "/connectors", CREATE)
    assert answer.status_code == 201
    assert answer.json() == {
        "name": "a b/é",
        "config": {"x": "1.50", "name": "a b/é"},
        "tasks": [],
        "type": "source",
    }
    assert answer.headers["Location"] == f"{leader.url}connectors/a%20b%2F%C3%A9"
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers.get_list("Server") == ["kraal/0.1.0"]
    assert len(answer.headers.get_list("Content-Length")) == 1
    assert leader.client.get(answer.headers["Location"]).status_code == 200
    assert leader.api.herder.asked == follower.api.herder.asked


def test_what_a_leader_replaces_was_not_created(follower: Worker, leader: Worker) -> None:
    follow(follower, leader.url)
    answers = [follower.ask("PUT", "/connectors/a/config", "{}") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert "Location" not in answers[1].headers
    patched = follower.ask("PATCH", "/connectors/a/config", '{"k":"v"}')
    assert (patched.status_code, patched.json()["config"]) == (200, {"name": "a", "k": "v"})


ANYTHING = [
    ("POST", "/connectors", "", CREATE),
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


@pytest.mark.parametrize(("method", "path", "query", "body"), ANYTHING)
@pytest.mark.parametrize(("hop", "next_hop"), [("", "true"), ("true", "false"), ("TRUE", "false")])
def test_the_very_request_goes_on(
    follower: Worker,
    peer: tuple[str, Stranger],
    method: str,
    path: str,
    query: str,
    body: str | None,
    hop: str,
    next_hop: str,
) -> None:
    url, found = peer
    follow(follower, url)
    sent = "&".join(part for part in (f"forward={hop}" if hop else "", query) if part)
    assert follower.ask(method, f"{path}?{sent}", body).status_code == 204
    [seen] = found.seen
    assert seen.method == method
    assert seen.target == f"{path}?forward={next_hop}" + (f"&{query}" if query else "")
    assert seen.body == (body or "").encode()
    assert seen.headers["accept"] == "application/json"
    assert seen.headers["user-agent"] == "kafka-connect"
    assert seen.headers.get("content-type") == ("application/json" if body else None)
    assert set(seen.headers) <= {"accept", "user-agent", "content-type", "content-length", "host"}


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/connectors/a?x=1&forward=true&y=%2F&y", "/connectors/a?forward=false&x=1&y=%2F&y"),
        ("/connectors/a?forwards=1", "/connectors/a?forward=true&forwards=1"),
        ("/connectors/a%2Fb%20%25%C3%A9%3F%23;v=1", "/connectors/a%2Fb%20%25%C3%A9%3F%23;v=1?forward=true"),
    ],
)
def test_names_and_other_parameters_go_on_as_they_came(
    follower: Worker, peer: tuple[str, Stranger], path: str, target: str
) -> None:
    url, found = peer
    follow(follower, url)
    follower.ask("DELETE", path)
    assert [seen.target for seen in found.seen] == [target]


@pytest.mark.parametrize(
    ("query", "target"),
    [
        ("?includeTasks=TRUE", "?forward=true&includeTasks=true&onlyFailed=false"),
        ("?onlyFailed=true&x=1", "?forward=true&includeTasks=false&onlyFailed=true"),
        ("?includeTasks=false&onlyFailed=no", "?forward=true"),
    ],
)
def test_a_restart_goes_on_with_both_parameters_or_none(
    follower: Worker, peer: tuple[str, Stranger], query: str, target: str
) -> None:
    url, found = peer
    follow(follower, url)
    follower.ask("POST", f"/connectors/a/restart{query}")
    assert [seen.target for seen in found.seen] == [f"/connectors/a/restart{target}"]


def test_only_the_authorization_of_a_caller_goes_on(follower: Worker, peer: tuple[str, Stranger]) -> None:
    url, found = peer
    follow(follower, url)
    found.headers["Set-Cookie"] = "peer=1"
    for value in ("Basic dTpw", "Bearer x"):
        answer = follower.ask(
            "DELETE", "/connectors/a", Authorization=value, Cookie="c=1", X_Other="y", Accept_Encoding="gzip"
        )
        assert "Set-Cookie" not in answer.headers
    follower.ask("DELETE", "/connectors/a")
    assert [seen.headers.get("authorization") for seen in found.seen] == ["Basic dTpw", "Bearer x", None]
    for seen in found.seen:
        assert set(seen.headers) - {"authorization"} == {"accept", "user-agent", "host"}


def test_connections_are_used_again(follower: Worker, peer: tuple[str, Stranger]) -> None:
    url, found = peer
    follow(follower, url)
    for _ in range(5):
        follower.ask("DELETE", "/connectors/a")
    assert len({seen.connection for seen in found.seen}) == 1


def test_a_large_config_goes_on(follower: Worker, leader: Worker) -> None:
    follow(follower, leader.url)
    value = "ü" * 450_000
    answer = follower.ask("PUT", "/connectors/a/config", json.dumps({"k": value}, ensure_ascii=False))
    assert answer.json()["config"]["k"] == value
    assert leader.api.published.latest.config.connectors[ConnectorName("a")].config["k"] == value


# -- hops --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/connectors/a/restart", messages.RestartConnector(name=ConnectorName("a"))),
        ("/connectors/a/tasks/0/restart", messages.RestartTask(task=TaskId(ConnectorName("a"), 0))),
    ],
)
def test_an_owner_is_found_by_way_of_the_leader(
    follower: Worker, leader: Worker, path: str, message: object
) -> None:
    with worker() as owner:
        owner.api.herder.put("a", {}, tasks=1)
        follow(follower, leader.url)
        leader.api.herder.error = NotOwner(owner.url)
        answer = follower.ask("POST", path)
        assert (answer.status_code, answer.content) == (204, b"")
        assert owner.api.herder.asked == leader.api.herder.asked == follower.api.herder.asked == [message]


def test_a_third_worker_refuses_to_send_on(follower: Worker, leader: Worker) -> None:
    with worker() as third:
        follow(follower, leader.url)
        follow(leader, third.url)
        follow(third, follower.url)
        answer = follower.ask("DELETE", "/connectors/a")
        assert (answer.status_code, answer.json()) == (409, {"error_code": 409, "message": CONFLICT})
        assert [len(each.api.herder.asked) for each in (follower, leader, third)] == [1, 1, 1]


def test_workers_that_name_each_other_stop_after_two_hops(follower: Worker, leader: Worker) -> None:
    follow(follower, leader.url)
    follow(leader, follower.url)
    answer = follower.ask("DELETE", "/connectors/a")
    assert (answer.status_code, answer.json()["message"]) == (409, CONFLICT)
    assert [len(each.api.herder.asked) for each in (follower, leader)] == [2, 1]


@pytest.mark.parametrize("value", ["false", "FALSE", "", "1", "false&forward=true"])
def test_a_request_that_may_not_go_on_is_a_conflict(
    follower: Worker, peer: tuple[str, Stranger], value: str
) -> None:
    url, found = peer
    for where in (url, None):
        follow(follower, where)
        answer = follower.ask("DELETE", f"/connectors/a?forward={value}")
        assert (answer.status_code, answer.json()["message"]) == (409, CONFLICT)
        assert "Retry-After" not in answer.headers
    assert found.seen == []


@pytest.mark.parametrize("query", ["", "?forward=true"])
def test_without_a_known_leader_a_client_is_to_try_again(follower: Worker, query: str) -> None:
    for error in (NotLeader(None), NotOwner(None)):
        follower.api.herder.error = error
        answer = follower.ask("DELETE", f"/connectors/a{query}")
        assert (answer.status_code, answer.json()["message"]) == (409, NO_LEADER)
        assert answer.headers["Retry-After"] == "1"


def test_no_worker_sends_to_itself(follower: Worker) -> None:
    for url in (follower.url, follower.url.removesuffix("/")):
        follow(follower, url)
        answer = follower.ask("DELETE", "/connectors/a")
        assert (answer.status_code, answer.json()["message"]) == (409, CONFLICT)
    assert len(follower.api.herder.asked) == 2


def test_reads_are_not_sent_on(follower: Worker, peer: tuple[str, Stranger]) -> None:
    url, found = peer
    follower.api.herder.put("a", {}, tasks=1)
    follow(follower, url)
    below = ("", "/status", "/config", "/tasks", "/tasks/0/status", "/topics")
    for path in ("/connectors", *(f"/connectors/a{each}" for each in below), "/"):
        for method in ("GET", "HEAD", "OPTIONS"):
            assert follower.ask(method, path).status_code == 200
    assert found.seen == []


# -- what comes back ---------------------------------------------------------------------------------------


def test_the_errors_of_a_leader_are_the_answer(follower: Worker, leader: Worker) -> None:
    follow(follower, leader.url)
    leader.api.herder.put("a", {})
    taken = follower.ask("POST", "/connectors", '{"name":"a","config":{}}')
    assert (taken.status_code, taken.json()["message"]) == (409, "Connector a already exists")
    leader.api.herder.error = BadRequest("two\nlines")
    refused = follower.ask("PUT", "/connectors/a/config", "{}")
    assert (refused.status_code, refused.json()) == (400, {"error_code": 400, "message": "two\nlines"})


@pytest.mark.parametrize(
    ("status", "body", "sent", "retry_after"),
    [
        (410, '{"error_code":409,"message":"Gone"}', {}, None),
        (500, '{"error_code":500,"message":null}', {}, None),
        (401, '{"error_code":401,"message":"User cannot access the resource."}', {}, None),
        (409, '{"error_code":409,"message":"in a moment"}', {"Retry-After": "7"}, "7"),
        (409, '{"error_code":409,"message":"Cannot complete request momentarily due to x"}', {}, "1"),
    ],
)
def test_an_error_comes_back_as_it_was(
    follower: Worker,
    peer: tuple[str, Stranger],
    status: int,
    body: str,
    sent: dict[str, str],
    retry_after: str | None,
) -> None:
    url, found = peer
    found.status, found.body, found.headers = status, body.encode(), sent
    follow(follower, url)
    answer = follower.ask("DELETE", "/connectors/a")
    assert (answer.status_code, answer.text) == (status, body)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers.get("Retry-After") == retry_after


@pytest.mark.parametrize(
    ("status", "body"), [(200, b""), (202, b'{"name":"a"}'), (204, b""), (201, b'{"a":"\xc3\xa9"}')]
)
def test_a_success_comes_back_as_it_was(
    follower: Worker, peer: tuple[str, Stranger], status: int, body: bytes
) -> None:
    url, found = peer
    found.status, found.body = status, body
    follow(follower, url)
    answer = follower.ask("DELETE", "/connectors/a")
    assert (answer.status_code, answer.content) == (status, body)
    assert answer.headers.get("Content-Type") == ("application/json" if body else None)


IO_ERROR = "IO Error trying to forward REST request: "


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (302, b"", "Unexpected status code when handling forwarded request: 302"),
        (304, b"", "Unexpected status code when handling forwarded request: 304"),
        (404, b"<html>", f"{IO_ERROR}URL answered 404 with a body that is not JSON"),
        (503, b"", f"{IO_ERROR}URL answered 503 with a body that is not JSON"),
        (500, b"[" * 100_000, f"{IO_ERROR}URL answered 500 with a body that is not JSON"),
        (400, b'{"message":"x"}', f"{IO_ERROR}URL answered 400 without an error that can be read"),
        (400, b'["x"]', f"{IO_ERROR}URL answered 400 without an error that can be read"),
        (200, b"\xff", f"{IO_ERROR}URL answered 200 with a body that is not JSON"),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_error(
    follower: Worker, peer: tuple[str, Stranger], status: int, body: bytes, message: str
) -> None:
    url, found = peer
    found.status, found.body, found.headers = status, body, {"Location": "/elsewhere"}
    follow(follower, url)
    answer = follower.ask("DELETE", "/connectors/a")
    assert answer.json() == {"error_code": 500, "message": message.replace("URL", url)}
    assert answer.status_code == 500
    assert len(found.seen) == 1


def test_a_leader_that_is_gone_is_an_error(follower: Worker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
    follow(follower, url)
    answer = follower.ask("DELETE", "/connectors/a")
    assert (answer.status_code, answer.json()["message"]) == (500, f"{IO_ERROR}Connection refused ({url})")


def test_a_leader_that_hangs_up_is_an_error(follower: Worker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            connection, _ = listening.accept()
            connection.recv(65_536)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        follow(follower, url)
        answer = follower.ask("DELETE", "/connectors/a")
        thread.join(10)
    assert answer.status_code == 500
    assert answer.json()["message"] == f"{IO_ERROR}Server disconnected without sending a response. ({url})"


@pytest.mark.parametrize("url", ["nonsense", "ftp://host:1/", "http://[", "http://host:port/", ""])
def test_a_url_that_is_none_is_an_error(follower: Worker, url: str) -> None:
    follow(follower, url)
    answer = follower.ask("DELETE", "/connectors/a")
    assert answer.status_code == 500
    assert answer.json()["message"].startswith("Error trying to forward REST request: ")


def test_a_leader_that_hangs_delays_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.forward.MARGIN_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent, worker(request_timeout_s=1.0) as follower:
        follower.api.herder.put("a", {})
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        follow(follower, url)
        answers: list[tuple[int, str]] = []

        def delete() -> None:
            answer = follower.ask("DELETE", "/connectors/a")
            answers.append((answer.status_code, answer.json()["message"]))

        threads = [threading.Thread(target=delete) for _ in range(5)]
        for thread in threads:
            thread.start()
        assert follower.ask("GET", "/connectors/a/status").status_code == 200
        assert answers == []
        for thread in threads:
            thread.join(10)
    assert answers == [(500, f"{IO_ERROR}{url} gave no answer within 1 s")] * 5


def test_with_too_many_requests_on_their_way_a_worker_is_too_busy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, worker(max_open_questions=1) as follower:
        follow(follower, f"http://127.0.0.1:{silent.getsockname()[1]}/")
        thread = threading.Thread(target=lambda: follower.ask("DELETE", "/connectors/a"))
        thread.start()
        connection, _ = silent.accept()
        answer = follower.ask("DELETE", "/connectors/a")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert answer.json()["message"] == "The worker is too busy: 1 requests wait for other workers"
        connection.close()
        thread.join(10)


def test_a_worker_that_ends_closes_its_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with worker() as follower:
            follow(follower, f"http://127.0.0.1:{listening.getsockname()[1]}/")
            thread = threading.Thread(target=lambda: follower.ask("DELETE", "/connectors/a"))
            thread.start()
            connection, _ = listening.accept()
            connection.settimeout(10)
            assert connection.recv(65_536).startswith(b"DELETE /connectors/a?forward=true HTTP/1.1\r\n")
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            thread.join(10)
        assert connection.recv(65_536) == b""
        connection.close()

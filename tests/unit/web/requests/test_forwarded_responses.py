"""Tests for responses to forwarded requests."""

from __future__ import annotations

import socket
import threading

import pytest

from kraal.core.errors import BadRequest
from tests.fakes.servers.refusing import refusing_address
from tests.unit.web.workers import FakePeer, Worker, set_leader, worker
from web.middleware.admission import Limits

IO_ERROR = "IO Error trying to forward REST request: "


def test_leader_errors_are_returned(follower: Worker, leader: Worker) -> None:
    set_leader(follower, leader.url)
    leader.api.herder.put("a", {})
    create_response = follower.ask("POST", "/connectors", '{"name":"a","config":{}}')
    assert (create_response.status_code, create_response.json()["message"]) == (
        409,
        "Connector a already exists",
    )
    leader.api.herder.error = BadRequest("two\nlines")
    put_response = follower.ask("PUT", "/connectors/a/config", "{}")
    assert (put_response.status_code, put_response.json()) == (
        400,
        {"error_code": 400, "message": "two\nlines"},
    )


@pytest.mark.parametrize(
    ("status", "body", "headers", "retry_after"),
    [
        (410, '{"error_code":409,"message":"Gone"}', {}, None),
        (500, '{"error_code":500,"message":null}', {}, None),
        (401, '{"error_code":401,"message":"User cannot access the resource."}', {}, None),
        (409, '{"error_code":409,"message":"in a moment"}', {"Retry-After": "7"}, "7"),
        (409, '{"error_code":409,"message":"Cannot complete request momentarily due to x"}', {}, "1"),
    ],
)
def test_status_and_body_of_an_error_are_returned_unchanged(
    follower: Worker,
    peer: tuple[str, FakePeer],
    status: int,
    body: str,
    headers: dict[str, str],
    retry_after: str | None,
) -> None:
    url, stub = peer
    stub.status, stub.body, stub.headers = status, body.encode(), headers
    set_leader(follower, url)
    response = follower.ask("DELETE", "/connectors/a")
    assert (response.status_code, response.text) == (status, body)
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers.get("Retry-After") == retry_after


@pytest.mark.parametrize(
    ("status", "body"), [(200, b""), (202, b'{"name":"a"}'), (204, b""), (201, b'{"a":"\xc3\xa9"}')]
)
def test_successful_response_is_returned_unchanged(
    follower: Worker, peer: tuple[str, FakePeer], status: int, body: bytes
) -> None:
    url, stub = peer
    stub.status, stub.body = status, body
    set_leader(follower, url)
    response = follower.ask("DELETE", "/connectors/a")
    assert (response.status_code, response.content) == (status, body)
    assert response.headers.get("Content-Type") == ("application/json" if body else None)


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (302, b"", "Unexpected status code when handling forwarded request: 302"),
        (304, b"", "Unexpected status code when handling forwarded request: 304"),
        (404, b"<html>", f"{IO_ERROR}URL responded with 404 and a body that is not JSON"),
        (503, b"", f"{IO_ERROR}URL responded with 503 and a body that is not JSON"),
        (500, b"[" * 100_000, f"{IO_ERROR}URL responded with 500 and a body that is not JSON"),
        (400, b'{"message":"x"}', f"{IO_ERROR}URL responded with 400 and an invalid error"),
        (400, b'["x"]', f"{IO_ERROR}URL responded with 400 and an invalid error"),
        (200, b"\xff", f"{IO_ERROR}URL responded with 200 and a body that is not JSON"),
    ],
)
def test_invalid_leader_response_returns_500(
    follower: Worker, peer: tuple[str, FakePeer], status: int, body: bytes, message: str
) -> None:
    url, stub = peer
    stub.status, stub.body, stub.headers = status, body, {"Location": "/elsewhere"}
    set_leader(follower, url)
    response = follower.ask("DELETE", "/connectors/a")
    assert response.json() == {"error_code": 500, "message": message.replace("URL", url)}
    assert response.status_code == 500
    assert len(stub.requests) == 1


def test_unreachable_leader_is_an_error(follower: Worker) -> None:
    with refusing_address() as address:
        url = f"http://{address}/"
        set_leader(follower, url)
        response = follower.ask("DELETE", "/connectors/a")
    assert (response.status_code, response.json()["message"]) == (
        500,
        f"{IO_ERROR}Connection refused ({url})",
    )


def test_closed_connection_to_the_leader_is_an_error(follower: Worker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_connection() -> None:
            connection, _ = server.accept()
            connection.recv(65_536)
            connection.close()

        thread = threading.Thread(target=close_connection)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        set_leader(follower, url)
        response = follower.ask("DELETE", "/connectors/a")
        thread.join(10)
    assert response.status_code == 500
    assert response.json()["message"] == f"{IO_ERROR}Server disconnected without sending a response. ({url})"


def test_leader_without_tls_is_an_error(follower: Worker, peer: tuple[str, FakePeer]) -> None:
    url = peer[0].replace("http:", "https:")
    set_leader(follower, url)
    response = follower.ask("DELETE", "/connectors/a")
    assert response.status_code == 500
    assert response.json()["message"].startswith(IO_ERROR)
    assert response.json()["message"].endswith(f" ({url})")


@pytest.mark.parametrize("url", ["nonsense", "ftp://host:1/", "http://[", "http://host:port/", ""])
def test_invalid_leader_url_is_an_error(follower: Worker, url: str) -> None:
    set_leader(follower, url)
    response = follower.ask("DELETE", "/connectors/a")
    assert response.status_code == 500
    assert response.json()["message"].startswith("Error trying to forward REST request: ")


def test_hanging_leader_delays_no_other_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent_server, worker() as follower:
        silent_server.settimeout(10)
        follower.api.herder.put("a", {})
        set_leader(follower, f"http://127.0.0.1:{silent_server.getsockname()[1]}/")
        responses: list[int] = []
        threads = [
            threading.Thread(
                target=lambda: responses.append(follower.ask("DELETE", "/connectors/a").status_code)
            )
            for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        connections = [silent_server.accept()[0] for _ in threads]
        assert follower.ask("GET", "/connectors/a/status").status_code == 200
        assert responses == []
        for connection in connections:
            connection.close()
        for thread in threads:
            thread.join(10)
    assert responses == [500] * 5


def test_timeout_of_the_leader_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.requests.forward.MARGIN_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent_server, worker(request_timeout_s=1.0) as follower:
        url = f"http://127.0.0.1:{silent_server.getsockname()[1]}/"
        set_leader(follower, url)
        response = follower.ask("DELETE", "/connectors/a")
    assert (response.status_code, response.json()["message"]) == (
        500,
        f"{IO_ERROR}{url} did not respond within 1 s",
    )


def test_too_many_forwarded_requests_are_rejected() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent_server,
        worker(limits=Limits(waiting=1)) as follower,
    ):
        set_leader(follower, f"http://127.0.0.1:{silent_server.getsockname()[1]}/")
        thread = threading.Thread(target=lambda: follower.ask("DELETE", "/connectors/a"))
        thread.start()
        connection, _ = silent_server.accept()
        response = follower.ask("DELETE", "/connectors/a")
        assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
        assert (
            response.json()["message"] == "The worker is too busy: 1 requests are waiting for other workers"
        )
        connection.close()
        thread.join(10)


def test_shutdown_closes_connections_to_workers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with worker() as follower:
            set_leader(follower, f"http://127.0.0.1:{server.getsockname()[1]}/")
            thread = threading.Thread(target=lambda: follower.ask("DELETE", "/connectors/a"))
            thread.start()
            connection, _ = server.accept()
            connection.settimeout(10)
            assert connection.recv(65_536).startswith(b"DELETE /connectors/a?forward=true HTTP/1.1\r\n")
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            thread.join(10)
        assert connection.recv(65_536) == b""
        connection.close()

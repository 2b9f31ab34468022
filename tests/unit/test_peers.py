"""Tests for requests that an actor sends to the leader (RestClient, KIP-507)."""

from __future__ import annotations

import base64
import hmac
import json
import socket
from collections.abc import Iterator

import pytest

from kraal.core.errors import BadRequest
from kraal.core.ids import ConnectorName
from kraal.peers import PeerFailed, PeerRefused, send_fence, send_task_configs
from kraal.protocol.signature import ALGORITHM_HEADER, SIGNATURE_HEADER
from tests.fakes.servers.refusing import refusing_address
from tests.unit.web.workers import FakePeer, serve_fake_peer

KEY = b"0" * 32
NAME = ConnectorName("x")


@pytest.fixture(scope="module")
def shared_fake_peer() -> Iterator[tuple[str, FakePeer]]:
    with serve_fake_peer() as fake_peer:
        yield fake_peer


@pytest.fixture
def leader(shared_fake_peer: tuple[str, FakePeer]) -> tuple[str, FakePeer]:
    """Return the URL of a server that replaces the leader, and the server's state."""
    shared_fake_peer[1].reset()
    return shared_fake_peer


def test_task_config_requests_have_the_signature_of_connect(leader: tuple[str, FakePeer]) -> None:
    url, stub = leader
    send_task_configs(url, NAME, [{"a": "b"}], key=KEY, algorithm="HmacSHA256")
    [request] = stub.requests
    assert (request.method, request.target, request.body) == ("POST", "/connectors/x/tasks", b'[{"a":"b"}]')
    assert request.headers.pop("host") == url.removeprefix("http://").removesuffix("/")
    assert request.headers == {
        "accept": "application/json",
        "user-agent": "kafka-connect",
        "content-type": "application/json",
        "content-length": "11",
        SIGNATURE_HEADER.lower(): "TwetV7oPehg79lJcxA7hDWF3F4kOBayfSVK1IEfjJt8=",
        ALGORITHM_HEADER.lower(): "HmacSHA256",
    }


def test_fence_request_is_signed_with_an_empty_body(leader: tuple[str, FakePeer]) -> None:
    url, stub = leader
    send_fence(url, NAME, key=KEY, algorithm="HmacSHA256")
    [request] = stub.requests
    assert (request.method, request.target, request.body) == ("PUT", "/connectors/x/fence", b"")
    mac = hmac.digest(KEY, b"", "sha256")
    assert request.headers[SIGNATURE_HEADER.lower()] == base64.b64encode(mac).decode()


def test_requests_without_a_session_key_are_not_signed(leader: tuple[str, FakePeer]) -> None:
    url, stub = leader
    send_task_configs(url, NAME, [], key=None, algorithm="HmacSHA256")
    [request] = stub.requests
    assert request.body == b"[]"
    assert not {SIGNATURE_HEADER.lower(), ALGORITHM_HEADER.lower()} & request.headers.keys()


@pytest.mark.parametrize("name", ["a/b c", "é%2F", "x?y#z", "..."])
def test_connector_names_are_percent_encoded(leader: tuple[str, FakePeer], name: str) -> None:
    url, stub = leader
    configs = [{"k": None, "ü": "😀"}]
    send_task_configs(url.removesuffix("/"), ConnectorName(name), configs, key=KEY, algorithm="HmacSHA1")
    [request] = stub.requests
    assert request.target.isascii()
    prefix, segment, suffix = request.target.rsplit("/", 2)
    assert (prefix, suffix) == ("/connectors", "tasks")
    assert json.loads(request.body) == configs
    assert segment == {"a/b c": "a%2Fb%20c", "é%2F": "%C3%A9%252F", "x?y#z": "x%3Fy%23z", "...": "..."}[name]


def test_leader_url_may_have_a_path(leader: tuple[str, FakePeer]) -> None:
    url, stub = leader
    send_task_configs(f"{url}behind/proxy/", NAME, [], key=None, algorithm="HmacSHA256")
    assert [request.target for request in stub.requests] == ["/behind/proxy/connectors/x/tasks"]


def test_error_of_the_leader_is_raised_with_its_status(leader: tuple[str, FakePeer]) -> None:
    url, stub = leader
    stub.status, stub.body = (
        403,
        b'{"error_code":403,"message":"Internal request contained invalid signature."}',
    )
    with pytest.raises(PeerRefused, match="invalid signature") as failure:
        send_task_configs(url, NAME, [], key=KEY, algorithm="HmacSHA256")
    assert (failure.value.status, failure.value.error_code) == (403, 403)


def test_request_to_a_hanging_leader_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging_server:
        url = f"http://127.0.0.1:{hanging_server.getsockname()[1]}/"
        with pytest.raises(PeerFailed, match=rf"{url} did not respond within 0.2 s"):
            send_task_configs(url, NAME, [], key=KEY, algorithm="HmacSHA256", timeout_s=0.2)


def test_refused_connection_is_reported() -> None:
    with refusing_address() as address, pytest.raises(PeerFailed, match="Connection refused"):
        send_task_configs(f"http://{address}/", NAME, [], key=KEY, algorithm="HmacSHA256")


def test_unknown_algorithm_is_rejected_before_sending(
    leader: tuple[str, FakePeer],
) -> None:
    with pytest.raises(BadRequest, match="Algorithm Foo not available"):
        send_task_configs(leader[0], NAME, [], key=KEY, algorithm="Foo")
    assert leader[1].requests == []

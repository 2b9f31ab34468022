"""Requests that an actor sends to the leader (RestClient, KIP-507)."""

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
from tests.unit.web.workers import Stranger, stranger

KEY = b"0" * 32
X = ConnectorName("x")


@pytest.fixture(scope="module")
def one_stranger() -> Iterator[tuple[str, Stranger]]:
    with stranger() as found:
        yield found


@pytest.fixture
def leader(one_stranger: tuple[str, Stranger]) -> tuple[str, Stranger]:
    """Return who stands where the leader should: its URL, and what it got."""
    one_stranger[1].forget()
    return one_stranger


def test_task_configs_are_signed_as_connect_signs_them(leader: tuple[str, Stranger]) -> None:
    url, stub = leader
    send_task_configs(url, X, [{"a": "b"}], key=KEY, algorithm="HmacSHA256")
    [seen] = stub.seen
    assert (seen.method, seen.target, seen.body) == ("POST", "/connectors/x/tasks", b'[{"a":"b"}]')
    assert seen.headers.pop("host") == url.removeprefix("http://").removesuffix("/")
    assert seen.headers == {
        "accept": "application/json",
        "user-agent": "kafka-connect",
        "content-type": "application/json",
        "content-length": "11",
        SIGNATURE_HEADER.lower(): "TwetV7oPehg79lJcxA7hDWF3F4kOBayfSVK1IEfjJt8=",
        ALGORITHM_HEADER.lower(): "HmacSHA256",
    }


def test_a_fence_is_signed_over_an_empty_body(leader: tuple[str, Stranger]) -> None:
    url, stub = leader
    send_fence(url, X, key=KEY, algorithm="HmacSHA256")
    [seen] = stub.seen
    assert (seen.method, seen.target, seen.body) == ("PUT", "/connectors/x/fence", b"")
    mac = hmac.digest(KEY, b"", "sha256")
    assert seen.headers[SIGNATURE_HEADER.lower()] == base64.b64encode(mac).decode()


def test_without_a_key_they_are_not_signed(leader: tuple[str, Stranger]) -> None:
    url, stub = leader
    send_task_configs(url, X, [], key=None, algorithm="HmacSHA256")
    [seen] = stub.seen
    assert seen.body == b"[]"
    assert not {SIGNATURE_HEADER.lower(), ALGORITHM_HEADER.lower()} & seen.headers.keys()


@pytest.mark.parametrize("name", ["a/b c", "é%2F", "x?y#z", "..."])
def test_names_are_encoded(leader: tuple[str, Stranger], name: str) -> None:
    url, stub = leader
    configs = [{"k": None, "ü": "😀"}]
    send_task_configs(url.removesuffix("/"), ConnectorName(name), configs, key=KEY, algorithm="HmacSHA1")
    [seen] = stub.seen
    assert seen.target.isascii()
    prefix, segment, suffix = seen.target.rsplit("/", 2)
    assert (prefix, suffix) == ("/connectors", "tasks")
    assert json.loads(seen.body) == configs
    assert segment == {"a/b c": "a%2Fb%20c", "é%2F": "%C3%A9%252F", "x?y#z": "x%3Fy%23z", "...": "..."}[name]


def test_a_url_may_have_a_path(leader: tuple[str, Stranger]) -> None:
    url, stub = leader
    send_task_configs(f"{url}behind/proxy/", X, [], key=None, algorithm="HmacSHA256")
    assert [seen.target for seen in stub.seen] == ["/behind/proxy/connectors/x/tasks"]


def test_reports_the_leaders_error_with_its_status(leader: tuple[str, Stranger]) -> None:
    url, stub = leader
    stub.status, stub.body = (
        403,
        b'{"error_code":403,"message":"Internal request contained invalid signature."}',
    )
    with pytest.raises(PeerRefused, match="invalid signature") as refused:
        send_task_configs(url, X, [], key=KEY, algorithm="HmacSHA256")
    assert (refused.value.status, refused.value.error_code) == (403, 403)


def test_a_leader_that_hangs_is_waited_for_only_so_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(PeerFailed, match=rf"{url} gave no answer within 0.2 s"):
            send_task_configs(url, X, [], key=KEY, algorithm="HmacSHA256", timeout_s=0.2)


def test_reports_that_the_leader_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
    with pytest.raises(PeerFailed, match="Connection refused"):
        send_task_configs(url, X, [], key=KEY, algorithm="HmacSHA256")


def test_unknown_algorithm_is_rejected_before_sending(
    leader: tuple[str, Stranger],
) -> None:
    with pytest.raises(BadRequest, match="Algorithm Foo not available"):
        send_task_configs(leader[0], X, [], key=KEY, algorithm="Foo")
    assert leader[1].seen == []

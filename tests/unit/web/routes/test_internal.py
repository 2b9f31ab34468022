"""Tests for requests of workers to the leader (InternalConnectResource, KIP-507)."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from actors.messages import herder as messages
from kraal.cluster.state.cluster_state import ClusterState
from kraal.core.errors import BadRequest, NotFound, NotLeader
from kraal.core.ids import ConnectorName
from kraal.protocol.group import GroupProtocol
from kraal.protocol.records import SessionKeyRecord
from kraal.protocol.signature import ALGORITHM_HEADER, SIGNATURE_HEADER, signature_headers
from tests.unit.web.api import Api
from tests.unit.web.workers import FakePeer, Worker
from web.settings import Settings

if TYPE_CHECKING:
    import httpx2

KEY = b"0" * 32
BODY = b'[{"a":"b"}]'
TASKS_ENDPOINT = ("POST", "/connectors/x/tasks")
FENCE_ENDPOINT = ("PUT", "/connectors/x/fence")
PUT_TASKS_MESSAGE = messages.PutTaskConfigs(name=ConnectorName("x"), configs=[{"a": "b"}])
FENCE_MESSAGE = messages.FenceZombies(name=ConnectorName("x"))
MISSING_SIGNATURE = "Internal request missing required signature"
INVALID_SIGNATURE = "Internal request contained invalid signature."


@pytest.fixture
def api() -> Api:
    """Return the API of a group's leader with a session key."""
    leader_api = Api(Settings(advertised_url="http://worker:8083/", distributed=True))
    publish_session_key(leader_api, KEY)
    leader_api.herder.publish(protocol=GroupProtocol.SESSIONED)
    return leader_api


def publish_session_key(api: Api, key: bytes | None) -> None:
    record = None if key is None else SessionKeyRecord(key=key, algorithm="HmacSHA256", created_ms=0)
    api.herder.publish(config=ClusterState(session_key=record))


def send(
    api: Api, endpoint: tuple[str, str], body: bytes = b"", headers: dict[str, str] | None = None
) -> httpx2.Response:
    return api.client.request(*endpoint, content=body, headers=headers or {})


def parse_error(response: httpx2.Response) -> tuple[int, str]:
    assert list(response.json()) == ["error_code", "message"]
    return response.status_code, response.json()["message"]


@pytest.mark.parametrize(
    ("endpoint", "body", "signature", "message"),
    [
        (TASKS_ENDPOINT, BODY, "TwetV7oPehg79lJcxA7hDWF3F4kOBayfSVK1IEfjJt8=", PUT_TASKS_MESSAGE),
        (FENCE_ENDPOINT, b"", "vhwRQys0GZozEzsl9+bjquUnCkjSE7r1YPgl9S0CY1E=", FENCE_MESSAGE),
    ],
)
def test_signed_request_is_accepted(
    api: Api, endpoint: tuple[str, str], body: bytes, signature: str, message: object
) -> None:
    response = send(api, endpoint, body, {SIGNATURE_HEADER: signature, ALGORITHM_HEADER: "HmacSHA256"})
    assert (response.status_code, response.content) == (204, b"")
    assert api.herder.requests == [message]


@pytest.mark.parametrize("endpoint", [TASKS_ENDPOINT, FENCE_ENDPOINT])
@pytest.mark.parametrize(
    ("headers", "code", "message"),
    [
        pytest.param({}, 400, MISSING_SIGNATURE, id="no headers"),
        pytest.param({SIGNATURE_HEADER: "AAAA"}, 400, MISSING_SIGNATURE, id="no algorithm"),
        pytest.param({ALGORITHM_HEADER: "HmacSHA256"}, 400, MISSING_SIGNATURE, id="no signature"),
        pytest.param(
            {SIGNATURE_HEADER: "AAAA", ALGORITHM_HEADER: "None"},
            400,
            "Algorithm None not available",
            id="unknown algorithm",
        ),
        pytest.param(
            signature_headers(KEY, BODY, "HmacSHA1"),
            400,
            "This worker does not support the 'HmacSHA1' key signing algorithm used by other workers. This "
            "worker is currently configured to use: [HmacSHA256]. Check that all workers' configuration files "
            "permit the same set of signature algorithms, and correct any misconfigured worker and restart it.",
            id="algorithm not allowed",
        ),
        pytest.param(
            signature_headers(b"1" * 32, BODY), 403, INVALID_SIGNATURE, id="signature with another key"
        ),
        pytest.param(signature_headers(KEY, b"[]"), 403, INVALID_SIGNATURE, id="signature of another body"),
        pytest.param(
            {SIGNATURE_HEADER: base64.b64encode(b"").decode(), ALGORITHM_HEADER: "HmacSHA256"},
            403,
            INVALID_SIGNATURE,
            id="empty signature",
        ),
    ],
)
def test_signature_is_verified_before_any_lookup(
    api: Api, endpoint: tuple[str, str], headers: dict[str, str], code: int, message: str
) -> None:
    api.herder.error = NotFound("Connector x not found")
    body = BODY if endpoint is TASKS_ENDPOINT else b""
    assert parse_error(send(api, endpoint, body, headers)) == (code, message)
    assert api.herder.requests == []


def test_non_base64_signature_is_rejected(api: Api) -> None:
    response = send(api, TASKS_ENDPOINT, BODY, {SIGNATURE_HEADER: "*", ALGORITHM_HEADER: "HmacSHA256"})
    assert response.status_code == 400


def test_worker_without_session_key_returns_503(api: Api) -> None:
    publish_session_key(api, None)
    assert parse_error(send(api, TASKS_ENDPOINT, BODY)) == (400, MISSING_SIGNATURE)
    assert parse_error(send(api, TASKS_ENDPOINT, BODY, signature_headers(KEY, BODY))) == (
        503,
        "This worker is still starting up and has not been able to read a session key from the config topic yet",
    )


def test_additional_signature_algorithms_can_be_allowed() -> None:
    algorithms = ("HmacSHA256", "HmacSHA1")
    api = Api(Settings(advertised_url="http://x/", distributed=True, verification_algorithms=algorithms))
    publish_session_key(api, KEY)
    api.herder.publish(protocol=GroupProtocol.SESSIONED)
    assert send(api, TASKS_ENDPOINT, BODY, signature_headers(KEY, BODY, "HmacSHA1")).status_code == 204
    response = send(api, TASKS_ENDPOINT, BODY, signature_headers(KEY, BODY, "HmacSHA512"))
    assert "is currently configured to use: [HmacSHA256, HmacSHA1]." in parse_error(response)[1]


@pytest.mark.parametrize("protocol", [GroupProtocol.DEFAULT, GroupProtocol.COMPATIBLE])
def test_older_protocols_require_no_signature(api: Api, protocol: GroupProtocol) -> None:
    api.herder.publish(protocol=protocol)
    publish_session_key(api, None)
    assert send(api, TASKS_ENDPOINT, BODY).status_code == 204
    assert send(api, FENCE_ENDPOINT).status_code == 204
    assert api.herder.requests == [PUT_TASKS_MESSAGE, FENCE_MESSAGE]


def test_requests_require_a_signature_before_the_first_join(api: Api) -> None:
    api.herder.publish(protocol=None)
    assert parse_error(send(api, TASKS_ENDPOINT, BODY)) == (400, MISSING_SIGNATURE)
    assert send(api, TASKS_ENDPOINT, BODY, signature_headers(KEY, BODY)).status_code == 204


@pytest.mark.parametrize(
    "content_type", [None, "application/x-www-form-urlencoded", "text/plain", "application/json"]
)
def test_any_content_type_is_accepted(api: Api, content_type: str | None) -> None:
    headers = signature_headers(KEY, BODY) | ({} if content_type is None else {"Content-Type": content_type})
    assert send(api, TASKS_ENDPOINT, BODY, headers).status_code == 204
    fence_headers = signature_headers(KEY, b"") | (
        {} if content_type is None else {"Content-Type": content_type}
    )
    assert send(api, FENCE_ENDPOINT, b"", fence_headers).status_code == 204


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The request body is empty; it must be a JSON array"),
        (b"[", "The request body is not JSON: Expecting value (line 1, column 2)"),
        (b"{}", "The request body must be a JSON array, but is an object"),
        (b"null", "The request body must be a JSON array, but is null"),
        (b"[{},[]]", "The config of task 1 must be a JSON object, but is an array"),
        (
            b'[{"a":{}}]',
            "Value of config key a must be a string, number, boolean or null, but is an object",
        ),
    ],
)
def test_invalid_signed_body_is_a_bad_request(api: Api, body: bytes, message: str) -> None:
    assert parse_error(send(api, TASKS_ENDPOINT, body, signature_headers(KEY, body))) == (400, message)
    assert api.herder.requests == []


def test_task_config_values_become_strings(api: Api) -> None:
    body = b' [ {"i":1.50, "b":true, "n":null} , {} ] '
    assert send(api, TASKS_ENDPOINT, body, signature_headers(KEY, body)).status_code == 204
    configs = [{"i": "1.50", "b": "true", "n": None}, {}]
    assert api.herder.requests == [messages.PutTaskConfigs(name=ConnectorName("x"), configs=configs)]


def test_many_large_task_configs_are_accepted(api: Api) -> None:
    body = json.dumps([{"key": "v" * 10_000} for _ in range(500)]).encode()
    assert send(api, TASKS_ENDPOINT, body, signature_headers(KEY, body)).status_code == 204


def test_body_above_the_limit_is_rejected() -> None:
    api = Api(Settings(advertised_url="http://x/", distributed=True, max_internal_body_bytes=10))
    publish_session_key(api, KEY)
    body = b"x" * 11
    assert send(api, TASKS_ENDPOINT, body, signature_headers(KEY, body)).status_code == 413


@pytest.mark.parametrize(
    "error",
    [
        NotFound("Connector x not found"),
        BadRequest("Cannot submit non-empty set of task configs for stopped connector x"),
    ],
)
def test_herder_errors_are_returned(api: Api, error: NotFound | BadRequest) -> None:
    api.herder.error = error
    response = send(api, TASKS_ENDPOINT, BODY, signature_headers(KEY, BODY))
    assert parse_error(response) == (error.status, str(error))


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        (
            TASKS_ENDPOINT,
            "Kafka Connect in standalone mode does not support externally setting task configurations.",
        ),
        (FENCE_ENDPOINT, "Kafka Connect in standalone mode does not support exactly-once source connectors."),
    ],
)
def test_standalone_worker_rejects_internal_requests(endpoint: tuple[str, str], message: str) -> None:
    api = Api(Settings(advertised_url="http://worker:8083/"))
    assert parse_error(send(api, endpoint, BODY)) == (400, message)
    assert api.herder.requests == []


def test_connector_names_are_decoded(api: Api) -> None:
    endpoint = ("POST", "/connectors/a%2Fb%20c/tasks")
    assert send(api, endpoint, BODY, signature_headers(KEY, BODY)).status_code == 204
    assert api.herder.requests == [messages.PutTaskConfigs(name=ConnectorName("a/b c"), configs=[{"a": "b"}])]


@pytest.mark.parametrize(
    ("method", "path", "code", "text"),
    [
        ("OPTIONS", "/connectors/x/tasks", 200, "HEAD, POST, GET, OPTIONS"),
        ("OPTIONS", "/connectors/x/fence", 200, "OPTIONS, PUT"),
        ("PUT", "/connectors/x/tasks", 405, '{"error_code":405,"message":"HTTP 405 Method Not Allowed"}'),
        ("GET", "/connectors/x/fence", 405, '{"error_code":405,"message":"HTTP 405 Method Not Allowed"}'),
        ("HEAD", "/connectors/x/fence", 405, ""),
    ],
)
def test_options_return_200_and_unsupported_methods_405(
    api: Api, method: str, path: str, code: int, text: str
) -> None:
    response = api.client.request(method, path)
    assert (response.status_code, response.text) == (code, text)
    assert api.herder.requests == []


def test_get_tasks_requires_no_signature(api: Api) -> None:
    api.herder.put("x", {}, tasks=1)
    assert api.client.get("/connectors/x/tasks").status_code == 200
    assert api.client.head("/connectors/x/tasks").status_code == 200
    assert api.client.get("/connectors/x/tasks", headers={"Content-Type": "text/plain"}).status_code == 415


# -- forwarded requests ------------------------------------------------------------------------------------


def test_forwarded_request_is_not_signed_again(follower: Worker, peer: tuple[str, FakePeer]) -> None:
    url, stub = peer
    publish_session_key(follower.api, KEY)
    follower.api.herder.publish(protocol=GroupProtocol.SESSIONED)
    follower.api.herder.error = NotLeader(url)
    for (method, path), body in ((TASKS_ENDPOINT, BODY), (FENCE_ENDPOINT, b"")):
        headers = signature_headers(KEY, body)
        assert follower.client.request(method, path, content=body, headers=headers).status_code == 204
    tasks_request, fence_request = stub.requests
    assert (tasks_request.target, tasks_request.body) == ("/connectors/x/tasks?forward=true", BODY)
    assert (fence_request.target, fence_request.body) == ("/connectors/x/fence?forward=true", b"")
    for request in (tasks_request, fence_request):
        assert not {SIGNATURE_HEADER.lower(), ALGORITHM_HEADER.lower()} & request.headers.keys()


def test_leader_rejects_a_forwarded_request_without_a_signature(follower: Worker, leader: Worker) -> None:
    for group_worker in (follower, leader):
        publish_session_key(group_worker.api, KEY)
        group_worker.api.herder.publish(protocol=GroupProtocol.SESSIONED)
    follower.api.herder.error = NotLeader(leader.url)
    response = follower.client.post(TASKS_ENDPOINT[1], content=BODY, headers=signature_headers(KEY, BODY))
    assert parse_error(response) == (400, MISSING_SIGNATURE)
    for group_worker in (follower, leader):
        group_worker.api.herder.publish(protocol=GroupProtocol.COMPATIBLE)
    assert follower.client.post(TASKS_ENDPOINT[1], content=BODY).status_code == 204
    assert leader.api.herder.requests == [PUT_TASKS_MESSAGE]

"""Tests for bodies of internal requests: rejection before reading or parsing, and limits of the parser."""

from __future__ import annotations

import http.client
import socket
import threading
import tracemalloc
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from actors.messages import herder as messages
from kraal.cluster.state.cluster_state import ClusterState
from kraal.core.errors import BadRequest
from kraal.core.ids import Config, ConnectorName
from kraal.protocol.group import GroupProtocol
from kraal.protocol.records import SessionKeyRecord
from kraal.protocol.signature import ALGORITHM_HEADER, SIGNATURE_HEADER, signature_headers
from tests.unit.web.api import Api
from tests.unit.web.workers import Worker
from web.requests.task_configs import MAX_CONFIGS, MAX_SETTINGS, parse_task_configs
from web.settings import Settings

KEY = b"0" * 32
TASKS_REQUEST_LINE = "POST /connectors/x/tasks"
FENCE_REQUEST_LINE = "PUT /connectors/x/fence"
ANNOUNCED_BYTES = 64 * 1024 * 1024
MISSING_SIGNATURE = "Internal request missing required signature"
INVALID_SIGNATURE = "Internal request contained invalid signature."


def enable_signatures(api: Api, key: bytes | None = KEY) -> None:
    """Make the worker a member of a group that signs requests."""
    record = None if key is None else SessionKeyRecord(key=key, algorithm="HmacSHA256", created_ms=0)
    api.herder.publish(config=ClusterState(session_key=record), protocol=GroupProtocol.SESSIONED)


@pytest.fixture
def signing_worker(follower: Worker) -> Worker:
    """Return a worker at a socket, in a group that signs requests."""
    enable_signatures(follower.api)
    return follower


def send_headers_only(worker: Worker, line: str, headers: Mapping[str, str]) -> tuple[int, str]:
    """Announce a body without sending it; return the status and body of the response."""
    address = urlsplit(worker.url)
    request_headers = {"Host": address.netloc, "Content-Length": str(ANNOUNCED_BYTES), **headers}
    head = "\r\n".join(
        [f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in request_headers.items()), "", ""]
    )
    with socket.create_connection((str(address.hostname), address.port or 0), timeout=10) as client:
        client.sendall(head.encode())
        response = http.client.HTTPResponse(client)
        response.begin()
        return response.status, response.read().decode()


@pytest.mark.parametrize("line", [TASKS_REQUEST_LINE, FENCE_REQUEST_LINE])
@pytest.mark.parametrize(
    ("headers", "message"),
    [
        pytest.param({}, MISSING_SIGNATURE, id="no signature"),
        pytest.param({SIGNATURE_HEADER: "AAAA"}, MISSING_SIGNATURE, id="no algorithm"),
        pytest.param({ALGORITHM_HEADER: "HmacSHA256"}, MISSING_SIGNATURE, id="algorithm without signature"),
        pytest.param({SIGNATURE_HEADER: "*", ALGORITHM_HEADER: "HmacSHA256"}, "base64", id="not base64"),
        pytest.param(
            {SIGNATURE_HEADER: "AAAA", ALGORITHM_HEADER: "X"}, "not available", id="unknown algorithm"
        ),
        pytest.param(
            {SIGNATURE_HEADER: "AAAA", ALGORITHM_HEADER: "HmacSHA1"},
            "does not support",
            id="algorithm not allowed",
        ),
    ],
)
def test_unverifiable_signature_is_rejected_before_reading_the_body(
    signing_worker: Worker, line: str, headers: Mapping[str, str], message: str
) -> None:
    status, text = send_headers_only(signing_worker, line, headers)
    assert status == 400
    assert message in text
    assert signing_worker.api.herder.requests == []


@pytest.mark.parametrize("line", [TASKS_REQUEST_LINE, FENCE_REQUEST_LINE])
def test_rejected_client_receives_the_response_despite_a_large_body(
    signing_worker: Worker, line: str
) -> None:
    """The client reads only after it has sent the whole body. The connection must not be reset before that."""
    address = urlsplit(signing_worker.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port or 0, timeout=30)
    method, path = line.split()
    for _ in range(5):
        connection.request(method, path, b"[" + b" " * 8_000_000 + b"]", {"Connection": "close"})
        response = connection.getresponse()
        assert (response.status, MISSING_SIGNATURE in response.read().decode()) == (400, True)
        connection.close()
    assert signing_worker.api.herder.requests == []


def test_missing_session_key_rejects_before_reading_the_body(signing_worker: Worker) -> None:
    enable_signatures(signing_worker.api, None)
    headers = {SIGNATURE_HEADER: "AAAA", ALGORITHM_HEADER: "HmacSHA256"}
    assert send_headers_only(signing_worker, TASKS_REQUEST_LINE, headers)[0] == 503


def test_unsigned_request_is_rejected_before_parsing() -> None:
    api = Api(Settings(advertised_url="http://x/", distributed=True, allow_unsigned_internal=False))
    api.herder.publish(protocol=GroupProtocol.COMPATIBLE)
    response = api.client.post("/connectors/x/tasks", content=b"[")
    assert (response.status_code, MISSING_SIGNATURE in response.json()["message"]) == (400, True)


@pytest.mark.parametrize("body", [b"[", b"", b"null", b'[{"a":{}}]', b"\xff"])
def test_body_with_wrong_signature_is_not_parsed(body: bytes) -> None:
    api = Api(Settings(advertised_url="http://worker:8083/", distributed=True))
    enable_signatures(api)
    response = api.client.post(
        "/connectors/x/tasks", content=body, headers=signature_headers(b"1" * 32, body)
    )
    assert (response.status_code, response.json()["message"]) == (403, INVALID_SIGNATURE)


@pytest.mark.parametrize("protocol", [GroupProtocol.SESSIONED, GroupProtocol.COMPATIBLE])
def test_fence_request_body_is_limited(protocol: GroupProtocol) -> None:
    api = Api(Settings(advertised_url="http://worker:8083/", distributed=True))
    enable_signatures(api)
    api.herder.publish(protocol=protocol)
    for size, status in ((1024, 204), (1025, 413)):
        body = b" " * size
        response = api.client.put("/connectors/x/fence", content=body, headers=signature_headers(KEY, body))
        assert response.status_code == status


def test_parsing_a_body_does_not_block_other_requests(
    signing_worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsing_started, release = threading.Event(), threading.Event()

    def parse_slowly(body: bytes) -> list[Config]:
        parsing_started.set()
        assert release.wait(30)
        return parse_task_configs(body)

    monkeypatch.setattr("web.routes.internal.parse_task_configs", parse_slowly)
    body = b'[{"a":"b"}]'
    with ThreadPoolExecutor(1) as executor:
        post: Callable[..., Any] = signing_worker.client.post
        response = executor.submit(
            post, "/connectors/x/tasks", content=body, headers=signature_headers(KEY, body)
        )
        try:
            assert parsing_started.wait(30)
            assert signing_worker.client.get("/", timeout=10).status_code == 200
        finally:
            release.set()
        assert response.result(30).status_code == 204
    configs = [{"a": "b"}]
    assert signing_worker.api.herder.requests == [
        messages.PutTaskConfigs(name=ConnectorName("x"), configs=configs)
    ]


# -- parsing task configs ----------------------------------------------------------------------------------


def test_values_are_kept_as_written() -> None:
    body = (
        '\ufeff [ {"i":1.50 ,"e":-1E400,"t":true,\n"f":false,"n":null,"u":"é\\u00e9😀\\ud83d\\ude00\\"\\\\",'
        '"":"","twice":"x","twice":"y"} , {} ]\r\n'
    )
    expected = {"i": "1.50", "e": "-1E400", "t": "true", "f": "false", "n": None, "u": 'éé😀😀"\\'}
    assert parse_task_configs(body.encode()) == [expected | {"": "", "twice": "y"}, {}]
    assert parse_task_configs(b"[]") == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "The request body is empty; it must be a JSON array"),
        (" \n", "The request body is empty; it must be a JSON array"),
        ("{}", "The request body must be a JSON array, but is an object"),
        ("null", "The request body must be a JSON array, but is null"),
        ("-1", "The request body must be a JSON array, but is a number"),
        ("[", "The request body is not JSON: Expecting value (line 1, column 2)"),
        ("[{}", "The request body is not JSON: Expecting ',' delimiter (line 1, column 4)"),
        ("[{},]", "The request body is not JSON: Expecting value (line 1, column 5)"),
        ("[{}] x", "The request body is not JSON: Extra data (line 1, column 6)"),
        ("[{},\n é]", "The request body is not JSON: Expecting value (line 2, column 2)"),
        ('[{"é":\n"é" 1}]', "The request body is not JSON: Expecting ',' delimiter (line 2, column 5)"),
        ("[{a", "The request body is not JSON: Expecting property name enclosed in double quotes (line 1, column 3)"),
        ('[{"a" 1}]', "The request body is not JSON: Expecting ':' delimiter (line 1, column 7)"),
        ('[{"a":01}]', "The request body is not JSON: Expecting ',' delimiter (line 1, column 8)"),
        ('[{"a":NaN}]', "The request body is not JSON: Expecting value (line 1, column 7)"),
        ('[{"a":"b]', "The request body is not JSON: Unterminated string starting at (line 1, column 7)"),
        ('[{"a":"\\', "The request body is not JSON: Unterminated string starting at (line 1, column 7)"),
        ('[{"a":"\\x"}]', "The request body is not JSON: Invalid \\escape (line 1, column 8)"),
        ('[{"a":"\t"}]', "The request body is not JSON: Invalid control character at (line 1, column 8)"),
        ('[{"a":"\\ud800"}]', 'Value of config key a contains an unpaired surrogate: "\\ud800"'),
        ('[{"\\udfff":1}]', 'A key contains an unpaired surrogate: "\\udfff"'),
        ("[{},[]]", "The config of task 1 must be a JSON object, but is an array"),
        ("[[", "The config of task 0 must be a JSON object, but is an array"),
        ('[{"a":{', "Value of config key a must be a string, number, boolean or null, but is an object"),
        ('[{"a":[', "Value of config key a must be a string, number, boolean or null, but is an array"),
    ],
)  # fmt: skip
def test_invalid_body_is_a_bad_request(body: str, message: str) -> None:
    with pytest.raises(BadRequest) as error:
        parse_task_configs(body.encode())
    assert str(error.value) == message


def test_non_utf_8_body_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match=r"^The request body is not UTF-8 at byte 9$"):
        parse_task_configs(b'[{"a":"b\xff"}]')


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"[" * 8_000_000, "but is an array", id="nested arrays"),
        pytest.param(b"[" + b"[]," * 3_000_000, "but is an array", id="many arrays"),
        pytest.param(b'[{"a":' * 1_000_000, "but is an array", id="nested objects"),
        pytest.param(
            b'[{"a":"' + b"\\n" * 6_000_000 + b'"}]', "longer than 10000000 bytes", id="a long value"
        ),
        pytest.param(b"[{" + b" " * 8_000_000, "Expecting property name", id="blanks"),
        pytest.param(b'[{"a":' + b"9" * 8_000_000 + b"}", "Expecting ',' delimiter", id="a long number"),
    ],
)
def test_rejected_body_uses_little_memory(body: bytes, message: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BadRequest, match=message):
            parse_task_configs(body)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_number_of_configs_and_settings_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (MAX_CONFIGS, MAX_SETTINGS) == (100_000, 1_000_000)
    monkeypatch.setattr("web.requests.task_configs.MAX_CONFIGS", 1_000)
    monkeypatch.setattr("web.requests.task_configs.MAX_SETTINGS", 10_000)
    assert len(parse_task_configs(b"[" + b",".join([b"{}"] * 1_000) + b"]")) == 1_000
    with pytest.raises(BadRequest, match="more than 1000 task configs"):
        parse_task_configs(b"[" + b",".join([b"{}"] * 1_001) + b"]")
    config = b"{" + b",".join(b'"%x":1' % number for number in range(100)) + b"}"
    assert len(parse_task_configs(b"[" + b",".join([config] * 100) + b"]")) == 100
    with pytest.raises(BadRequest, match="more than 10000 settings"):
        parse_task_configs(b"[" + b",".join([config] * 101) + b"]")

"""Tests for the fuzzers' checks of responses."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.fuzz.findings import from_bytes, from_schema
from tests.fuzz.raw import RawRequest, find_faults, format_shell_command
from tests.fuzz.response_checks import SLOW_S, WorkerResponse, faults
from web.server import HttpServer, Listener

if TYPE_CHECKING:
    from starlette.requests import Request

JSON_HEADERS = {"server": "kraal/1", "content-type": "application/json"}
NOT_FOUND = b'{"error_code":404,"message":null}'


def make_response(
    status: int = 200, body: bytes = b"", elapsed_s: float = 0.1, **changes: Any
) -> WorkerResponse:
    fields: dict[str, Any] = {"method": "GET", "path": "/connectors", "headers": JSON_HEADERS, **changes}
    return WorkerResponse(status=status, body=body, elapsed_s=elapsed_s, **fields)


@pytest.mark.parametrize(
    "response",
    [
        make_response(body=b"[]"),
        make_response(404, NOT_FOUND),
        make_response(404, NOT_FOUND, headers={"server": "kraal/1"}),
        make_response(404, method="HEAD"),
        make_response(
            503, b'{"error_code":503,"message":"busy"}', headers={**JSON_HEADERS, "retry-after": "1"}
        ),
        make_response(
            500,
            b'{"error_code":500,"message":"Failed to start connector: one"}',
            method="POST",
            path="/connectors/one/restart",
        ),
    ],
)
def test_valid_response_has_no_faults(response: WorkerResponse) -> None:
    assert list(faults(response)) == []


@pytest.mark.parametrize(
    ("response", "fault"),
    [
        (make_response(elapsed_s=SLOW_S + 0.5), "response took 2.5 s; the limit is 2 s"),
        (make_response(headers={}), "no Server header"),
        (make_response(body=b"{"), "body is not JSON despite its Content-Type"),
        (make_response(503, b'{"error_code":503,"message":""}'), "503 without Retry-After"),
        (
            make_response(404, b'{"message":"","error_code":404}'),
            "body has other fields than error_code and message",
        ),
        (make_response(404, b'{"error_code":400,"message":""}'), "error_code 400 with message ''"),
        (make_response(404, b'{"error_code":404,"message":1}'), "error_code 404 with message 1"),
        (make_response(404, NOT_FOUND, method="HEAD"), "response to HEAD has a body"),
        (
            make_response(400, b'{"error_code":400,"message":""}', headers={"server": "kraal/1"}),
            "error with Content-Type None",
        ),
        (
            make_response(500, b'{"error_code":500,"message":"Failed to start connector: one"}'),
            'status 500: b\'{"error_code":500,"message":"Failed to start connector: one"}\'',
        ),
    ],
)
def test_invalid_response_has_a_fault(response: WorkerResponse, fault: str) -> None:
    assert list(faults(response)) == [fault]


def test_reproduction_command_sends_the_same_bytes() -> None:
    """The `printf` command runs in a POSIX shell; the `curl` command with `$'…'` requires bash and is only compared."""
    malformed_request = RawRequest(
        method=b"GET", target=b"/%", headers=((b"a b", b"\xff'\\"),), body=b"%d\\0\x00", is_broken=True
    )
    command = format_shell_command(malformed_request, "h", 1)
    assert command.endswith(" | nc -q 5 h 1")
    result = subprocess.run(  # noqa: S602
        command.removesuffix(" | nc -q 5 h 1"), shell=True, check=True, capture_output=True
    )
    assert result.stdout == malformed_request.head + malformed_request.body
    valid_request = RawRequest(method=b"PUT", target=b"/a?b'c", headers=((b"A", b"\xff'"),), body=b"{}")
    assert format_shell_command(valid_request, "h", 1) == (
        r"""printf '\173\175' | curl -i --path-as-is -X PUT -H $'A: \xff\x27' --data-binary @- 'http://h:1/a?b'"'"'c'"""
    )


def _close_first_connection(listener: socket.socket) -> None:
    listener.accept()[0].close()


# -- a worker with faults ----------------------------------------------------------------------------------

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "faulty", "version": "1"},
    "paths": {
        path: {
            "get": {
                "operationId": name,
                "responses": {
                    "200": {
                        "description": "",
                        "content": {"application/json": {"schema": {"type": "array"}}},
                    },
                    "500": {"description": "", "content": {"application/json": {"schema": {}}}},
                },
            }
        }
        for path, name in (("/connectors", "fails"), ("/", "violatesSchema"), ("/health", "isValid"))
    },
}


async def _document(_request: Request) -> Response:
    return JSONResponse(DOCUMENT)


METHODS = ["GET", "PUT", "POST", "PATCH", "DELETE", "TRACE"]


async def _fail(_request: Request) -> Response:
    return JSONResponse({"error_code": 500, "message": "a bug"}, 500, {"Server": "faulty"})


async def _violate_schema(_request: Request) -> Response:
    return JSONResponse({"not": "an array"}, headers={"Server": "faulty"})


async def _respond(_request: Request) -> Response:
    return JSONResponse([], headers={"Server": "faulty"})


@pytest.fixture
def faulty_address() -> Iterator[tuple[str, int]]:
    """Run a server with faulty responses, and yield its address."""
    server = HttpServer([Listener("127.0.0.1", 0)], graceful_s=1)
    routes = {"/openapi.json": _document, "/": _violate_schema, "/health": _respond, "/{rest:path}": _fail}
    server.start(
        Starlette(routes=[Route(path, handler, methods=METHODS) for path, handler in routes.items()])
    )
    yield "127.0.0.1", server.bound_listeners[0].port
    server.stop()


def test_schema_fuzzer_finds_faults(faulty_address: tuple[str, int]) -> None:
    report = from_schema(f"http://127.0.0.1:{faulty_address[1]}/", 1, 3)
    assert "status 500: b" in report
    assert '{"not":"an array"}' in report
    assert re.search(rf"curl -X [A-Z]+ http://127\.0\.0\.1:{faulty_address[1]}/connectors", report)
    assert "GET /health" not in report


def test_raw_fuzzer_finds_faults(faulty_address: tuple[str, int]) -> None:
    findings = from_bytes(*faulty_address, 1, 60)
    assert any(finding.fault.startswith("status 500") and "curl" in finding.command for finding in findings)


def test_timeouts_and_closed_connections_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.raw.RESPONSE_TIMEOUT_S", 0.3)
    request = RawRequest(method=b"GET", target=b"/")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert find_faults("127.0.0.1", port, request) == ["no response for 0.3 s"]
    monkeypatch.setattr("tests.fuzz.raw.RESPONSE_TIMEOUT_S", 30)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=lambda: _close_first_connection(listener))
        thread.start()
        assert find_faults("127.0.0.1", port, request) == ["no response"]
        thread.join()

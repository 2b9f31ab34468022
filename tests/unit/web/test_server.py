"""Tests for the HTTP server over real loopback sockets: requests, startup and shutdown."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import threading
from collections.abc import Iterator

import pytest

from kraal import __version__
from kraal.core.errors import KraalError
from tests.unit.web.api import Api
from web.server import HttpServer, Listener


@pytest.fixture
def server(api: Api) -> Iterator[HttpServer]:
    http_server = HttpServer([Listener("127.0.0.1", 0)])
    http_server.start(api.app)
    yield http_server
    http_server.stop()


def connect(server: HttpServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.bound_listeners[0].port, timeout=10)


def test_response_over_a_socket_has_one_server_header(api: Api, server: HttpServer) -> None:
    api.herder.put("a/b", {})
    client = connect(server)
    for _ in range(2):
        client.request("GET", "/connectors/a%2Fb/config")
        response = client.getresponse()
        assert response.read() == b'{"name":"a/b"}'
        assert [value for name, value in response.getheaders() if name.lower() == "server"] == [
            f"kraal/{__version__}"
        ]
    client.request("HEAD", "/connectors/a%2Fb/config")
    response = client.getresponse()
    assert (response.read(), response.getheader("Content-Length")) == (b"", "14")
    client.request("DELETE", "/connectors/a%2Fb")
    response = client.getresponse()
    assert (response.status, response.read(), response.getheader("Content-Length")) == (204, b"", None)
    client.close()


def test_oversized_content_length_returns_413_before_the_body_is_sent(server: HttpServer) -> None:
    client = connect(server)
    client.putrequest("PUT", "/connectors/a/config")
    client.putheader("Content-Type", "application/json")
    client.putheader("Content-Length", str(10**12))
    client.endheaders()
    assert client.getresponse().status == 413
    client.close()


def test_oversized_body_returns_413(server: HttpServer) -> None:
    client = connect(server)
    client.putrequest("PUT", "/connectors/a/config")
    client.putheader("Content-Type", "application/json")
    client.putheader("Content-Length", str(8_000_000))
    client.endheaders()
    for _ in range(80):
        client.send(b"x" * 100_000)
    assert client.getresponse().status == 413
    client.close()


def test_sockets_specify_the_tcp_protocol() -> None:
    """Without the protocol, asyncio does not set TCP_NODELAY."""
    server = HttpServer([Listener("127.0.0.1", 0)])
    assert [listening_socket.proto for _, listening_socket in server._sockets] == [socket.IPPROTO_TCP]
    server.close()


def test_http_server_requires_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(ModuleNotFoundError, match="uvloop"):
        HttpServer([Listener("127.0.0.1", 0)])


def test_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening_socket:
        port = listening_socket.getsockname()[1]
        with pytest.raises(KraalError, match=f"^Cannot listen on 127.0.0.1:{port}: the port is in use"):
            HttpServer([Listener("127.0.0.1", 0), Listener("127.0.0.1", port)])


def test_foreign_address_is_reported() -> None:
    with pytest.raises(KraalError, match="this machine does not have the address"):
        HttpServer([Listener("192.0.2.1", 0)])


def test_port_is_bound_from_creation_to_stop(api: Api) -> None:
    first = HttpServer([Listener("127.0.0.1", 0)])
    listeners = first.bound_listeners
    with pytest.raises(KraalError, match="the port is in use"):
        HttpServer(listeners)
    first.start(api.app)
    first.stop()
    HttpServer(listeners).close()


def test_all_listeners_serve_the_same_application(api: Api) -> None:
    server = HttpServer([Listener("127.0.0.1", 0), Listener("127.0.0.1", 0)])
    server.start(api.app)
    try:
        for listener in server.bound_listeners:
            client = http.client.HTTPConnection("127.0.0.1", listener.port, timeout=10)
            client.request("GET", "/connectors")
            assert client.getresponse().read() == b"[]"
            client.close()
    finally:
        server.stop()


def test_run_returns_immediately_after_an_earlier_stop(api: Api) -> None:
    server = HttpServer([Listener("127.0.0.1", 0)])
    server.stop()
    server.run(api.app)


def test_run_returns_after_stop_on_another_thread(api: Api) -> None:
    server = HttpServer([Listener("127.0.0.1", 0)])
    thread = threading.Thread(target=server.run, args=(api.app,))
    thread.start()
    client = connect(server)
    client.request("GET", "/connectors")
    assert client.getresponse().status == 200
    client.close()
    server.stop()
    thread.join(10)
    assert not thread.is_alive()


def exchange(server: HttpServer, data: bytes) -> bytes:
    """Send raw bytes and return the data received until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.bound_listeners[0].port), timeout=10) as client:
        client.sendall(data)
        received_data = b""
        while chunk := client.recv(65536):
            received_data += chunk
    return received_data


def test_unknown_method_gets_connects_error_format(server: HttpServer) -> None:
    for method in ("FOO", "get", "CONNECT", "TRACE"):
        client = connect(server)
        for path, status in (("/connectors", 405), ("/nothing", 404)):
            client.request(method, path)
            response = client.getresponse()
            assert (response.status, response.read()[:18]) == (status, b'{"error_code":%d,' % status)
        client.request("GET", "/connectors")
        assert client.getresponse().read() == b"[]"
        client.close()


CHUNKED_HEAD = (
    b"PUT /connectors/a/config HTTP/1.1\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"GET /connectors HTTP/1.1\r\nHost: x\r\n", id="header"),
        pytest.param(CHUNKED_HEAD + b"1\r\n{\r\n0\r\n", id="trailers"),
        pytest.param(CHUNKED_HEAD + b"1\r\n{\r\n1;", id="chunk size"),
    ],
)
def test_endless_header_trailer_or_chunk_size_is_rejected(server: HttpServer, start: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.bound_listeners[0].port), timeout=10) as client:
        client.sendall(start)
        with pytest.raises(ConnectionError):  # noqa: PT012 - a send fails after the response
            while True:
                client.sendall(b"X-More: " + b"y" * 8000 + b"\r\n" if b"1;" not in start else b"y" * 8000)


def test_long_head_and_body_are_accepted(server: HttpServer) -> None:
    client = connect(server)
    client.request("GET", "/connectors", headers={"X-Long": "y" * 50_000})
    response = client.getresponse()
    assert (response.status, response.read()) == (200, b"[]")
    body = json.dumps({"name": "a", "config": {"name": "a", "text": "z" * 900_000}}).encode()
    chunks = (body[at : at + 30_000] for at in range(0, len(body), 30_000))
    client.request(
        "POST", "/connectors", body=chunks, headers={"Content-Type": "application/json"}, encode_chunked=True
    )
    response = client.getresponse()
    assert (response.status, response.read()[:11]) == (201, b'{"name":"a"')
    client.close()


def test_invalid_http_is_rejected(server: HttpServer) -> None:
    assert exchange(server, b"\x16\x03\x01 hello\r\n\r\n").startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_pipelined_requests_are_handled_in_order(api: Api, server: HttpServer) -> None:
    api.herder.put("a", {})
    request = b"GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n"
    paths = (b"/connectors", b"/nothing", b"/connectors/a/config")
    last_request = request % (b"/connectors", b"Connection: close\r\n")
    received = exchange(server, b"".join(request % (path, b"") for path in paths) + last_request)
    bodies = [b'["a"]', b'{"error_code":404', b'{"name":"a"}', b'["a"]']
    positions = [received.index(body) for body in bodies[:3]]
    assert positions == sorted(positions)
    assert (received.count(b"HTTP/1.1 "), received.endswith(bodies[3])) == (4, True)

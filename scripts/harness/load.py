"""A REST load generator over persistent connections, with one thread, non-blocking sockets and minimal overhead.

Each connection is driven by a script, a generator that yields a request, receives the response, and yields the next
request, which is sent immediately. Each connection therefore has one request in flight (a closed loop). Responses are
parsed only as far as required to detect their end.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import re
import selectors
import socket
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

from scripts.harness.processes import ScriptFailed

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

OK = 200
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_LAST_CHUNK = b"\r\n0\r\n\r\n"
"""The last chunk. Compact JSON has no line breaks, so these bytes occur nowhere else in a response."""
_NO_CONTENT = 204
_TIMEOUT_S = 60.0


class Response(NamedTuple):
    """The response to one request."""

    status: int
    seconds: float
    """Time from just before the request was sent until the last byte was received."""
    raw: bytes
    """Headers and body."""


Script = Generator[bytes, Response, None]


@dataclass(slots=True)
class LoadResult:
    """The results of a load run."""

    seconds: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    """Number of responses by status code."""
    durations_s: list[float] = field(default_factory=list)
    """Duration of each request in seconds."""
    max_response_bytes: int = 0
    """Size of the largest response in bytes, including headers."""

    def add(self, response: Response, seconds: float) -> None:
        """Add one response and its duration."""
        self.statuses[response.status] = self.statuses.get(response.status, 0) + 1
        self.durations_s.append(seconds)
        self.max_response_bytes = max(self.max_response_bytes, len(response.raw))

    @property
    def rate(self) -> float:
        """Responses per second."""
        return len(self.durations_s) / self.seconds

    def percentile_ms(self, percent: float) -> float:
        """Return a percentile of the response times in milliseconds."""
        ordered = sorted(self.durations_s)
        return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] * 1000


class _Connection:
    """A connection and its script."""

    __slots__ = ("received", "script", "socket", "start_s", "total")

    def __init__(self, port: int, script: Script) -> None:
        self.script = script
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.start_s = 0.0
        self.received = b""
        self.total: int | None = None
        """Size of the response in bytes; None before the headers are complete, or if the response is chunked."""

    def send(self, message: bytes) -> None:
        self.received, self.total = b"", None
        self.start_s = time.perf_counter()
        self.socket.sendall(message)

    def receive(self) -> Response | None:
        """Receive available data; return the response if it is complete."""
        chunk = self.socket.recv(1 << 18)
        if not chunk:
            raise ScriptFailed("The worker closed a connection during the load.")
        self.received = self.received + chunk if self.received else chunk
        if self.total is None:
            self.total = _parse_total(self.received)
        is_chunked = self.total is None
        is_complete = self.received.endswith(_LAST_CHUNK) if is_chunked else len(self.received) == self.total
        if not is_complete:
            return None
        return Response(int(self.received[9:12]), time.perf_counter() - self.start_s, self.received)


def _parse_total(received: bytes) -> int | None:
    """Return the size of a response; None if the headers are incomplete or declare no size. Raises ScriptFailed."""
    end = received.find(_HEAD_END)
    if end < 0:
        return None
    end += len(_HEAD_END)
    if length := _LENGTH.search(received, 0, end):
        return end + int(length[1])
    if _CHUNKED.search(received, 0, end):
        return None
    if int(received[9:12]) != _NO_CONTENT:
        raise ScriptFailed(f"A response is neither chunked nor has a Content-Length: {received[:200]!r}")
    return end


def run_scripts(port: int, scripts: Iterable[Script], seconds: float) -> LoadResult:
    """Run all scripts, each on its own connection, until the time is up or all scripts have ended.

    Requests in flight at the end are awaited and counted. Raises ScriptFailed.
    """
    load = LoadResult()
    with selectors.DefaultSelector() as selector:
        for script in scripts:
            connection = _Connection(port, script)
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.send(next(script))
        start_s = time.perf_counter()
        while selector.get_map():
            ready = selector.select(_TIMEOUT_S)
            if not ready:
                raise ScriptFailed(f"No response within {_TIMEOUT_S:.0f} s.")
            for key, _ in ready:
                connection = key.data
                response = connection.receive()
                if response is None:
                    continue
                load.add(response, response.seconds)
                next_message = None
                if time.perf_counter() - start_s < seconds:
                    with suppress(StopIteration):
                        next_message = connection.script.send(response)
                if next_message is None:
                    selector.unregister(connection.socket)
                    connection.socket.close()
                else:
                    connection.send(next_message)
        load.seconds = time.perf_counter() - start_s
    return load


def request(method: str, path: str, body: Mapping[str, object] | None = None) -> bytes:
    """Return the bytes of an HTTP request."""
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    return head.encode() + b"\r\n" + data


def send_gets(port: int, paths: Sequence[str], *, connections: int, seconds: float) -> LoadResult:
    """Send GETs of the paths in turn over several connections. Raises ScriptFailed for any status but 200."""
    messages = cycle([request("GET", path) for path in paths])

    def script() -> Script:
        while True:
            response = yield next(messages)
            if response.status != OK:
                raise ScriptFailed(f"A GET failed: {response.raw[:300]!r}")

    return run_scripts(port, [script() for _ in range(connections)], seconds)


def send_paced_gets(port: int, path: str, *, every_s: float, seconds: float) -> LoadResult:
    """Send GETs of one path at fixed times. Response times are measured from these times, even for requests sent late.

    A pause of the worker therefore affects every request that was due during the pause. Raises ScriptFailed.
    """
    message, load = request("GET", path), LoadResult()

    def once() -> Script:
        yield message

    connection = _Connection(port, once())
    start_s = time.perf_counter()
    due = start_s
    while due - start_s < seconds:
        time.sleep(max(0.0, due - time.perf_counter()))
        connection.send(message)
        while (response := connection.receive()) is None:
            pass
        load.add(response, time.perf_counter() - due)
        due += every_s
    connection.socket.close()
    load.seconds = time.perf_counter() - start_s
    return load


@contextmanager
def stub_server(body: bytes) -> Iterator[int]:
    """Run a server process that responds to every request with `body`; yield its port."""
    parent_pipe, child_pipe = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(child_pipe, body), daemon=True
    )
    process.start()
    try:
        yield parent_pipe.recv()
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection, body: bytes) -> None:
    response = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    with socket.create_server(("127.0.0.1", 0)) as server, selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        pipe.send(server.getsockname()[1])
        while True:
            for key, _ in selector.select():
                if key.fileobj is server:
                    client, _ = server.accept()
                    selector.register(client, selectors.EVENT_READ, client)
                elif key.data.recv(1 << 16):
                    key.data.sendall(response)
                else:
                    selector.unregister(key.data)
                    key.data.close()

"""Load on a REST API over kept connections: one thread, sockets that never block, as little work as can be.

Each connection is driven by a script, a generator: it yields a request, gets the answer, and yields the next one, which
is sent at once. So a connection has one request under way, and what is measured is a closed loop. Answers are not
parsed beyond where they end.
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
"""Compact JSON has no line ends, so these bytes are nowhere else in an answer."""
_NO_CONTENT = 204
_TIMEOUT_S = 60.0


class Answer(NamedTuple):
    """What came back for one request."""

    status: int
    seconds: float
    """From just before the request was sent until the last byte was here."""
    raw: bytes
    """Head and body."""


Script = Generator[bytes, Answer, None]


@dataclass(slots=True)
class Load:
    """What came of some seconds of load."""

    seconds: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    """How often each status was answered."""
    took: list[float] = field(default_factory=list)
    """Seconds of each request."""
    longest: int = 0
    """Bytes of the longest answer, head and body."""

    def add(self, answer: Answer, seconds: float) -> None:
        """Count one answer, which took so long."""
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        self.took.append(seconds)
        self.longest = max(self.longest, len(answer.raw))

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.took) / self.seconds

    def percentile_ms(self, percent: float) -> float:
        """Return the milliseconds within which `percent` percent of the requests were answered."""
        ordered = sorted(self.took)
        return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] * 1000


class _Peer:
    """One connection and its script."""

    __slots__ = ("begun", "received", "script", "socket", "total")

    def __init__(self, port: int, script: Script) -> None:
        self.script = script
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.begun = 0.0
        self.received = b""
        self.total: int | None = None
        """Bytes of the whole answer; None while that is not known, or when it comes in chunks."""

    def send(self, message: bytes) -> None:
        self.received, self.total = b"", None
        self.begun = time.perf_counter()
        self.socket.sendall(message)

    def take(self) -> Answer | None:
        """Take what has come; return the answer when that was the end of it."""
        more = self.socket.recv(1 << 18)
        if not more:
            raise ScriptFailed("The worker closed a connection in the middle of the load.")
        self.received = self.received + more if self.received else more
        if self.total is None:
            self.total = _total(self.received)
        chunked = self.total is None
        done = self.received.endswith(_LAST_CHUNK) if chunked else len(self.received) == self.total
        if not done:
            return None
        return Answer(int(self.received[9:12]), time.perf_counter() - self.begun, self.received)


def _total(received: bytes) -> int | None:
    """Return how long an answer is; None when that is not here yet, or is not said."""
    end = received.find(_HEAD_END)
    if end < 0:
        return None
    end += len(_HEAD_END)
    if length := _LENGTH.search(received, 0, end):
        return end + int(length[1])
    if _CHUNKED.search(received, 0, end):
        return None
    if int(received[9:12]) != _NO_CONTENT:
        raise ScriptFailed(f"An answer does not say where it ends: {received[:200]!r}")
    return end


def drive(port: int, scripts: Iterable[Script], seconds: float) -> Load:
    """Run all scripts, each on a connection of its own, until the time is over or they end.

    What is under way when the time is over is waited for, and counts. Raises ScriptFailed.
    """
    load = Load()
    with selectors.DefaultSelector() as selector:
        for script in scripts:
            peer = _Peer(port, script)
            selector.register(peer.socket, selectors.EVENT_READ, peer)
            peer.send(next(script))
        begun = time.perf_counter()
        while selector.get_map():
            ready = selector.select(_TIMEOUT_S)
            if not ready:
                raise ScriptFailed(f"No answer came for {_TIMEOUT_S:.0f} s.")
            for key, _ in ready:
                peer = key.data
                answer = peer.take()
                if answer is None:
                    continue
                load.add(answer, answer.seconds)
                following = None
                if time.perf_counter() - begun < seconds:
                    with suppress(StopIteration):
                        following = peer.script.send(answer)
                if following is None:
                    selector.unregister(peer.socket)
                    peer.socket.close()
                else:
                    peer.send(following)
        load.seconds = time.perf_counter() - begun
    return load


def request(method: str, path: str, body: Mapping[str, object] | None = None) -> bytes:
    """Return the bytes of a request."""
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    return head.encode() + b"\r\n" + data


def gets(port: int, paths: Sequence[str], *, connections: int, seconds: float) -> Load:
    """Ask for the paths, in turn, over the given number of connections. Raises ScriptFailed for any answer but 200."""
    asked = cycle([request("GET", path) for path in paths])

    def script() -> Script:
        while True:
            answer = yield next(asked)
            if answer.status != OK:
                raise ScriptFailed(f"A GET was answered by {answer.raw[:300]!r}")

    return drive(port, [script() for _ in range(connections)], seconds)


def paced(port: int, path: str, *, every_s: float, seconds: float) -> Load:
    """Ask for one path at fixed moments. Seconds count from then, also when an earlier answer is still awaited.

    So a pause of the worker counts for each request that fell into it. Raises ScriptFailed.
    """
    asked, load = request("GET", path), Load()

    def once() -> Script:
        yield asked

    peer = _Peer(port, once())
    begun = time.perf_counter()
    due = begun
    while due - begun < seconds:
        time.sleep(max(0.0, due - time.perf_counter()))
        peer.send(asked)
        while (answer := peer.take()) is None:
            pass
        load.add(answer, time.perf_counter() - due)
        due += every_s
    peer.socket.close()
    load.seconds = time.perf_counter() - begun
    return load


@contextmanager
def empty_server(body: bytes) -> Iterator[int]:
    """Start a process that answers everything with `body` and does nothing else; gives its port."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, body), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection, body: bytes) -> None:
    answer = (
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
                    key.data.sendall(answer)
                else:
                    selector.unregister(key.data)
                    key.data.close()

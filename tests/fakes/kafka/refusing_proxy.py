"""A proxy in front of a broker that rejects single Produce requests, like a broker that is no longer the leader.

Source: Kafka's protocol guide (Produce and Metadata, flexible versions).
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

_PRODUCE = 0
_NOT_LEADER = 6
_NO_OFFSETS = struct.pack(">qqq", -1, -1, -1)
_ONE, _NONE, _NULL = b"\x02", b"\x01", b"\x00"
"""Encoded lengths of compact arrays and strings: one element, no elements, and null."""
_REFUSAL_DELAY_S = 0.2
"""Delay of a rejection, during which clients prepare their next request."""


class RefusingProxy:
    """A proxy in front of a broker, on a separate port. Thread-safe."""

    def __init__(self, bootstrap: str) -> None:
        """Create the proxy for the broker at `bootstrap`, an IPv4 address; the context manager starts it."""
        host, _, port = bootstrap.rpartition(":")
        self._broker = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.bootstrap = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.refused_count = 0
        """The number of rejected requests."""
        self._refuses_next = threading.Event()
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in (self._server, *self._sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def refuse_next(self) -> None:
        """Reject the next Produce request of any connection."""
        self._refuses_next.set()

    def _accept(self) -> None:
        with suppress(OSError):  # the proxy was closed
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection(self._broker)
                self._sockets += [client, broker]
                for target in (self._forward_requests, self._forward_responses):
                    threading.Thread(target=target, args=(client, broker), daemon=True).start()

    def _forward_requests(self, client: socket.socket, broker: socket.socket) -> None:
        with suppress(OSError, EOFError):
            while True:
                request = _read_frame(client)
                key, version = struct.unpack(">hh", request[:4])
                if key == _PRODUCE and self._refuses_next.is_set():
                    self._refuses_next.clear()
                    time.sleep(_REFUSAL_DELAY_S)
                    self.refused_count += 1
                    _write_frame(client, _make_refusal(request, version))
                else:
                    _write_frame(broker, request)
        broker.close()

    def _forward_responses(self, client: socket.socket, broker: socket.socket) -> None:
        """Forward responses, with the broker's address replaced by the proxy's address."""
        proxy_address, broker_address = (
            host.encode() + struct.pack(">i", port)
            for host, port in (self._server.getsockname(), self._broker)
        )
        with suppress(OSError, EOFError):
            while True:
                _write_frame(client, _read_frame(broker).replace(broker_address, proxy_address))
        client.close()


def _make_refusal(request: bytes, version: int) -> bytes:
    """Return an error response to a Produce request with one topic and partition 0."""
    if version not in {9, 10}:
        raise ValueError(f"cannot refuse version {version} of Produce: only 9 and 10")
    correlation_id = request[4:8]
    client_id_length = struct.unpack(">h", request[8:10])[0]
    # After the client id: tags, transactional id, acks, timeout, number of topics.
    start = 10 + client_id_length + 1 + 1 + 2 + 4 + 1
    topic = request[start : start + request[start]]  # with its length, which is less than 127
    partition = struct.pack(">ih", 0, _NOT_LEADER) + _NO_OFFSETS + _NONE + _NULL + _NULL
    return correlation_id + _NULL + _ONE + topic + _ONE + partition + _NULL + struct.pack(">i", 0) + _NULL


def _read_frame(connection: socket.socket) -> bytes:
    size = struct.unpack(">i", _read(connection, 4))[0]
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


def _write_frame(connection: socket.socket, frame: bytes) -> None:
    connection.sendall(struct.pack(">i", len(frame)) + frame)

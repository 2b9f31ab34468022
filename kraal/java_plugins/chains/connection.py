"""Connections to the chain of a task in the plugins' JVM, which sends batches through it."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from typing_extensions import Buffer

from kraal.core.errors import PluginFailed
from kraal.java_plugins.chains.frames import Buffers, add_column, read_head
from kraal.metrics.errors import NO_ERRORS, ErrorCounts

if TYPE_CHECKING:
    import pyarrow as pa

_LOST: Final = "lost the connection to the JVM of Java plugins"
SLICE: Final = 4096
"""Number of records in a frame, at most."""
SLICE_BYTES: Final = 1 << 23
"""Size of a frame in bytes, about."""
_POLL_INTERVAL_S: Final = 0.2
_CONNECT_TIMEOUT_S: Final = 30.0
_INT: Final = 4


class ChainLost(Exception):
    """The JVM of Java plugins has ended, so the batch is repeated by another run."""

    @staticmethod
    def is_in(trace: str) -> bool:
        """Return whether a trace, also one of Spark's Python processes, is of this error."""
        return f"{ChainLost.__name__}: {_LOST}" in trace


class ChainCancelled(Exception):
    """The run was cancelled while its batch was in the JVM of Java plugins."""


@dataclass(frozen=True, slots=True)
class ChainAddress:
    """Where the chain of a run is. Can be pickled."""

    port: int
    token: str = field(repr=False)
    number: int

    def connect(self, cancelled: threading.Event | None) -> Connection:
        """Connect for the frames of one pass; `cancelled` ends it. Raises ChainLost."""
        return Connection(self, cancelled)


class Connection:
    """A connection to `ChainServer`. One thread."""

    def __init__(self, chain: ChainAddress, cancelled: threading.Event | None) -> None:
        self._cancelled, self._number = cancelled, chain.number
        try:
            self._socket = socket.create_connection(("127.0.0.1", chain.port), _CONNECT_TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(chain.token.encode())
        except OSError as exc:
            raise ChainLost(f"{_LOST}: {exc}") from exc

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def process(
        self, part: pa.RecordBatch, columns: Sequence[str], **about: Any
    ) -> tuple[dict[str, Any], Iterator[Any]]:
        """Send columns of a part of a batch, as far as it has them; return the answer's object and buffers."""
        buffers: Buffers = []
        described = [
            {"name": name, "column": add_column(part.column(name), buffers)}
            for name in columns
            if name in part.schema.names
        ]
        head = {"chain": self._number, "count": part.num_rows, "columns": described}
        return self._ask({**head, **about}, buffers)

    def _ask(self, about: Mapping[str, Any], buffers: Buffers) -> tuple[dict[str, Any], Iterator[Any]]:
        try:
            self._socket.settimeout(_POLL_INTERVAL_S)
            for each in (read_head(about, buffers), *buffers):
                self._send(each)
            length: int = struct.unpack(">i", self._receive(_INT))[0]
            answer: dict[str, Any] = json.loads(self._receive(length))
            received = iter([self._receive(size) for size in answer["sizes"]])
        except OSError as exc:
            raise ChainLost(f"{_LOST}: {exc}") from exc
        if error := answer.get("error"):
            raise PluginFailed(error.partition("\n")[0], error)
        return answer, received

    def _send(self, data: Buffer) -> None:
        remaining = memoryview(data).cast("B")
        while remaining:
            try:
                remaining = remaining[self._socket.send(remaining) :]
            except TimeoutError:
                self._stop_if_cancelled()

    def _receive(self, count: int) -> bytearray:
        content = bytearray(count)
        view, at = memoryview(content), 0
        while at < count:
            try:
                got = self._socket.recv_into(view[at:])
            except TimeoutError:
                self._stop_if_cancelled()
                continue
            if not got:
                raise ConnectionResetError("it was closed")
            at += got
        return content

    def _stop_if_cancelled(self) -> None:
        """Raise ChainCancelled if the run was cancelled: the JVM may be frozen, and never answer."""
        if self._cancelled is not None and self._cancelled.is_set():
            raise ChainCancelled


def attempts(answer: Mapping[str, Any]) -> ErrorCounts:
    """Return the failed steps and retries in an answer."""
    if not answer["failures"]:
        return NO_ERRORS
    return ErrorCounts(
        failures=answer["failures"], retries=answer["retries"], last_error_ms=int(time.time() * 1000)
    )


def slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split batches so that frames stay small."""
    for batch in batches:
        if not batch.num_rows:
            continue
        step = max(1, min(SLICE, SLICE_BYTES * batch.num_rows // max(1, batch.nbytes)))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)

"""Connections that send batches through the chain of a task in the plugins' JVM."""

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
from kraal.java_plugins.chains.frames import Buffers, add_column, serialize_head
from kraal.metrics.errors import NO_ERRORS, ErrorCounts

if TYPE_CHECKING:
    import pyarrow as pa

_LOST: Final = "lost the connection to the JVM of Java plugins"
MAX_FRAME_RECORDS: Final = 4096
"""Maximum number of records in a frame."""
MAX_FRAME_BYTES: Final = 1 << 23
"""Approximate maximum size of a frame in bytes."""
_POLL_INTERVAL_S: Final = 0.2
_CONNECT_TIMEOUT_S: Final = 30.0
_INT_BYTES: Final = 4


class ChainLost(Exception):
    """Raised if the connection to the JVM of Java plugins is lost; a new run retries the batch."""

    @staticmethod
    def is_in(trace: str) -> bool:
        """Return whether a trace, possibly of Spark's Python processes, contains this error."""
        return f"{ChainLost.__name__}: {_LOST}" in trace


class ChainCancelled(Exception):
    """Raised if the run is cancelled while its batch is in the JVM of Java plugins."""


@dataclass(frozen=True, slots=True)
class ChainAddress:
    """The address of a run's chain. Picklable."""

    port: int
    token: str = field(repr=False)
    number: int

    def connect(self, cancelled: threading.Event | None) -> Connection:
        """Open a connection for the frames of one pass; setting `cancelled` aborts the pass. Raises ChainLost."""
        return Connection(self, cancelled)


class Connection:
    """A connection to `ChainServer`. Not thread-safe."""

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
        self, part: pa.RecordBatch, columns: Sequence[str], **properties: Any
    ) -> tuple[dict[str, Any], Iterator[Any]]:
        """Send those of the batch's columns that are in `columns`; return the response's JSON object and buffers."""
        buffers: Buffers = []
        descriptions = [
            {"name": name, "column": add_column(part.column(name), buffers)}
            for name in columns
            if name in part.schema.names
        ]
        head = {"chain": self._number, "count": part.num_rows, "columns": descriptions}
        return self._ask({**head, **properties}, buffers)

    def _ask(self, properties: Mapping[str, Any], buffers: Buffers) -> tuple[dict[str, Any], Iterator[Any]]:
        try:
            self._socket.settimeout(_POLL_INTERVAL_S)
            for buffer in (serialize_head(properties, buffers), *buffers):
                self._send(buffer)
            length: int = struct.unpack(">i", self._receive(_INT_BYTES))[0]
            response: dict[str, Any] = json.loads(self._receive(length))
            response_buffers = iter([self._receive(size) for size in response["sizes"]])
        except OSError as exc:
            raise ChainLost(f"{_LOST}: {exc}") from exc
        if error := response.get("error"):
            raise PluginFailed(error.partition("\n")[0], error)
        return response, response_buffers

    def _send(self, data: Buffer) -> None:
        unsent_data = memoryview(data).cast("B")
        while unsent_data:
            try:
                unsent_data = unsent_data[self._socket.send(unsent_data) :]
            except TimeoutError:
                self._check_cancelled()

    def _receive(self, count: int) -> bytearray:
        content = bytearray(count)
        view, position = memoryview(content), 0
        while position < count:
            try:
                size = self._socket.recv_into(view[position:])
            except TimeoutError:
                self._check_cancelled()
                continue
            if not size:
                raise ConnectionResetError("the JVM closed the connection")
            position += size
        return content

    def _check_cancelled(self) -> None:
        """Raise ChainCancelled if the run was cancelled, because a frozen JVM may never respond."""
        if self._cancelled is not None and self._cancelled.is_set():
            raise ChainCancelled


def parse_error_counts(response: Mapping[str, Any]) -> ErrorCounts:
    """Return the counts of failed operations and retries in a response."""
    if not response["failures"]:
        return NO_ERRORS
    return ErrorCounts(
        failures=response["failures"], retries=response["retries"], last_error_ms=int(time.time() * 1000)
    )


def split_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split batches into slices that fit into a frame."""
    for batch in batches:
        if not batch.num_rows:
            continue
        step = max(1, min(MAX_FRAME_RECORDS, MAX_FRAME_BYTES * batch.num_rows // max(1, batch.nbytes)))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)

"""The chain of a task in the plugins' JVM, and the pass of a source's batches through it.

A pass has the interface of `kraal.engine.records.source_pass.SourcePass`, and settles faults, dead letters and topics
in the same way; only what happens to each record happens in `Chain.java`. It runs in this process, or in Spark's Python
processes on the same machine, over a connection of its own.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from kraal.core.errors import PluginFailed
from kraal.engine.records.fault import Fault, headers_of
from kraal.engine.records.source_pass import COLUMNS, OUT, DeadTopic, SourcePass, headers_array
from kraal.engine.records.steps import PassResult
from kraal.engine.records.topics import trouble_of
from kraal.java_plugins.frames import ROW_BUFFERS, Buffers, add_column, head_of, rows_of, schema_text
from kraal.metrics.errors import ErrorCounts

if TYPE_CHECKING:
    from kraal.plugins.api import SourceBatch

LOST: Final = "lost the connection to the JVM of Java plugins"
"""Part of the trace of a run whose JVM has ended during a batch."""
SLICE: Final = 4096
"""Number of records in a frame, at most."""
SLICE_BYTES: Final = 1 << 23
"""Size of a frame in bytes, about."""
_LOOK_S: Final = 0.2
_INT: Final = 4


class ChainLost(Exception):
    """The JVM of Java plugins has ended, so the batch is repeated by another run."""


class ChainCancelled(Exception):
    """The run was cancelled while its batch was in the JVM of Java plugins."""


@dataclass(frozen=True, slots=True)
class JavaChain:
    """Where the chain of a run is. Implements `kraal.engine.api.RemoteChain`; can be pickled."""

    port: int
    token: str = field(repr=False)
    number: int

    def source_pass(
        self, given: SourcePass, batch: SourceBatch, cancelled: threading.Event | None
    ) -> JavaSourcePass:
        """Return the pass of a batch."""
        partition, offset = next(iter(batch.offsets.items()), (None, None))
        return JavaSourcePass(
            chain=self,
            given=given,
            source_partition=None if partition is None else dict(partition.as_dict()),
            source_offset=None if offset is None else dict(offset),
            cancelled=cancelled,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaSourcePass:
    """The pass of one batch. Can be pickled unless it has `cancelled`."""

    chain: JavaChain
    given: SourcePass
    """What the batch is and how faults are settled; its steps are not used."""
    source_partition: Mapping[str, Any] | None
    source_offset: Mapping[str, Any] | None
    cancelled: threading.Event | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batch's rows, then its summary. Reads all of `batches`, even if the pass stops at a record.

        Raises ChainLost, ChainCancelled, and PluginFailed for what is not the fault of a record.
        """
        given = self.given
        result = PassResult(given.steps.tolerance)
        ensure = None if given.gate is None else given.gate.opened()
        with _Connection(self.chain, self.cancelled) as connection:
            for part in _slices(batches):
                if result.over:
                    continue
                answer, buffers = connection.ask(*self._asked(part))
                rows = rows_of(answer["rows"], buffers[:ROW_BUFFERS])
                dead = self._settled(answer, rows_of(answer["dead"], buffers[ROW_BUFFERS:]), result)
                result.topics.update(rows["topic"].unique().to_pylist())
                if ensure is not None:
                    result.trouble = trouble_of(ensure, result.topics)
                if result.trouble is None:
                    result.written += rows.num_rows
                    yield rows
                    yield from dead
        yield pa.RecordBatch.from_pylist([{"note": result.summary().note()}], OUT)

    def _asked(self, part: pa.RecordBatch) -> tuple[dict[str, Any], Buffers]:
        given, tolerance, buffers = self.given, self.given.steps.tolerance, Buffers()
        columns = [
            {"name": name, "column": add_column(part.column(name), buffers)}
            for name in COLUMNS
            if name in part.schema.names and not (name == "topic" and given.topic is not None)
        ]
        about = {
            "chain": self.chain.number,
            "count": part.num_rows,
            "columns": columns,
            "topic": given.topic,
            "timestamp": given.timestamp_ms,
            "key_schema": schema_text(given.key_schema),
            "value_schema": schema_text(given.value_schema),
            "source_partition": self.source_partition,
            "source_offset": self.source_offset,
            "stops": not tolerance.all,
            "dead": given.dead is not None,
            "shows": tolerance.shows_records,
        }
        return about, buffers

    def _settled(
        self, answer: Mapping[str, Any], failed: pa.RecordBatch, result: PassResult
    ) -> list[pa.RecordBatch]:
        """Count what happened to the records; return the dead letters."""
        result.read += answer["read"]
        if answer["failures"]:
            result.counts += ErrorCounts(
                failures=answer["failures"],
                retries=answer["retries"],
                last_error_ms=int(time.time() * 1000),
            )
        dead, faults = self.given.dead, [_fault(each) for each in answer["faults"]]
        for fault in faults:
            result.give_up(fault, dead_letter=dead is not None)
        return [] if dead is None or not faults else [_dead_letters(dead, faults, failed)]


def _fault(said: Mapping[str, Any]) -> Fault:
    record = said["record"]
    return Fault(**{**said, "record": f", where source record is = {record}" if record else ""})


def _dead_letters(dead: DeadTopic, faults: list[Fault], failed: pa.RecordBatch) -> pa.RecordBatch:
    headers = [
        [
            *((each["key"], each["value"]) for each in own or ()),
            *(headers_of(fault, dead.connector, dead.task) if dead.with_context else ()),
        ]
        or None
        for own, fault in zip(failed["headers"].to_pylist(), faults, strict=True)
    ]
    count = failed.num_rows
    columns = [pa.array([dead.name] * count, pa.string()), failed["partition"], headers_array(headers)]
    return pa.RecordBatch.from_arrays([*columns, failed["key"], failed["value"], failed["note"]], schema=OUT)


def _slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split batches so that frames stay small."""
    for batch in batches:
        if not batch.num_rows:
            continue
        step = max(1, min(SLICE, SLICE_BYTES * batch.num_rows // max(1, batch.nbytes)))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


class _Connection:
    """A connection to `ChainServer`. One thread."""

    def __init__(self, chain: JavaChain, cancelled: threading.Event | None) -> None:
        self._cancelled = cancelled
        try:
            self._socket = socket.create_connection(("127.0.0.1", chain.port))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(chain.token.encode())
        except OSError as exc:
            raise ChainLost(f"{LOST}: {exc}") from exc

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, about: Mapping[str, Any], buffers: Buffers) -> tuple[dict[str, Any], list[Any]]:
        """Send a frame and return the answer's object and buffers."""
        try:
            self._socket.settimeout(None)
            self._socket.sendall(head_of(about, buffers))
            for each in buffers:
                self._socket.sendall(each)
            self._socket.settimeout(_LOOK_S)
            length: int = struct.unpack(">i", self._received(_INT))[0]
            answer: dict[str, Any] = json.loads(self._received(length))
            found = [self._received(size) for size in answer["sizes"]]
        except OSError as exc:
            raise ChainLost(f"{LOST}: {exc}") from exc
        if error := answer.get("error"):
            raise PluginFailed(error.partition("\n")[0], error)
        return answer, found

    def _received(self, count: int) -> bytearray:
        found = bytearray(count)
        view, at = memoryview(found), 0
        while at < count:
            try:
                got = self._socket.recv_into(view[at:])
            except TimeoutError:
                if self._cancelled is not None and self._cancelled.is_set():
                    raise ChainCancelled from None
                continue
            if not got:
                raise ConnectionResetError("it was closed")
            at += got
        return found

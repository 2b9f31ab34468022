"""In-memory stores, for tests, for `kraal.testing`, and for a worker without persistent state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from kraal.core.errors import StoreError
from kraal.core.ids import ConnectorName
from kraal.core.offsets import Offset, SourcePartition
from kraal.core.records import Entry, Record

Fault = Callable[[str], None]
"""Called before each operation with its name (`append`, `read`, `end`, `load` or `store`); may raise an error."""


def _no_fault(_operation: str) -> None:
    pass


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryLog:
    """A log in memory. `fault` makes operations fail; `start` is the first offset. Thread-safe."""

    def __init__(
        self, name: str, *, fault: Fault = _no_fault, now_ms: Callable[[], int] = _now_ms, start: int = 0
    ) -> None:
        self._name = name
        self.fault = fault
        self._now_ms = now_ms
        self._start = start
        self._records: list[Record] = []
        self._lock = threading.Lock()
        self._closed = False

    @property
    def name(self) -> str:
        """The log's name, for messages."""
        return self._name

    def append(self, entries: Sequence[Entry]) -> int:
        """Write `entries` atomically; return the offset of the last one. Raises StoreError."""
        self._begin_operation("append")
        with self._lock:
            first_offset, now_ms = self._next_offset(), self._now_ms()
            self._records.extend(
                Record(first_offset + i, e.key, e.value, now_ms) for i, e in enumerate(entries)
            )
            return self._next_offset() - 1

    def read(self, start: int, limit: int, wait_s: float = 0.0) -> Sequence[Record]:
        """Return at most `limit` records from `start`; never waits."""
        del wait_s  # other writers notify readers
        self._begin_operation("read")
        with self._lock:
            first_index = max(start - self._start, 0)
            return self._records[first_index : first_index + max(limit, 0)]

    def end(self) -> int:
        """Return the offset of the next record."""
        self._begin_operation("end")
        with self._lock:
            return self._next_offset()

    def claim(self) -> None:
        """No-op, because there is no other leader."""

    def close(self) -> None:
        """Reject all later calls."""
        self._closed = True

    def _next_offset(self) -> int:
        return self._start + len(self._records)

    def _begin_operation(self, operation: str) -> None:
        if self._closed:
            raise StoreError(f"log {self._name!r} is closed")
        self.fault(operation)


class MemoryOffsets:
    """Source offsets in memory. `fault` makes operations fail. Thread-safe."""

    def __init__(self, *, fault: Fault = _no_fault) -> None:
        self.fault = fault
        self._offsets: dict[ConnectorName, dict[SourcePartition, Offset]] = {}
        self._lock = threading.Lock()
        self._closed = False

    def load(self, connector: ConnectorName) -> Mapping[SourcePartition, Offset]:
        """Return all stored offsets of `connector`."""
        self._begin_operation("load")
        with self._lock:
            return dict(self._offsets.get(connector, {}))

    def store(self, changes: Mapping[ConnectorName, Mapping[SourcePartition, Offset | None]]) -> None:
        """Store `changes`; None deletes an offset."""
        self._begin_operation("store")
        with self._lock:
            for connector, partitions in changes.items():
                stored_offsets = self._offsets.setdefault(connector, {})
                for partition, offset in partitions.items():
                    if offset is None:
                        stored_offsets.pop(partition, None)
                    else:
                        stored_offsets[partition] = dict(offset)

    def close(self) -> None:
        """Reject all later calls."""
        self._closed = True

    def _begin_operation(self, operation: str) -> None:
        if self._closed:
            raise StoreError("the offset store is closed")
        self.fault(operation)

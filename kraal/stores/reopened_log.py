"""A log that the worker can do without: it is opened on first use, and opened again after a failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kraal.core.errors import RecordTooLarge, StoreError
from kraal.core.records import Entry, Record
from kraal.stores.api import Log

T = TypeVar("T")


class ReopenedLog:
    """Implements `Log`. Each call may open the log and raise StoreError. Not thread-safe."""

    def __init__(self, name: str, open_log: Callable[[], Log], *, max_bytes: int | None = None) -> None:
        """Create the log without opening it.

        Args:
            name: the name for messages.
            open_log: opens the log. Raises StoreError.
            max_bytes: the number of written bytes after which the log is opened again, which compacts a file; None if
                the log compacts itself.
        """
        self._name = name
        self._open_log = open_log
        self._max_bytes = max_bytes
        self._log: Log | None = None
        self._written_bytes = 0
        self._is_closed = False

    @property
    def name(self) -> str:
        """The name for messages."""
        return self._name

    def append(self, entries: Sequence[Entry]) -> int:
        """Write `entries`, and close the log if it must be opened again. Raises StoreError."""
        offset = self._call(lambda log: log.append(entries))
        self._written_bytes += sum(len(entry.key) + len(entry.value or b"") for entry in entries)
        if self._max_bytes is not None and self._written_bytes > self._max_bytes:
            self._release()
        return offset

    def read(self, start: int, limit: int, wait_s: float = 0.0) -> Sequence[Record]:
        """Return at most `limit` records with offset ≥ `start`. Raises StoreError."""
        return self._call(lambda log: log.read(start, limit, wait_s))

    def end(self) -> int:
        """Return the offset of the next record. Raises StoreError."""
        return self._call(lambda log: log.end())

    def claim(self) -> None:
        """No-op: any worker may write."""

    def close(self) -> None:
        """Close the log, which cannot be opened again."""
        self._is_closed = True
        self._release()

    def _call(self, operation: Callable[[Log], T]) -> T:
        if self._is_closed:
            raise StoreError(f"the log {self._name!r} is closed")
        try:
            if self._log is None:
                self._log = self._open_log()
            return operation(self._log)
        except RecordTooLarge:
            raise
        except StoreError:
            self._release()
            raise

    def _release(self) -> None:
        log, self._log, self._written_bytes = self._log, None, 0
        if log is not None:
            log.close()

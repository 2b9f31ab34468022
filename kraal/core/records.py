"""Records of the internal topics, before and after they are written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A record to write. The value None is a tombstone."""

    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read. `timestamp_ms` is the wall-clock time of the write."""

    offset: int
    key: str
    value: bytes | None
    timestamp_ms: int = -1

"""A log in a file, for standalone workers. Acknowledged appends survive kill -9 and power failures.

Each batch requires one `write` and one `fsync`; a batch whose write was interrupted is truncated at the next startup,
with a warning. Records are read from the file with a sparse index, not kept in memory. When the file is opened, it is
compacted if that at least halves its size; offsets continue to increase, because the header contains the next offset. A
second process cannot open the same log.
"""

from __future__ import annotations

import bisect
import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kraal.cluster.state.compaction import latest_by_key
from kraal.core.errors import StoreError
from kraal.core.private_files import make_directory
from kraal.core.records import Entry, Record
from kraal.stores.atomic_files import replace_file, sync_directory
from kraal.stores.file_frames import (
    HEADER_SIZE,
    CorruptFile,
    Frame,
    decode_frames,
    decode_header,
    encode_frame,
    encode_header,
)

log = logging.getLogger(__name__)

_INDEX_INTERVAL_BYTES = 1 << 16
"""Number of bytes between two entries of the index, and minimum size of a read."""
_MIN_COMPACTION_BYTES = 1 << 16
"""Minimum file size for compaction."""
_MAX_FRAME_RECORDS = 1000
"""Maximum number of records in a frame of a compacted file."""

Compaction = Callable[[Sequence[Record]], Sequence[Record]]
"""Returns the records to keep, in order."""


class FileLog:
    """An append-only log in a file. One thread appends, another may read; both must have finished before `close`."""

    def __init__(
        self,
        path: Path,
        name: str,
        *,
        compaction: Compaction = latest_by_key,
        compact_from: int = _MIN_COMPACTION_BYTES,
    ) -> None:
        """Open or create the log. Raises StoreError if it is damaged, inaccessible or in use by another process."""
        self._path = path
        self._name = name
        self._lock = threading.Lock()
        self._index: list[tuple[int, int]] = []
        """Ascending pairs of a frame's first offset and its position in the file."""
        self._next_offset = 0
        self._size = 0
        self._tail = (0, HEADER_SIZE)
        """The offset and file position from which a reader at the end continues."""
        self._failure: str | None = None
        try:
            make_directory(path.parent)
            self._lock_file = _lock_exclusively(path.with_name(path.name + ".lock"), path)
            try:
                self._file = self._open(compaction, compact_from)
            except BaseException:
                os.close(self._lock_file)
                raise
        except OSError as exc:
            raise StoreError(f"cannot open the log {name!r} at {path}: {exc}") from exc
        except CorruptFile as exc:
            raise StoreError(
                f"the log {name!r} at {path} is damaged: {exc}. Restore it, or move it away to start with an empty log"
            ) from exc

    @property
    def name(self) -> str:
        """The log's name, for messages."""
        return self._name

    def append(self, entries: Sequence[Entry]) -> int:
        """Write `entries` durably and atomically; return the offset of the last one. Raises StoreError."""
        self._check_open()
        first_offset, now_ms = self._next_offset, time.time_ns() // 1_000_000
        if not entries:
            return first_offset - 1
        try:
            data = encode_frame(
                [Record(first_offset + i, e.key, e.value, now_ms) for i, e in enumerate(entries)]
            )
        except UnicodeEncodeError as exc:
            raise StoreError(
                f"cannot write to the log {self._name!r}: a key is not valid text: {exc}"
            ) from exc
        try:
            _write_all(self._file, data, self._size)
            os.fsync(self._file)
        except OSError as exc:
            self._truncate_append(exc)
            raise StoreError(f"cannot write to the log {self._name!r} at {self._path}: {exc}") from exc
        with self._lock:
            self._add_index_entry(first_offset, self._size)
            self._size += len(data)
            self._next_offset = first_offset + len(entries)
        return first_offset + len(entries) - 1

    def read(self, start: int, limit: int, wait_s: float = 0.0) -> Sequence[Record]:
        """Return at most `limit` records with offset ≥ `start`; never waits. Raises StoreError."""
        del wait_s  # there is no other writer
        self._check_open()
        with self._lock:
            position, size, next_offset = self._find_position(start), self._size, self._next_offset
        records: list[Record] = []
        if limit <= 0 or start >= next_offset:
            return records
        try:
            while position < size and len(records) < limit:
                for frame in self._read_frames(position, size):
                    records.extend(r for r in frame.records if r.offset >= start)
                    if len(records) >= limit:
                        break
                    position = frame.end
        except (OSError, CorruptFile) as exc:
            raise StoreError(f"cannot read the log {self._name!r} at {self._path}: {exc}") from exc
        records = records[:limit]
        if records:
            with self._lock:
                self._tail = (records[-1].offset + 1, position)
        return records

    def end(self) -> int:
        """Return the offset of the next record."""
        self._check_open()
        with self._lock:
            return self._next_offset

    def claim(self) -> None:
        """No-op, because there is no other leader."""

    def close(self) -> None:
        """Close the file, so that other processes can open it."""
        if self._failure is None:
            self._failure = "it is closed"
            os.close(self._file)
            os.close(self._lock_file)

    def _check_open(self) -> None:
        if self._failure is not None:
            raise StoreError(f"the log {self._name!r} at {self._path} cannot be used: {self._failure}")

    def _truncate_append(self, cause: OSError) -> None:
        """Truncate a partial append, so that later appends follow valid data."""
        try:
            os.ftruncate(self._file, self._size)
        except OSError as exc:
            self._failure = f"{cause}; truncating the log then failed: {exc}"
            os.close(self._file)
            os.close(self._lock_file)

    def _open(self, compaction: Compaction, compact_from: int) -> int:
        if not self._path.exists():
            replace_file(self._path, encode_header(0))
        data = self._path.read_bytes()
        header_offset = decode_header(data)
        if header_offset is None:
            log.warning("The log %r at %s has an incomplete header; recreating it.", self._name, self._path)
            data = encode_header(0)
            replace_file(self._path, data)
            header_offset = 0
        frames = list(decode_frames(data[HEADER_SIZE:], HEADER_SIZE))
        end = frames[-1].end if frames else HEADER_SIZE
        if end < len(data):
            log.warning(
                "The log %r at %s ends with an incomplete write that was never acknowledged; truncating its last %d "
                "bytes, from byte %d on.",
                self._name,
                self._path,
                len(data) - end,
                end,
            )
            os.truncate(self._path, end)
        self._next_offset = max(header_offset, frames[-1].records[-1].offset + 1) if frames else header_offset
        frames, end = self._compact_frames(frames, end, compaction, compact_from)
        for frame in frames:
            self._add_index_entry(frame.records[0].offset, frame.begin)
        self._size = end
        file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        os.fsync(file)
        sync_directory(self._path.parent)
        return file

    def _compact_frames(
        self, frames: list[Frame], end: int, compaction: Compaction, compact_from: int
    ) -> tuple[list[Frame], int]:
        if end < compact_from:
            return frames, end
        records = compaction([r for frame in frames for r in frame.records])
        data = b"".join(
            encode_frame(records[i : i + _MAX_FRAME_RECORDS])
            for i in range(0, len(records), _MAX_FRAME_RECORDS)
        )
        if HEADER_SIZE + len(data) > end // 2:
            return frames, end
        replace_file(self._path, encode_header(self._next_offset) + data)
        return list(decode_frames(data, HEADER_SIZE)), HEADER_SIZE + len(data)

    def _add_index_entry(self, offset: int, position: int) -> None:
        if not self._index or position - self._index[-1][1] >= _INDEX_INTERVAL_BYTES:
            self._index.append((offset, position))

    def _find_position(self, start: int) -> int:
        """Return the position of a frame at or before the record at offset `start`."""
        if self._tail[0] == start:
            return self._tail[1]
        index = bisect.bisect_right(self._index, (start, self._size)) - 1
        return self._index[max(index, 0)][1] if self._index else HEADER_SIZE

    def _read_frames(self, position: int, size: int) -> list[Frame]:
        """Read at least one complete frame from `position`; skip an incomplete one at the end."""
        length = _INDEX_INTERVAL_BYTES
        while True:
            data = os.pread(self._file, min(length, size - position), position)
            frames = list(decode_frames(data, position))
            if frames:
                return frames
            if len(data) == size - position or not data:
                raise CorruptFile(f"no valid frame at byte {position}")
            length *= 4


def _write_all(file: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(file, view, position)
        view = view[count:]
        position += count


def _lock_exclusively(lock: Path, path: Path) -> int:
    file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        os.close(file)
        raise StoreError(f"the log at {path} is in use by another worker") from exc
    except BaseException:
        os.close(file)
        raise
    return file

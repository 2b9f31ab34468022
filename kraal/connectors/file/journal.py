"""The journal of a sink's file: the length of the file, and the append in progress, if any.

The journal is a file next to the target, `.NAME.kraal`. If the target's directory is not writable, the journal is an
extended attribute of the target, which every worker that appends can read. (Rejected: a private journal per worker. The
worker would truncate lines that other workers have appended since its last append.)
"""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_ENTRY_BYTES: Final = 128
_ATTRIBUTE: Final = "user.kraal.journal"
_NOT_WRITABLE_ERRNOS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@dataclass(frozen=True, slots=True)
class Entry:
    """The state of a target."""

    inode: int
    length: int
    """The length of the target after the last append, or before the append in progress."""
    append_size: int | None = None
    """Maximum number of bytes of the append in progress; None if no append is in progress."""
    is_shared: bool = False
    """Whether programs that do not acquire the lock have appended to the target."""


class Journal:
    """The journal of one target. Not thread-safe; callers must hold the target's lock."""

    def __init__(self, target: Path, target_fd: int) -> None:
        """Open or create the journal. Raises OSError with the reason if this is not possible."""
        self._path = target.parent / f".{target.name}.kraal"
        self.fd = self._open(target_fd)
        """The open file; None if the journal is an extended attribute of the target."""

    def _open(self, target_fd: int) -> int | None:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as exc:
            if exc.errno not in _NOT_WRITABLE_ERRNOS:
                raise
            error = exc
        if self._path.exists():
            text = f"this worker cannot write the journal {self._path}, which other workers use"
            raise OSError(error.errno, text) from error
        try:
            os.setxattr(target_fd, _ATTRIBUTE, b"")
        except OSError as exc:
            text = "the journal needs a writable directory, or a file system with extended attributes"
            raise OSError(error.errno, text) from exc
        return None

    def read(self, target_fd: int) -> Iterator[Entry]:
        """Yield the entries for this target; workers may have written to the file, the attribute, or both."""
        inode = os.fstat(target_fd).st_ino
        for raw in (
            _read_attribute(target_fd),
            b"" if self.fd is None else os.pread(self.fd, _ENTRY_BYTES, 0),
        ):
            entry = _parse_entry(raw)
            if entry is None and raw:
                log.warning("%s contains no valid journal entry; leaving the target unchanged", self._path)
            if entry is not None and entry.inode == inode:
                yield entry

    def write(self, target_fd: int, entry: Entry) -> None:
        """Replace all entries."""
        values: dict[str, int | bool] = {"inode": entry.inode, "length": entry.length}
        if entry.append_size is not None:
            values["bytes"] = entry.append_size
        if entry.is_shared:
            values["shared"] = True
        raw = json.dumps(values).encode().ljust(_ENTRY_BYTES)
        if self.fd is None:
            os.setxattr(target_fd, _ATTRIBUTE, raw)
            return
        os.pwrite(self.fd, raw, 0)
        if _read_attribute(target_fd):
            os.setxattr(target_fd, _ATTRIBUTE, b"")

    def close(self) -> None:
        """Close the journal; its file is kept for other tasks."""
        if self.fd is not None:
            os.close(self.fd)


def _read_attribute(target_fd: int) -> bytes:
    with suppress(OSError):  # the attribute does not exist, or the file system does not support attributes
        return os.getxattr(target_fd, _ATTRIBUTE)
    return b""


def _parse_entry(raw: bytes) -> Entry | None:
    try:
        values = json.loads(raw)
        append_size = values.get("bytes")
        return Entry(
            int(values["inode"]),
            int(values["length"]),
            None if append_size is None else int(append_size),
            is_shared=bool(values.get("shared")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None

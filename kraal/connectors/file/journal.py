"""The journal of a sink's file: how long the file is, and the append that is in progress, if any.

It is a file next to the target, `.NAME.kraal`. If the target's directory is not writable, it is an extended attribute
of the target, so that any worker that appends next finds it. A journal private to the worker would be wrong: its owner
would truncate what other workers have appended since.
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

_BYTES: Final = 128
_ATTRIBUTE: Final = "user.kraal.journal"
_NO_FILES: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@dataclass(frozen=True, slots=True)
class Entry:
    """The state of a target."""

    inode: int
    length: int
    """The length of the target after an append, or before the one in progress."""
    appending: int | None = None
    """Maximum number of bytes that the append in progress adds; None: none is in progress."""
    is_shared: bool = False
    """Whether programs that take no lock have appended too."""


class Journal:
    """The journal of one target. Calls follow one another; callers hold the target's lock."""

    def __init__(self, target: Path, target_fd: int) -> None:
        """Open the journal, or create it. Raises OSError with the reason if there can be none."""
        self._path = target.parent / f".{target.name}.kraal"
        self.fd = self._open(target_fd)
        """The open file; None: an attribute of the target."""

    def _open(self, target_fd: int) -> int | None:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as exc:
            if exc.errno not in _NO_FILES:
                raise
            why = exc
        if self._path.exists():
            text = f"other workers write the journal {self._path}, and this one may not"
            raise OSError(why.errno, text) from why
        try:
            os.setxattr(target_fd, _ATTRIBUTE, b"")
        except OSError as exc:
            text = "its directory takes no files of this worker, and its file system no extended attributes; one of "
            raise OSError(why.errno, f"{text}them has to keep the journal") from exc
        return None

    def read(self, target_fd: int) -> Iterator[Entry]:
        """Return the entries for this target; earlier versions and other workers may have left one in each place."""
        inode = os.fstat(target_fd).st_ino
        for raw in (_attribute(target_fd), b"" if self.fd is None else os.pread(self.fd, _BYTES, 0)):
            entry = _parse(raw)
            if entry is None and raw:
                log.warning("%s has no entry of Kraal; leaving the file unchanged", self._path)
            if entry is not None and entry.inode == inode:
                yield entry

    def write(self, target_fd: int, entry: Entry) -> None:
        """Replace all entries."""
        values: dict[str, int | bool] = {"inode": entry.inode, "length": entry.length}
        if entry.appending is not None:
            values["bytes"] = entry.appending
        if entry.is_shared:
            values["shared"] = True
        raw = json.dumps(values).encode().ljust(_BYTES)
        if self.fd is None:
            os.setxattr(target_fd, _ATTRIBUTE, raw)
            return
        os.pwrite(self.fd, raw, 0)
        if _attribute(target_fd):
            os.setxattr(target_fd, _ATTRIBUTE, b"")

    def close(self) -> None:
        """Close it; the file stays because other tasks use it too."""
        if self.fd is not None:
            os.close(self.fd)


def _attribute(target_fd: int) -> bytes:
    with suppress(OSError):  # the attribute does not exist, or the file system does not support attributes
        return os.getxattr(target_fd, _ATTRIBUTE)
    return b""


def _parse(raw: bytes) -> Entry | None:
    try:
        values = json.loads(raw)
        appending = values.get("bytes")
        return Entry(
            int(values["inode"]),
            int(values["length"]),
            None if appending is None else int(appending),
            is_shared=bool(values.get("shared")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None

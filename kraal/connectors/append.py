"""Appends to one file so that a killed worker leaves no half of a batch behind.

Beside the target lies a small journal, `.NAME.kraal`: before an append it gets the target's length and how many
bytes will come, after it it is emptied. Who takes the lock next and finds the journal filled knows that an append
was torn, by kill -9 or a full disk, and cuts the target back to the length before. The whole batch comes again,
because its offsets were not committed. A last line without an end that somebody else wrote is never touched,
for no journal speaks of it (rejected: cut off any last line without an end, which loses such a line).

Nothing is synced to disk: the journal holds against the death of processes, not of the machine.

The journal is also the lock (flock) of the tasks that share the target. The target is opened without O_APPEND,
for Linux refuses sendfile to such files; each append goes to the target's end as it is under the lock.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_COPY_BYTES: Final = 8 * 1024 * 1024
_JOURNAL_BYTES: Final = 128


def send_file(target: int, source: int) -> None:
    """Copy a whole file, inside the kernel, to where another open one stands, which has no O_APPEND."""
    offset = 0
    while sent := os.sendfile(target, source, offset, 2**30):
        offset += sent


class AppendTarget:
    """The file of a sink, by its path. Thread: any, one at a time; the lock is between objects."""

    def __init__(self, path: str, spare: str) -> None:
        """Create the file if need be. `spare` takes the journal where the file's directory takes no files.

        Raises OSError that names the path and the reason.
        """
        self._path = Path(path).absolute()
        with self._explained():
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._is_file = stat.S_ISREG(os.fstat(self._fd).st_mode)
        self.beside = self._path.parent
        if not self._is_file or not os.access(self.beside, os.W_OK):
            self.beside = Path(spare)
        with self._explained():
            self._journal = os.open(self._name_of_journal, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with self._locked():
            pass

    def append_files(self, parts: Sequence[Path]) -> None:
        """Append whole files, in their order."""
        total = sum(part.stat().st_size for part in parts)
        with self._appending(total):
            for part in parts:
                with part.open("rb") as source:
                    self._copy(source.fileno())

    def append_bytes(self, chunks: Iterator[memoryview], total: int) -> None:
        """Append chunks of `total` bytes or less."""
        with self._appending(total):
            for chunk in chunks:
                self._write(chunk)

    def close(self) -> None:
        """Close; the journal stays, for it is also the lock of other tasks."""
        os.close(self._fd)
        os.close(self._journal)

    def _copy(self, source: int) -> None:
        if not self._is_file:
            while data := os.read(source, _COPY_BYTES):
                self._write(memoryview(data))
            return
        send_file(self._fd, source)

    def _write(self, data: memoryview) -> None:
        while data:
            data = data[os.write(self._fd, data) :]

    @contextmanager
    def _appending(self, total: int) -> Iterator[None]:
        """Hold the lock and keep the journal while the body appends `total` bytes."""
        with self._explained(), self._locked():
            if not self._is_file:
                yield
                return
            self._reopen_if_replaced()
            start = os.lseek(self._fd, 0, os.SEEK_END)
            entry = {"inode": os.fstat(self._fd).st_ino, "length": start, "bytes": total}
            os.pwrite(self._journal, json.dumps(entry).encode().ljust(_JOURNAL_BYTES), 0)
            try:
                yield
            except BaseException:
                os.ftruncate(self._fd, start)
                os.ftruncate(self._journal, 0)
                raise
            os.ftruncate(self._journal, 0)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._journal, fcntl.LOCK_EX)
        try:
            self._repair()
            yield
        finally:
            fcntl.flock(self._journal, fcntl.LOCK_UN)

    def _repair(self) -> None:
        """Cut off a torn append, if the journal tells of one in this very file."""
        raw = os.pread(self._journal, _JOURNAL_BYTES, 0)
        if not raw:
            return
        found = os.fstat(self._fd)
        try:
            entry = json.loads(raw)
            inode, length, most = int(entry["inode"]), int(entry["length"]), int(entry["bytes"])
        except (ValueError, KeyError, TypeError):
            log.warning("%s holds no entry of ours; %s is left as it is", self._name_of_journal, self._path)
            inode, length, most = -1, 0, 0
        if inode == found.st_ino and length < found.st_size <= length + most:
            log.warning(
                "%s: an append was torn; %d bytes after byte %d are cut off and will come again",
                self._path, found.st_size - length, length,
            )  # fmt: skip
            os.ftruncate(self._fd, length)
        os.ftruncate(self._journal, 0)

    @property
    def _name_of_journal(self) -> Path:
        return self.beside / f".{self._path.name}.kraal"

    def _reopen_if_replaced(self) -> None:
        """Follow the path when its file was renamed or removed, as after a log rotation."""
        held = os.fstat(self._fd)
        try:
            found = self._path.stat()
        except FileNotFoundError:
            found = None
        if found is None or (found.st_ino, found.st_dev) != (held.st_ino, held.st_dev):
            log.info("%s was moved away; a new file is begun", self._path)
            os.close(self._fd)
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise OSError(exc.errno, f"cannot write to {self._path}: {exc.strerror or exc}") from exc

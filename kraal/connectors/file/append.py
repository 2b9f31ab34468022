"""Atomic appends to one file: part of a batch that a killed worker left behind is removed before the next append.

Before an append, the target's length and the number of bytes to append are written to the journal
(`kraal.connectors.file.journal`). After the append, the new length is written. If the journal still records an append
when the next process acquires the lock, the append was interrupted (by kill -9 or a full disk), and that process
truncates the target to its previous length. The whole batch is delivered again because its offsets were not committed.
An unterminated last line written by another program is kept because no journal records it. (Rejected: removing any
unterminated last line, which would lose data.)

Java tasks of the same sink also append to the target, without a lock. So the target is opened with O_APPEND and whole
lines are written with one call: the kernel does not interleave such writes. If the target is longer than its journal
states, it is *shared*. A shared target is never truncated, because that would remove lines written by other programs:
an interrupted append is kept and terminated with a newline.

There is no fsync: the journal protects against process crashes, not against machine crashes.

All tasks of Kraal that write to the target, on any worker, lock both the journal and the target (flock). Earlier
versions of Kraal lock only the journal. Waiting for a lock has a timeout because a frozen process keeps its locks.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kraal.connectors.file.journal import Entry, Journal
from kraal.plugins.api import RetriableError

log = logging.getLogger(__name__)

_COPY_BYTES: Final = 8 * 1024 * 1024
_OPEN_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
LOCK_TIMEOUT_S: Final = 30.0
"""Maximum time that an append waits for the locks of other tasks."""
_LOCK_POLL_INTERVAL_S: Final = 0.02


class AppendTarget:
    """The file of a sink, identified by its path. Not thread-safe; other instances are excluded by the lock."""

    def __init__(self, path: str, fallback_directory: str) -> None:
        """Open or create the file.

        `fallback_directory`: directory for staged files if the journal is not a file next to the target. Raises OSError
        with the path and the reason, and RetriableError if another task keeps the file locked.
        """
        self._path = Path(path).absolute()
        self._journal: Journal | None = None
        self._is_shared = False
        self._written_bytes = 0
        """Number of bytes written by the current append."""
        with self._explain_errors():
            self._fd = os.open(path, _OPEN_FLAGS, 0o666)
        try:
            with self._explain_errors():
                if stat.S_ISREG(os.fstat(self._fd).st_mode):
                    self._journal = Journal(self._path, self._fd)
                with self._hold_lock():
                    pass
            has_no_journal_file = self._journal is None or self._journal.fd is None
            self.staging_parent = Path(fallback_directory) if has_no_journal_file else self._path.parent
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """The file name without the directory."""
        return self._path.name

    def append_files(self, parts: Sequence[Path], check_owned: Callable[[], None] = lambda: None) -> None:
        """Append whole files in order. `check_owned` is called under the lock; if it raises, nothing is appended."""
        total = sum(part.stat().st_size for part in parts)
        with self._journaled_append(total, check_owned):
            for part in parts:
                with part.open("rb") as source:
                    self._copy(source.fileno())

    def append_bytes(
        self, chunks: Iterator[memoryview], total: int, check_owned: Callable[[], None] = lambda: None
    ) -> None:
        """Append chunks of whole lines, together at most `total` bytes. `check_owned`: see `append_files`."""
        with self._journaled_append(total, check_owned):
            for chunk in chunks:
                self._write(chunk)

    def close(self) -> None:
        """Close the file and its journal."""
        os.close(self._fd)
        if self._journal is not None:
            self._journal.close()

    def _copy(self, source_fd: int) -> None:
        size = os.fstat(source_fd).st_size
        if self._journal is None:
            while data := os.read(source_fd, _COPY_BYTES):
                self._write(memoryview(data))
        elif size:  # a single call, which the kernel does not interleave with others
            with mmap.mmap(source_fd, size, access=mmap.ACCESS_READ) as content, memoryview(content) as view:
                self._write(view)

    def _write(self, data: memoryview) -> None:
        position = 0
        while position < len(data):
            count = os.write(self._fd, data[position:] if position else data)
            self._written_bytes += count
            position += count

    @contextmanager
    def _journaled_append(self, total: int, check_owned: Callable[[], None]) -> Iterator[None]:
        """Hold the locks and update the journal around a body that appends up to `total` bytes."""
        with self._explain_errors(), self._hold_lock():
            check_owned()
            if self._journal is None:
                yield
                return
            status = os.fstat(self._fd)
            pending_entry = Entry(status.st_ino, status.st_size, total, is_shared=self._is_shared)
            self._journal.write(self._fd, pending_entry)
            self._written_bytes = 0
            try:
                yield
            except BaseException:
                self._undo(pending_entry, self._written_bytes)
                raise
            size = os.fstat(self._fd).st_size
            is_shared = pending_entry.is_shared or size != pending_entry.length + self._written_bytes
            self._journal.write(self._fd, Entry(pending_entry.inode, size, is_shared=is_shared))

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Lock the journal, then the target (all processes lock in this order), and undo an interrupted append."""
        deadline_s = time.monotonic() + LOCK_TIMEOUT_S
        journal_fd = None if self._journal is None else self._journal.fd
        try:
            if journal_fd is not None:
                self._lock(journal_fd, deadline_s)
            self._lock(self._fd, deadline_s)
            self._repair()
            while self._reopen_if_replaced():
                self._lock(self._fd, deadline_s)
                self._repair()
            yield
        finally:
            for fd in (self._fd, journal_fd):
                if fd is not None:
                    fcntl.flock(fd, fcntl.LOCK_UN)

    def _lock(self, fd: int, deadline_s: float) -> None:
        """Lock a file. Raises RetriableError on a timeout; the message names the process that holds the lock."""
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline_s:
                    reason = f"{_describe_lock_holder(fd)} has kept it locked for {LOCK_TIMEOUT_S:g} s"
                    raise RetriableError(f"cannot write to {self._path}: {reason}") from None
                time.sleep(_LOCK_POLL_INTERVAL_S)
            else:
                return

    def _repair(self) -> None:
        """Undo an interrupted append if the journal records one, and determine whether the file is shared."""
        self._is_shared = False
        if self._journal is None:
            return
        for entry in self._journal.read(self._fd):
            if entry.append_size is None:
                self._is_shared |= entry.is_shared or os.fstat(self._fd).st_size > entry.length
            else:
                self._undo(entry, entry.append_size)

    def _undo(self, entry: Entry, max_append_size: int) -> None:
        """Truncate an incomplete append; if the target was shared before the append, only terminate the last line.

        `max_append_size`: maximum size of the append in bytes.
        """
        assert self._journal is not None  # noqa: S101 - entries come from the journal
        size = os.fstat(self._fd).st_size
        self._is_shared = entry.is_shared or size > entry.length + max_append_size
        if size > entry.length and not self._is_shared:
            log.warning(
                "%s: Truncating an incomplete append of %d bytes after byte %d; the batch will be written again",
                self._path, size - entry.length, entry.length,
            )  # fmt: skip
            os.ftruncate(self._fd, entry.length)
        elif size > entry.length and entry.is_shared and not self._ends_with_newline():
            log.warning(
                "%s: Incomplete append after byte %d; keeping it because other programs append to the file. The batch "
                "will be written again",
                self._path, entry.length,
            )  # fmt: skip
            os.write(self._fd, b"\n")
        size = os.fstat(self._fd).st_size
        self._journal.write(self._fd, Entry(entry.inode, size, is_shared=self._is_shared))

    def _ends_with_newline(self) -> bool:
        """Return whether the last line is terminated; True if the file cannot be read."""
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
        return True

    def _reopen_if_replaced(self) -> bool:
        """Reopen the path if its file was renamed or removed, as in a log rotation; return whether it was reopened."""
        open_status = os.fstat(self._fd)
        try:
            path_status = self._path.stat()
        except FileNotFoundError:
            path_status = None
        if path_status is not None and (path_status.st_ino, path_status.st_dev) == (
            open_status.st_ino,
            open_status.st_dev,
        ):
            return False
        log.info("%s was renamed or removed; reopening the path", self._path)
        new_fd = os.open(self._path, _OPEN_FLAGS, 0o666)
        os.close(self._fd)
        self._fd = new_fd
        return True

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise OSError(exc.errno, f"cannot write to {self._path}: {exc.strerror or exc}") from exc


def _describe_lock_holder(fd: int) -> str:
    """Describe the process that has locked a file; the pid is available only for a process on this machine."""
    inode = os.fstat(fd).st_ino
    with suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            _, kind, *_, pid, file, _, _ = line.split()
            if kind == "FLOCK" and file.endswith(f":{inode}") and int(pid) > 0:
                return "another task of this worker" if int(pid) == os.getpid() else f"process {pid}"
    return "a process on another machine"

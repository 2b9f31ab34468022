"""Atomic appends to one file: a killed worker never leaves part of a batch behind.

Next to the target is a small journal, `.NAME.kraal`. Before an append it receives the target's length and the number
of bytes to append; afterwards it is emptied. The next process that takes the lock and finds a non-empty journal knows
that an append was interrupted, by kill -9 or a full disk, and truncates the target to its earlier length. The whole
batch is delivered again because its offsets were not committed. An unterminated last line that another program wrote
is never removed because no journal mentions it (rejected: remove any unterminated last line, which loses such lines).

Nothing is synced to disk: the journal protects against crashes of processes, not of the machine.

If the target's directory is not writable, the journal is an extended attribute of the target, so that any worker that
appends next finds it. A journal private to the worker would be wrong: its owner would truncate what other workers
have appended since.

The tasks that share the target, on any worker, lock it (flock), and also the journal, which earlier versions lock.
Waits for locks are limited because a frozen process keeps its locks. The target is opened without O_APPEND because
Linux refuses sendfile to such files; each append goes to the end that the target has under the lock.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kraal.plugins.api import RetriableError

log = logging.getLogger(__name__)

_COPY_BYTES: Final = 8 * 1024 * 1024
_JOURNAL_BYTES: Final = 128
_ATTRIBUTE: Final = "user.kraal.journal"
_NO_FILES: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
LOCK_TIMEOUT_S: Final = 30.0
"""Maximum time that an append waits for other tasks that share the file."""
_LOCK_POLL_INTERVAL_S: Final = 0.02


def send_file(target: int, source: int) -> None:
    """Copy a whole file inside the kernel to the current position of `target`, which is open without O_APPEND."""
    offset = 0
    while sent := os.sendfile(target, source, offset, 2**30):
        offset += sent


class AppendTarget:
    """The file of a sink, identified by path. Threads: any, one at a time; the lock excludes other objects."""

    def __init__(self, path: str, spare: str) -> None:
        """Open the file, or create it. `spare`: a directory for temporary files if the file's own is not writable.

        Raises OSError with the path and the reason, and RetriableError if another process keeps the file locked.
        """
        self._path = Path(path).absolute()
        self._journal: int | None = None
        with self._explain_errors():
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._is_file = stat.S_ISREG(os.fstat(self._fd).st_mode)
        try:
            with self._explain_errors():
                if self._is_file:
                    self._journal = self._open_journal()
                with self._hold_lock():
                    pass
            self.beside = Path(spare) if self._journal is None else self._path.parent
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """The name of the file."""
        return self._path.name

    def append_files(self, parts: Sequence[Path], check_owned: Callable[[], None] = lambda: None) -> None:
        """Append whole files in order, unless `check_owned`, called under the lock, raises."""
        total = sum(part.stat().st_size for part in parts)
        with self._appending(total, check_owned):
            for part in parts:
                with part.open("rb") as source:
                    self._copy(source.fileno())

    def append_bytes(
        self, chunks: Iterator[memoryview], total: int, check_owned: Callable[[], None] = lambda: None
    ) -> None:
        """Append chunks of at most `total` bytes; `check_owned` as in `append_files`."""
        with self._appending(total, check_owned):
            for chunk in chunks:
                self._write(chunk)

    def close(self) -> None:
        """Close the file; the journal stays because other tasks use it too."""
        os.close(self._fd)
        if self._journal is not None:
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

    def _open_journal(self) -> int | None:
        """Open the journal next to the target; None if that is impossible: an attribute of the target replaces it."""
        try:
            return os.open(self._name_of_journal, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as exc:
            if exc.errno not in _NO_FILES:
                raise
            why = exc
        if self._name_of_journal.exists():
            text = f"other workers write the journal {self._name_of_journal}, and this one may not"
            raise OSError(why.errno, text) from why
        try:
            os.setxattr(self._fd, _ATTRIBUTE, b"")
        except OSError as exc:
            text = "its directory takes no files of this worker, and its file system no extended attributes; one of "
            raise OSError(why.errno, f"{text}them has to keep the journal") from exc
        return None

    @contextmanager
    def _appending(self, total: int, check_owned: Callable[[], None]) -> Iterator[None]:
        """Hold the locks and maintain the journal while the body appends `total` bytes."""
        with self._explain_errors(), self._hold_lock():
            check_owned()
            if not self._is_file:
                yield
                return
            start = os.lseek(self._fd, 0, os.SEEK_END)
            entry = {"inode": os.fstat(self._fd).st_ino, "length": start, "bytes": total}
            self._note(json.dumps(entry).encode().ljust(_JOURNAL_BYTES))
            try:
                yield
            except BaseException:
                os.ftruncate(self._fd, start)
                self._note(b"")
                raise
            self._note(b"")

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Lock journal and target, in the order that all processes share; undo an interrupted append."""
        until_s = time.monotonic() + LOCK_TIMEOUT_S
        try:
            if self._journal is not None:
                self._lock(self._journal, until_s)
            self._lock(self._fd, until_s)
            self._repair()
            while self._reopen_if_replaced():
                self._lock(self._fd, until_s)
                self._repair()
            yield
        finally:
            for each in (self._fd, self._journal):
                if each is not None:
                    fcntl.flock(each, fcntl.LOCK_UN)

    def _lock(self, fd: int, until_s: float) -> None:
        """Lock a file. Raises RetriableError that names the process that keeps it locked."""
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until_s:
                    text = f"cannot write to {self._path}: {_holder(fd)} has kept it locked for {LOCK_TIMEOUT_S:g} s"
                    raise RetriableError(text) from None
                time.sleep(_LOCK_POLL_INTERVAL_S)
            else:
                return

    def _repair(self) -> None:
        """Truncate an interrupted append if a journal records one for this file."""
        if not self._is_file:
            return
        noted = self._noted_in_attribute(), b""
        if self._journal is not None:
            noted = noted[0], os.pread(self._journal, _JOURNAL_BYTES, 0)
        for raw in filter(None, noted):
            self._take_back(raw)
        if noted[0]:
            os.setxattr(self._fd, _ATTRIBUTE, b"")
        if noted[1] and self._journal is not None:
            os.ftruncate(self._journal, 0)

    def _take_back(self, raw: bytes) -> None:
        status = os.fstat(self._fd)
        try:
            entry = json.loads(raw)
            inode, length, most = int(entry["inode"]), int(entry["length"]), int(entry["bytes"])
        except (ValueError, KeyError, TypeError):
            log.warning("%s has no entry of Kraal; leaving %s unchanged", self._name_of_journal, self._path)
            return
        if inode == status.st_ino and length < status.st_size <= length + most:
            log.warning(
                "%s: Found an incomplete append; truncating %d bytes after byte %d, which will be written again",
                self._path, status.st_size - length, length,
            )  # fmt: skip
            os.ftruncate(self._fd, length)

    def _note(self, entry: bytes) -> None:
        """Write the journal; empty if no append is in progress."""
        if self._journal is None:
            os.setxattr(self._fd, _ATTRIBUTE, entry)
        elif entry:
            os.pwrite(self._journal, entry, 0)
        else:
            os.ftruncate(self._journal, 0)

    def _noted_in_attribute(self) -> bytes:
        """Return the journal of a worker that cannot write to the target's directory."""
        with suppress(
            OSError
        ):  # the attribute does not exist, or the file system does not support attributes
            return os.getxattr(self._fd, _ATTRIBUTE)
        return b""

    @property
    def _name_of_journal(self) -> Path:
        return self._path.parent / f".{self._path.name}.kraal"

    def _reopen_if_replaced(self) -> bool:
        """Reopen the path if its file was renamed or removed, as after a log rotation; return whether it was."""
        open_file = os.fstat(self._fd)
        try:
            present = self._path.stat()
        except FileNotFoundError:
            present = None
        if present is not None and (present.st_ino, present.st_dev) == (open_file.st_ino, open_file.st_dev):
            return False
        log.info("%s was moved away; starting a new file", self._path)
        new = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.close(self._fd)
        self._fd = new
        return True

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise OSError(exc.errno, f"cannot write to {self._path}: {exc.strerror or exc}") from exc


def _holder(fd: int) -> str:
    """Return the name of the process that has locked a file, if it runs on this machine."""
    inode = os.fstat(fd).st_ino
    with suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            _, kind, *_, process, file, _, _ = line.split()
            if kind == "FLOCK" and file.endswith(f":{inode}") and int(process) > 0:
                return "another task of this worker" if int(process) == os.getpid() else f"process {process}"
    return "a process that this machine does not know"

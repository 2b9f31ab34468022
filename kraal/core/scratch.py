"""Scratch directory of a process, and removal of those that dead processes left behind.

A directory belongs to a process as long as the process holds the lock on a file in it. The kernel releases the lock
when the process ends in any way, and children do not inherit it, so reused process ids cause no mistakes. Names tell
the owner: `kraal-<process id>-<start, seconds since the epoch>-…`.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path

from kraal.core.private_files import make_directory

log = logging.getLogger(__name__)

PREFIX = "kraal-"
LOCK = ".lock"
_STARTS = "starts"
_START_S = 600.0
"""A JVM that has not started by then never will."""


class Scratch:
    """Directory of one process; created at its start, removed at its end or later."""

    def __init__(self, parent: Path) -> None:
        """Remove directories of dead processes in `parent`, and create one there. Raises OSError."""
        parent = parent.absolute()  # what is configured with the path may have another working directory
        make_directory(parent)
        remove_abandoned(parent)
        prefix = f"{PREFIX}{os.getpid()}-{int(time.time())}-"
        # Use another name until it is locked: a visible directory without a lock counts as abandoned.
        temporary = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=parent))
        self._lock = os.open(temporary / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = temporary.with_name(temporary.name.removeprefix("."))
        temporary.rename(self.path)

    def close(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def starts_directory(scratch: Path) -> Path:
    """Return the directory for files that a JVM reads and writes while it starts.

    A JVM whose worker is killed meanwhile ends only once it has written there. So these files are removed by age.
    """
    return scratch / _STARTS


def remove_old_starts(scratch: Path) -> bool:
    """Remove the files of JVMs that no longer start; return whether one may still be starting."""
    young = False
    for path in starts_directory(scratch).glob("*"):
        if path.stat().st_mtime > time.time() - _START_S:
            young = True
        else:
            shutil.rmtree(path, ignore_errors=True)
    return young


def remove_abandoned(parent: Path) -> list[Path]:
    """Remove and return the directories of processes that have ended; skip those that cannot be removed.

    Those where a JVM may still be starting stay.
    """
    removed: list[Path] = []
    for path in sorted(parent.glob(f"{PREFIX}*")):
        try:
            lock = os.open(path / LOCK, os.O_RDWR)
        except OSError:  # not one of these directories, owned by another user, or being removed
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if remove_old_starts(path):
                log.info("Keeping %s because a JVM of a dead worker may still be starting there", path)
                continue
            shutil.rmtree(path)
        except BlockingIOError:
            log.debug("Keeping %s because its process is alive", path)
        except OSError as error:
            log.warning("Failed to remove %s of a dead worker: %s", path, error)
        else:
            log.info("Removed %s of a dead worker", path)
            removed.append(path)
        finally:
            os.close(lock)
    return removed

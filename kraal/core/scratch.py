"""The scratch directory of a process, and removal of directories of dead processes.

A directory belongs to the process that holds the lock on a file in it. The kernel releases the lock when the process
ends for any reason, and children do not inherit it, so the check is safe even if process ids are reused. The name
of the directory contains the owner: `kraal-<process id>-<start, seconds since the epoch>-…`.
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
_JVM_START_TIMEOUT_S = 600.0
"""Time after which a JVM that has not started is assumed to be dead."""


class Scratch:
    """The scratch directory of a process; removed when the process ends, or later by another process."""

    def __init__(self, parent: Path) -> None:
        """Remove the directories of dead processes in `parent`, and create a new one. Raises OSError."""
        parent = parent.absolute()  # other processes that use the path may have another working directory
        make_directory(parent)
        remove_abandoned(parent)
        prefix = f"{PREFIX}{os.getpid()}-{int(time.time())}-"
        # Use a hidden name until the lock is held, because a directory whose lock is free is considered abandoned.
        hidden_path = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=parent))
        self._lock = os.open(hidden_path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = hidden_path.with_name(hidden_path.name.removeprefix("."))
        hidden_path.rename(self.path)

    def close(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def starts_directory(scratch: Path) -> Path:
    """Return the directory for files that a JVM reads and writes during startup.

    A JVM whose worker is killed during startup exits only after it has written these files. The files are therefore
    removed by age.
    """
    return scratch / _STARTS


def remove_old_starts(scratch: Path) -> bool:
    """Remove the startup files of dead JVMs; return whether a JVM may still be starting."""
    may_be_starting = False
    for path in starts_directory(scratch).glob("*"):
        if path.stat().st_mtime > time.time() - _JVM_START_TIMEOUT_S:
            may_be_starting = True
        else:
            shutil.rmtree(path, ignore_errors=True)
    return may_be_starting


def remove_abandoned(parent: Path) -> list[Path]:
    """Remove the directories of dead processes; return the removed directories.

    Skips directories that cannot be removed, and directories in which a JVM may still be starting.
    """
    removed_paths: list[Path] = []
    for path in sorted(parent.glob(f"{PREFIX}*")):
        try:
            lock = os.open(path / LOCK, os.O_RDWR)
        except OSError:  # not a scratch directory, owned by another user, or being removed
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if remove_old_starts(path):
                log.info(
                    "Keeping scratch directory %s because a JVM of a dead worker may still be starting", path
                )
                continue
            shutil.rmtree(path)
        except BlockingIOError:
            log.debug("Keeping scratch directory %s because its process is alive", path)
        except OSError as error:
            log.warning("Failed to remove scratch directory %s of a dead worker: %s", path, error)
        else:
            log.info("Removed scratch directory %s of a dead worker", path)
            removed_paths.append(path)
        finally:
            os.close(lock)
    return removed_paths

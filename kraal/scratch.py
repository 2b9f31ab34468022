"""A process's own scratch directory, and the end of those that dead processes left behind.

A directory belongs to a process as long as that holds the lock on a file in it. The kernel lets go of the lock when
the process ends, however it ends, and no child inherits it; so no count of process ids can be mistaken. Names say
whose a directory was: `kraal-<process id>-<start, seconds since the epoch>-…`.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path

log = logging.getLogger(__name__)

PREFIX = "kraal-"
LOCK = ".lock"


class Scratch:
    """One process's directory; made with the process, removed with it or after it."""

    def __init__(self, parent: Path) -> None:
        """Remove what dead processes left in `parent`, and make a directory there. Raises OSError."""
        parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(parent)
        prefix = f"{PREFIX}{os.getpid()}-{int(time.time())}-"
        # Under another name until it is locked: a directory that can be seen and is not locked is abandoned.
        made = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=parent))
        self._lock = os.open(made / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = made.with_name(made.name.removeprefix("."))
        made.rename(self.path)

    def close(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned(parent: Path) -> list[Path]:
    """Remove the directories of processes that have ended; return them. What cannot be removed stays."""
    removed: list[Path] = []
    for path in sorted(parent.glob(f"{PREFIX}*")):
        try:
            lock = os.open(path / LOCK, os.O_RDWR)
        except OSError:  # not a directory of ours, or somebody else's, or just being removed
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
        except BlockingIOError:
            log.debug("%s belongs to a process that lives", path)
        except OSError as error:
            log.warning("cannot remove %s, which a dead worker left: %s", path, error)
        else:
            log.info("removed %s, which a dead worker left", path)
            removed.append(path)
        finally:
            os.close(lock)
    return removed

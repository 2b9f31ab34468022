"""The workers' disk: a small file system of its own, in memory, that can be filled or made read-only.

With the right to mount (root, as a rule) it is a tmpfs, which holds the workers' scratch directories and the sinks'
files: it is filled by one file that takes what is left. Read-only is the data directory of one worker, by a bind mount
over itself: what is open already can be written to, and nothing new can be made, as after a fault of the medium.
Without that right it is an ordinary directory: read-only is done by chmod, and full is left out.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

SIZE_MIB: Final = 512
"""Enough for what an hour's pipes write, and for Spark's own files."""
_FILL: Final = "fill"
_PIECE: Final = 1024 * 1024
_READ_ONLY: Final = 0o555


class Disk:
    """The directory, from `open` to `close`. One thread."""

    def __init__(self, directory: Path) -> None:
        """Describe it; nothing is made."""
        self.path = directory
        self.mounted = False
        self._over: list[Path] = []

    def open(self) -> None:
        """Make it, and mount it if that may be done."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.mounted = _did("mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", str(self.path))

    def fill(self) -> Callable[[], None] | None:
        """Take all space there is; return what gives it back, or None when it cannot be done here."""
        if not self.mounted:
            return None
        file = self.path / _FILL
        try:
            with file.open("wb", buffering=0) as out:
                while out.write(bytes(_PIECE)):
                    pass
        except OSError as exc:
            if exc.errno != errno.ENOSPC:
                raise
        return lambda: file.unlink(missing_ok=True)

    def protect(self, directory: Path) -> Callable[[], None] | None:
        """Let nothing new be written below a directory; return what undoes it, or None when it cannot be done here."""
        if self.mounted:
            where = str(directory)
            if not _did("mount", "--bind", where, where):
                return None
            self._over.append(directory)
            if _did("mount", "-o", "remount,bind,ro", where):
                return lambda: self._unprotect(directory)
            self._unprotect(directory)
            return None
        if os.geteuid() == 0:
            return None  # modes bind everybody but root
        modes = {path: path.stat().st_mode for path in (directory, *directory.rglob("*")) if path.is_dir()}
        for path in modes:
            path.chmod(_READ_ONLY)
        return lambda: _restore(modes)

    def close(self) -> None:
        """Unmount all, also while something there is open; its files stay, in an ordinary directory."""
        for directory in list(self._over):
            self._unprotect(directory)
        if self.mounted:
            kept = self.path.with_name(f"{self.path.name}.kept")
            with suppress(OSError, shutil.Error):  # sockets, and what has just gone
                shutil.copytree(self.path, kept, symlinks=True, ignore=shutil.ignore_patterns(_FILL))
            self.mounted = not _did("umount", "-l", str(self.path))
            if not self.mounted and kept.exists():
                shutil.rmtree(self.path)
                kept.rename(self.path)

    def _unprotect(self, directory: Path) -> None:
        _did("umount", "-l", str(directory))
        self._over.remove(directory)


def _did(*command: str) -> bool:
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


def _restore(modes: dict[Path, int]) -> None:
    for path, mode in modes.items():
        with suppress(FileNotFoundError):
            path.chmod(mode)

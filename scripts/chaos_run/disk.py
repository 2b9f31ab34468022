"""The workers' disk: a small in-memory file system that can be filled or made read-only.

With the privilege to mount (usually root), the disk is a tmpfs that contains the workers' scratch directories and the
sinks' files. A large file fills the disk. A worker's data directory is made read-only by a bind mount over itself: open
files can still be written, but no files can be created, as after a media error. Without the privilege, the disk is an
ordinary directory, which cannot be filled; chmod makes a worker's data directory read-only.
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
"""Size of the disk, which suffices for the output of the pipes in an hour and for Spark's own files."""
_FILL_FILE: Final = "fill"
_CHUNK: Final = 1024 * 1024
_READ_ONLY: Final = 0o555


class Disk:
    """The workers' disk, which is mounted from `open` to `close`. Not thread-safe."""

    def __init__(self, directory: Path) -> None:
        """Create the object; `open` creates the directory."""
        self.path = directory
        self.is_mounted = False
        self._protected: list[Path] = []

    def open(self) -> None:
        """Create the directory, and mount it if permitted."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.is_mounted = _run_command(
            "mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", str(self.path)
        )

    def fill(self) -> Callable[[], None] | None:
        """Use up all free space; return a function that frees the space, or None if the disk is not mounted."""
        if not self.is_mounted:
            return None
        file = self.path / _FILL_FILE
        try:
            with file.open("wb", buffering=0) as out:
                while out.write(bytes(_CHUNK)):
                    pass
        except OSError as exc:
            if exc.errno != errno.ENOSPC:
                raise
        return lambda: file.unlink(missing_ok=True)

    def protect(self, directory: Path) -> Callable[[], None] | None:
        """Make a directory read-only; return a function that undoes this, or None if this is impossible."""
        if self.is_mounted:
            path_name = str(directory)
            if not _run_command("mount", "--bind", path_name, path_name):
                return None
            self._protected.append(directory)
            if _run_command("mount", "-o", "remount,bind,ro", path_name):
                return lambda: self._unprotect(directory)
            self._unprotect(directory)
            return None
        if os.geteuid() == 0:
            return None  # root ignores file modes
        modes = {path: path.stat().st_mode for path in (directory, *directory.rglob("*")) if path.is_dir()}
        for path in modes:
            path.chmod(_READ_ONLY)
        return lambda: _restore(modes)

    def close(self) -> None:
        """Unmount the disk, even with open files; keep its files in an ordinary directory."""
        for directory in list(self._protected):
            self._unprotect(directory)
        if self.is_mounted:
            copy = self.path.with_name(f"{self.path.name}.kept")
            # copytree raises errors for sockets and for files that are deleted during the copy.
            with suppress(OSError, shutil.Error):
                shutil.copytree(self.path, copy, symlinks=True, ignore=shutil.ignore_patterns(_FILL_FILE))
            self.is_mounted = not _run_command("umount", "-l", str(self.path))
            if not self.is_mounted and copy.exists():
                shutil.rmtree(self.path)
                copy.rename(self.path)

    def _unprotect(self, directory: Path) -> None:
        _run_command("umount", "-l", str(directory))
        self._protected.remove(directory)


def _run_command(*command: str) -> bool:
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


def _restore(modes: dict[Path, int]) -> None:
    for path, mode in modes.items():
        with suppress(FileNotFoundError):
            path.chmod(mode)

"""Atomic file replacement: readers see either the old or the new content, even after a power failure."""

from __future__ import annotations

import os
from pathlib import Path

from kraal.core.private_files import private_opener


def replace_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write `data` to a temporary file next to `path`, sync it, and rename it to `path`.

    `durable`: also sync the directory; otherwise, a power failure may restore the old content. Keeps the mode of an
    existing file; only this user can access a new file. Follows symbolic links. Raises OSError; `path` is then
    unchanged, unless only syncing the directory failed.
    """
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        temporary.unlink(missing_ok=True)  # left over from a killed process
        with open(temporary, "xb", opener=private_opener) as file:
            if path.exists():
                os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames in a directory durable."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

"""Files that are replaced whole: a reader sees the old content or the new, also after a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` beside `path`, sync it, and put it in its place. Keeps the mode of an existing file.

    A symbolic link stays one: its target is replaced. Raises OSError, and `path` is as it was.
    """
    path = path.resolve()
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with fresh.open("wb") as file:
            if path.exists():
                os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames in a directory durable."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

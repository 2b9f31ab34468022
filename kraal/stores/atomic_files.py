"""Atomic file replacement: a reader sees either the old or the new content, also after a power cut."""

from __future__ import annotations

import os
from pathlib import Path

from kraal.core.private_files import private_opener


def replace_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write `data` to a file next to `path`, sync it, and move it into place.

    Without `durable`, which costs a sync of the directory, a power cut may bring back the old content. Keeps the mode
    of an existing file; only this user can access a new one. For a symbolic link, replaces its target. Raises OSError,
    and `path` is unchanged.
    """
    path = path.resolve()
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        fresh.unlink(missing_ok=True)  # remains of a killed process
        with open(fresh, "xb", opener=private_opener) as file:
            if path.exists():
                os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
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

"""Creation of files and directories with restricted modes, and detection of paths that other users can access.

Modes are set at creation, because other users could open a file before its mode is changed. A directory with mode 0700
protects everything below it. Existing paths keep their mode; `find_readable` and `find_writable` report paths that
others can access.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
SHARED_DIRECTORY: Final = 0o755
SHARED_FILE: Final = 0o644
"""Mode of files that others can read but not write."""

_GROUP_OR_OTHERS: Final = 0o077
_WRITABLE_BY_OTHERS: Final = 0o022


def make_directory(path: Path, mode: int = DIRECTORY_MODE) -> None:
    """Create a directory and its missing parents; an existing directory keeps its mode. Raises OSError."""
    if not path.is_dir():
        make_directory(path.parent, mode)
        path.mkdir(mode=mode, exist_ok=True)


def private_opener(path: str, flags: int) -> int:
    """Open a file as the `opener` of the built-in `open`; only this user can access a new file."""
    return os.open(path, flags, FILE_MODE)


def shared_opener(path: str, flags: int) -> int:
    """Open a file as the `opener` of the built-in `open`; a new file has mode 0644, subject to the umask."""
    return os.open(path, flags, SHARED_FILE)


def write_private_text(path: Path, text: str) -> None:
    """Write a UTF-8 file; only this user can access a new file. Raises OSError."""
    with open(path, "w", encoding="utf-8", opener=private_opener) as file:
        file.write(text)


def find_readable(paths: Iterable[Path]) -> list[str]:
    """Return a warning for each path that other users can access, and for accessible files in such directories."""
    problems = []
    for path in paths:
        mode = _read_mode(path)
        if mode is None or not mode & _GROUP_OR_OTHERS:
            continue
        is_directory = stat.S_ISDIR(mode)
        fix = f"chmod {DIRECTORY_MODE if is_directory else FILE_MODE:o} {path}"
        problems.append(
            f"Other users have access to the {'directory' if is_directory else 'file'} {path} (mode "
            f"{stat.S_IMODE(mode):04o}), where the worker keeps configs, offsets and records; run: {fix}"
        )
        if is_directory:
            problems += find_readable(
                sorted(entry for entry in _list_directory(path) if not entry.is_symlink() and entry.is_file())
            )
    return problems


def find_writable(paths: Iterable[Path]) -> list[str]:
    """Return a warning for each path that other users can write to, which allows them to run code as this user."""
    problems = []
    for path in dict.fromkeys(paths):
        mode = _read_mode(path)
        if (
            mode is not None
            and mode & _WRITABLE_BY_OTHERS
            and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX)
        ):
            problems.append(
                f"Other users can change {path} (mode {stat.S_IMODE(mode):04o}), from which the worker loads code; "
                f"run: chmod go-w {path}"
            )
    return problems


def _read_mode(path: Path) -> int | None:
    """Return the mode; None if the path is not accessible."""
    try:
        return path.stat().st_mode
    except OSError:
        return None


def _list_directory(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError:
        return []

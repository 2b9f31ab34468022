"""Files and directories that other users of the machine cannot read from the moment of creation.

Modes are set at creation, whatever the umask: changing them afterwards would leave a moment in which others can open
the file. A directory with mode 0700 protects everything below it. Existing paths keep their mode; `readable` and
`changeable` report what others can access.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

DIRECTORY: Final = 0o700
FILE: Final = 0o600
SHARED_DIRECTORY: Final = 0o755
SHARED_FILE: Final = 0o644
"""Mode of files that others can read but not write."""

_GROUP_AND_OTHERS: Final = 0o077
_THEIR_WRITES: Final = 0o022


def make_directory(path: Path, mode: int = DIRECTORY) -> None:
    """Create a directory and missing parents; an existing one keeps its mode. Raises OSError."""
    if not path.is_dir():
        make_directory(path.parent, mode)
        path.mkdir(mode=mode, exist_ok=True)


def private_opener(path: str, flags: int) -> int:
    """Opener for `open`: a new file is accessible only to this user."""
    return os.open(path, flags, FILE)


def shared_opener(path: str, flags: int) -> int:
    """Opener for `open`: a new file is readable by others."""
    return os.open(path, flags, SHARED_FILE)


def write_private_text(path: Path, text: str) -> None:
    """Write a UTF-8 file; a new one is accessible only to this user. Raises OSError."""
    with open(path, "w", encoding="utf-8", opener=private_opener) as file:
        file.write(text)


def readable(paths: Iterable[Path]) -> list[str]:
    """Return a sentence for each path, including entries of directories, that other users can read."""
    problems = []
    for path in paths:
        mode = _mode(path)
        if mode is None or not mode & _GROUP_AND_OTHERS:
            continue
        directory = stat.S_ISDIR(mode)
        fix = f"chmod {DIRECTORY if directory else FILE:o} {path}"
        problems.append(
            f"Other users have access to the {'directory' if directory else 'file'} {path} (mode "
            f"{stat.S_IMODE(mode):04o}), where the worker keeps configs, offsets and records; run: {fix}"
        )
        if directory:
            problems += readable(
                sorted(each for each in _entries(path) if not each.is_symlink() and each.is_file())
            )
    return problems


def changeable(paths: Iterable[Path]) -> list[str]:
    """Return a sentence for each path that other users can change, and so run code as this user."""
    problems = []
    for path in dict.fromkeys(paths):
        mode = _mode(path)
        if mode is not None and mode & _THEIR_WRITES and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
            problems.append(
                f"Other users can change {path} (mode {stat.S_IMODE(mode):04o}), from which the worker loads code; "
                f"run: chmod go-w {path}"
            )
    return problems


def _mode(path: Path) -> int | None:
    """Return the mode; None if the path does not exist."""
    try:
        return path.stat().st_mode
    except OSError:
        return None


def _entries(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError:
        return []

"""Data captured from Java Connect in `tests/golden`, with one directory per version."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kraal.core.connect_version import CONNECT_VERSION

GOLDEN: Final = Path(__file__).parent / "golden"


def current(family: str, file: str = "") -> Path:
    """Return a file of the version that Kraal implements, or the directory of its files."""
    return GOLDEN / family / CONNECT_VERSION / file


def different(family: str, file: str) -> dict[str, Path]:
    """Return the file of each version, starting with the current one, without those identical to it."""
    newest = current(family, file)
    older = sorted((GOLDEN / family).glob(f"*/{file}"), reverse=True)
    differing = [path for path in older if path != newest and path.read_bytes() != newest.read_bytes()]
    return {path.parent.name: path for path in (newest, *differing)}

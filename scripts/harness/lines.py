"""Files of numbered lines that have the same length."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

LINE_BYTES = 84
"""Bytes of a line without its line feed."""

LINE_BYTES_ON_DISK = LINE_BYTES + 1
"""Bytes of a line with its line feed."""
_LINES_PER_BLOCK = 10_000
_DIGITS = 10
_TEXT = """acacia baobab calf drover eland fence grass herd ibex jackal kraal lamb meadow nanny ox pasture
quagga ram sheep thorn udder veld water yearling zebra"""
_WORDS = _TEXT.split()


def write_lines(path: Path, count: int, first: int = 0) -> None:
    """Write `count` distinct lines of `LINE_BYTES` bytes, numbered from `first`, to a new file."""
    texts = [_make_text(number) for number in range(1009)]  # a prime, so that blocks differ
    with path.open("w", encoding="ascii", newline="\n") as file:
        for start in range(first, first + count, _LINES_PER_BLOCK):
            numbers = range(start, min(start + _LINES_PER_BLOCK, first + count))
            file.write("".join(f"{n:0{_DIGITS}d} {texts[n % 1009]}\n" for n in numbers))


def parse_number(line: bytes) -> int:
    """Return the number of a line written by `write_lines`."""
    return int(line[:_DIGITS])


def count_lines(path: Path) -> int:
    """Return the number of line feeds in a file."""
    return sum(block.count(b"\n") for block in _read_blocks(path))


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    digest = hashlib.sha256()
    for block in _read_blocks(path):
        digest.update(block)
    return digest.hexdigest()


def size(path: Path) -> int:
    """Return the size of a file in bytes, or 0 if it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _make_text(number: int) -> str:
    words = (_WORDS[(number * 7 + index * index * 13 + number * index) % len(_WORDS)] for index in range(40))
    return " ".join(words)[: LINE_BYTES - _DIGITS - 1].rstrip().ljust(LINE_BYTES - _DIGITS - 1, ".")


def _read_blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block

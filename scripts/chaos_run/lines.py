"""Numbered lines with checksums, and checks of their delivery. Pure."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_DIGITS: Final = 10
_PADDING: Final = "." * 50


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery of the lines of one pipe."""

    written_count: int
    delivered_count: int
    """Number of delivered lines, including duplicates."""
    missing_count: int
    first_missing: int | None
    unknown_count: int
    """Number of lines that were never written: torn lines, damaged lines, and lines of other pipes."""
    unknown_example: bytes
    """The first unknown line, possibly truncated; empty if there is none."""
    decrease_count: int
    """Number of lines whose number is not higher than that of the previous line. A batch written twice counts once."""

    @property
    def duplicate_count(self) -> int:
        """Number of duplicate lines."""
        return self.delivered_count - (self.written_count - self.missing_count) - self.unknown_count


def make_line(pipe: str, number: int) -> bytes:
    """Return the unique line of this number, with its line feed."""
    text = f"{pipe} {number:0{_DIGITS}d}"
    return f"{text} {zlib.crc32(text.encode()):08x} {_PADDING}\n".encode()


def parse_number(pipe: str, text: bytes) -> int | None:
    """Return the number of a line without its line feed; None if the text is not exactly a line of this pipe."""
    parts = text.split(b" ")
    if len(parts) < 2 or not parts[1].isdigit():  # noqa: PLR2004 - the pipe and its number
        return None
    number = int(parts[1])
    return number if make_line(pipe, number) == text + b"\n" else None


def check_delivery(pipe: str, written: int, texts: Iterable[bytes]) -> Delivery:
    """Check the delivery of lines 0 to `written` - 1 of a pipe; `texts` must be lines without line feeds."""
    numbers, unknown_count, example = list[int](), 0, b""
    for text in texts:
        number = parse_number(pipe, text)
        if number is None or number >= written:
            unknown_count, example = unknown_count + 1, example or text[:200]
        else:
            numbers.append(number)
    distinct = set(numbers)
    missing_count = written - len(distinct)
    return Delivery(
        written_count=written,
        delivered_count=len(numbers) + unknown_count,
        missing_count=missing_count,
        first_missing=next((n for n in range(written) if n not in distinct), None) if missing_count else None,
        unknown_count=unknown_count,
        unknown_example=example,
        decrease_count=sum(later <= earlier for earlier, later in itertools.pairwise(numbers)),
    )


def find_out_of_order(pipe: str, texts: Iterable[bytes]) -> int | None:
    """Return the first number that does not follow all lower ones; None if all lines are in order.

    `texts` must be the lines of one partition. A task writes one batch at a time and retries a failed batch as a whole.
    Therefore all numbers appear in order, even if parts of batches are repeated.
    """
    numbers = [number for text in texts if (number := parse_number(pipe, text)) is not None]
    expected = sorted(set(numbers))
    matched_count = 0
    for number in numbers:
        if matched_count < len(expected) and number == expected[matched_count]:
            matched_count += 1
    return expected[matched_count] if matched_count < len(expected) else None

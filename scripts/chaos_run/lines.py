"""Numbered lines with checksums, and what became of them on their way. Pure."""

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
    """How the lines of one pipe came out."""

    written: int
    came: int
    """With repetitions."""
    missing: int
    first_missing: int | None
    strange: int
    """Lines that were never written: torn, damaged, or of another pipe."""
    an_example: bytes
    """One of these."""
    stretches: int
    """How often the numbers went back: a batch that is written twice is one stretch, whatever its size."""

    @property
    def repeated(self) -> int:
        """How many lines came once more than they were written."""
        return self.came - (self.written - self.missing) - self.strange


def line(pipe: str, number: int) -> bytes:
    """Return the line of this number, with its end; no two are alike."""
    text = f"{pipe} {number:0{_DIGITS}d}"
    return f"{text} {zlib.crc32(text.encode()):08x} {_PADDING}\n".encode()


def parse_number(pipe: str, text: bytes) -> int | None:
    """Return the number of a line without its end; None when it is none of this pipe's, to the last byte."""
    parts = text.split(b" ")
    if len(parts) < 2 or not parts[1].isdigit():  # noqa: PLR2004 - the pipe and its number
        return None
    number = int(parts[1])
    return number if line(pipe, number) == text + b"\n" else None


def judge(pipe: str, written: int, texts: Iterable[bytes]) -> Delivery:
    """Say how lines 0 to `written` - 1 of a pipe came out; `texts` are lines without their ends."""
    numbers, strange, example = list[int](), 0, b""
    for text in texts:
        number = parse_number(pipe, text)
        if number is None or number >= written:
            strange, example = strange + 1, example or text[:200]
        else:
            numbers.append(number)
    there = set(numbers)
    missing = written - len(there)
    return Delivery(
        written=written,
        came=len(numbers) + strange,
        missing=missing,
        first_missing=next((n for n in range(written) if n not in there), None) if missing else None,
        strange=strange,
        an_example=example,
        stretches=sum(later <= former for former, later in itertools.pairwise(numbers)),
    )


def out_of_order(pipe: str, texts: Iterable[bytes]) -> int | None:
    """Return the first number that does not follow all lower ones; None if all lines are in order.

    `texts` are the lines of one partition. A task writes a batch, waits for it, and repeats it as a whole if that
    failed; so whatever is repeated, in pieces too, all numbers can be read in their order from front to back.
    """
    numbers = [number for text in texts if (number := parse_number(pipe, text)) is not None]
    expected = sorted(set(numbers))
    matched = 0
    for number in numbers:
        if matched < len(expected) and number == expected[matched]:
            matched += 1
    return expected[matched] if matched < len(expected) else None

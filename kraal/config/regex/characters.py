"""Sets of characters and their syntax in Python's `re`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

from typing_extensions import override

_UPPER: Final = range(ord("A"), ord("Z") + 1)
_LOWER: Final = range(ord("a"), ord("z") + 1)
_TO_LOWER: Final = ord("a") - ord("A")


@dataclass(frozen=True, slots=True)
class Characters:
    """An immutable set of characters: ascending, inclusive, non-adjacent ranges of code points."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, *ranges: tuple[int, int]) -> Self:
        """Return the set of characters in `ranges`, which may overlap and be in any order."""
        return cls(tuple(_merge(ranges)))

    def __or__(self, other: Self) -> Self:
        """Return the union."""
        return self.of(*self.ranges, *other.ranges)

    def __invert__(self) -> Self:
        """Return the complement."""
        starts = (0, *(last + 1 for _, last in self.ranges))
        ends = (*(first - 1 for first, _ in self.ranges), sys.maxunicode)
        return type(self)(
            tuple((first, last) for first, last in zip(starts, ends, strict=True) if first <= last)
        )

    def __and__(self, other: Self) -> Self:
        """Return the intersection."""
        return ~(~self | ~other)

    def ignoring_case(self) -> Self:
        """Return the set with both cases of its ASCII letters, like CASE_INSENSITIVE without UNICODE_CASE."""
        lower, upper = self.of((_LOWER[0], _LOWER[-1])), self.of((_UPPER[0], _UPPER[-1]))
        lower_ranges = ((first + _TO_LOWER, last + _TO_LOWER) for first, last in (self & upper).ranges)
        upper_ranges = ((first - _TO_LOWER, last - _TO_LOWER) for first, last in (self & lower).ranges)
        return self.of(*self.ranges, *lower_ranges, *upper_ranges)

    @override
    def __str__(self) -> str:
        """Return the set in Python's syntax, as an expression that can be followed by a quantifier."""
        if len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1]:
            return re.escape(chr(self.ranges[0][0]))
        is_complement = bool(self.ranges) and self.ranges[-1][1] == sys.maxunicode and self.ranges[0][0] > 0
        ranges = (~self).ranges if is_complement or not self.ranges else self.ranges
        return f"[{'^' if is_complement or not self.ranges else ''}{''.join(map(_format_range, ranges))}]"


def one_character(code: int) -> Characters:
    """Return the set of one code point."""
    return Characters(((code, code),))


def _merge(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    pending_range: tuple[int, int] | None = None
    for first, last in sorted(ranges):
        if pending_range is None:
            pending_range = (first, last)
        elif first <= pending_range[1] + 1:
            pending_range = (pending_range[0], max(pending_range[1], last))
        else:
            yield pending_range
            pending_range = (first, last)
    if pending_range is not None:
        yield pending_range


def _format_range(ends: tuple[int, int]) -> str:
    first, last = ends
    separator = "-" if last > first + 1 else ""
    return f"{_escape(first)}{separator}{_escape(last) if last > first else ''}"


def _escape(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\U{code:08x}"

"""Compares the records of a topic with the rows of a target by the hashes of the rows.

The order does not matter. If a topic has several equal records, and the target has fewer of them, the last ones count
as missing, because earlier records cannot be told apart from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from kraal.core.offsets import TopicPartition

MODULUS: Final = 1 << 64
MAX_LISTED: Final = 1000
"""Maximum number of positions to list; all are counted."""


@dataclass(frozen=True, slots=True)
class Tally:
    """A number of rows and their checksum, which does not depend on their order."""

    count: int = 0
    checksum: int = 0
    """The sum of the hashes, from 0 to 2^64 - 1."""

    @staticmethod
    def from_halves(count: int, high: int, low: int) -> Tally:
        """Return a tally from the sums of the upper and of the lower 32 bits of the hashes.

        Spark has signed 64-bit integers, whose sums could overflow. The two sums cannot, for up to 2^31 rows.
        """
        return Tally(count, ((high << 32) + low) % MODULUS)


@dataclass(frozen=True, slots=True, order=True)
class RecordPosition:
    """The position of a record in a topic."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSpan:
    """Adjacent offsets of a partition, from `first` to `last`."""

    partition: TopicPartition
    first: int
    last: int

    @override
    def __str__(self) -> str:
        first = f"{self.partition.topic}-{self.partition.partition}@{self.first:,}"
        return first if self.first == self.last else f"{first} to @{self.last:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The differences between the records of a topic and the rows of a target."""

    missing_count: int = 0
    """Number of rows that the target lacks."""
    missing: tuple[OffsetSpan, ...] = ()
    """The records of these rows, in order; at most `MAX_LISTED`."""
    repeated_count: int = 0
    """Number of additional copies of rows in the target."""
    repeated: tuple[OffsetSpan, ...] = ()
    """The records of these rows, in order; at most `MAX_LISTED`."""
    unexpected_count: int = 0
    """Number of rows in the target that equal no record's row."""


@dataclass(frozen=True, slots=True)
class ExpectedRow:
    """A row that the target should have."""

    row_hash: int
    position: RecordPosition
    is_optional: bool
    """Whether the target may lack the row, because the record's offset is not committed yet."""


def locate_differences(
    rows: Iterable[ExpectedRow], stored: Mapping[int, int]
) -> tuple[tuple[OffsetSpan, ...], tuple[OffsetSpan, ...]]:
    """Return the positions of missing and of repeated rows.

    `stored` maps the hashes of `rows` to the number of the target's rows with this hash.
    """
    rows_by_hash: defaultdict[int, list[ExpectedRow]] = defaultdict(list)
    for row in rows:
        rows_by_hash[row.row_hash].append(row)
    missing: set[RecordPosition] = set()
    repeated: set[RecordPosition] = set()
    for row_hash, equal_rows in rows_by_hash.items():
        equal_rows.sort(key=lambda row: (row.is_optional, row.position))
        count = stored.get(row_hash, 0)
        missing.update(row.position for row in equal_rows[count:] if not row.is_optional)
        if count > len(equal_rows):
            repeated.add(equal_rows[-1].position)
    return tuple(_join_positions(missing)), tuple(_join_positions(repeated))


def _join_positions(positions: Iterable[RecordPosition]) -> Iterator[OffsetSpan]:
    """Yield the spans of positions, in order, at most for the first `MAX_LISTED` positions."""
    span: OffsetSpan | None = None
    for position in sorted(positions)[:MAX_LISTED]:
        if span is not None and (span.partition, span.last + 1) == (position.partition, position.offset):
            span = OffsetSpan(partition=span.partition, first=span.first, last=position.offset)
            continue
        if span is not None:
            yield span
        span = OffsetSpan(partition=position.partition, first=position.offset, last=position.offset)
    if span is not None:
        yield span

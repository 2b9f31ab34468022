"""Compares expected and stored rows by their hashes.

For a sink, its topics contain the expected rows, and its target contains the stored rows. For a source, its records are
the expected rows, and its topics contain the stored rows.

The order does not matter. If several expected rows are equal, and fewer of them are stored, the last ones count as
missing, because equal rows cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from kraal.core.offsets import Offset, SourcePartition, TopicPartition

MODULUS: Final = 1 << 64
MAX_LISTED: Final = 1000
"""Maximum number of positions to list; all are counted."""
G = TypeVar("G")


@dataclass(frozen=True, slots=True)
class Tally:
    """A number of rows and their checksum, which does not depend on their order."""

    count: int = 0
    checksum: int = 0
    """The sum of the hashes, from 0 to 2^64 - 1."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.count + other.count, (self.checksum + other.checksum) % MODULUS)

    @staticmethod
    def from_halves(count: int, high: int, low: int) -> Tally:
        """Return a tally from the sums of the upper and of the lower 32 bits of the hashes.

        Spark has signed 64-bit integers, whose sums could overflow. The two sums cannot, for up to 2^31 rows.
        """
        return Tally(count, ((high << 32) + low) % MODULUS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span(Generic[G]):
    """Adjacent positions, from `first` to `last`."""

    group: G
    """The topic partition, or the index of a batch of a source."""
    first: int
    """The first offset, or the first number within the batch."""
    last: int


OffsetSpan = Span[TopicPartition]
"""Adjacent offsets of a topic partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpan:
    """Adjacent records of a source."""

    partition: SourcePartition
    other_partitions: int = 0
    """Number of further partitions that the records may belong to, because they were read in the same batch."""
    after: Offset | None
    """The source offset from which the records are counted; None for the start of the partition."""
    first: int
    """The number of the first record after this offset, from 1."""
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKey:
    """The key of a row of a database table."""

    table: str
    """The name of the table with its schema, such as `public.orders`."""
    key: str
    """The primary key as a JSON object; or the key of a record that is not a change event, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The differences between expected and stored rows. Positions are in order, at most `MAX_LISTED` of each kind."""

    missing_count: int = 0
    """Number of expected rows that are not stored."""
    missing: tuple[OffsetSpan, ...] = ()
    """The offsets of these rows in the topics of a sink."""
    missing_source_records: tuple[SourceSpan, ...] = ()
    """The missing records of a source."""
    missing_keys: tuple[RowKey, ...] = ()
    """The rows of a source's tables whose present state is not the last state of their key in the topics."""
    repeated_count: int = 0
    """Number of additional copies of stored rows."""
    repeated: tuple[OffsetSpan, ...] = ()
    """The offsets of these rows: of the records of a sink, or of the additional records of a source's topics."""
    unexpected_count: int = 0
    """Number of stored rows that equal no expected row."""
    unexpected: tuple[OffsetSpan, ...] = ()
    """The offsets of these rows in the topics of a source. Targets of sinks have no offsets."""
    unexpected_keys: tuple[RowKey, ...] = ()
    """The keys whose last state in the topics of a source is not the state of a row in the source's tables."""


def join_positions(positions: Iterable[tuple[G, int]]) -> Iterator[Span[G]]:
    """Yield the spans of sorted positions: groups and numbers."""
    span: Span[G] | None = None
    for group, number in positions:
        if span is not None and (span.group, span.last + 1) == (group, number):
            span = Span(group=span.group, first=span.first, last=number)
            continue
        if span is not None:
            yield span
        span = Span(group=group, first=number, last=number)
    if span is not None:
        yield span


def format_offsets(span: OffsetSpan) -> str:
    """Return a span of offsets for users, such as `orders-0@512 to @514`."""
    first = f"{span.group.topic}-{span.group.partition}@{span.first:,}"
    return first if span.first == span.last else f"{first} to @{span.last:,}"

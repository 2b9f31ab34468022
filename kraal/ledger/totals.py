"""The running totals of tasks and partitions, of bounded size.

The counts belong to a task, and the ranges to a partition, which may move to another task of the connector. A worker
that is killed between storing offsets and recording the batch leaves a range that nobody has counted. Such a range is
listed as *uncounted*: it does not break the law, but only a proof can check its records. A range that is left out
within a run breaks the law.

Totals of several workers can be appended in any order: a range that arrives late removes itself from the uncounted
ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from kraal.core.offsets import SourcePartition
from kraal.ledger.counts import BatchEntry, Counts, Position, Range, RangeStart, find_error

MAX_RANGES: Final = 20
"""Maximum number of breaks and of uncounted ranges that totals contain; the oldest are removed."""
MAX_NAMED_RANGES: Final = 5
"""Maximum number of ranges in the description of a break."""
MAX_DESCRIPTION_LENGTH: Final = 500
"""Maximum number of characters of this description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A batch for which the law does not hold, or a range that was left out."""

    ranges: str
    """The partitions and positions, as text."""
    reason: str
    time_ms: int
    """Wall-clock milliseconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTotals:
    """The counts of a task; can be summed."""

    batches: int = 0
    read: int = 0
    written: int = 0
    dropped: int = 0
    dead_letters: int = 0
    tolerated: int = 0
    batches_without_read: int = 0
    """Number of batches whose records were not counted when they were read."""
    batches_without_written: int = 0
    """Number of batches whose records were not counted when they were written."""
    breaks: tuple[Break, ...] = ()
    """The latest breaks of the law."""
    break_count: int = 0
    """Number of all breaks of the law."""

    def __add__(self, other: TaskTotals) -> TaskTotals:
        return TaskTotals(
            batches=self.batches + other.batches,
            read=self.read + other.read,
            written=self.written + other.written,
            dropped=self.dropped + other.dropped,
            dead_letters=self.dead_letters + other.dead_letters,
            tolerated=self.tolerated + other.tolerated,
            batches_without_read=self.batches_without_read + other.batches_without_read,
            batches_without_written=self.batches_without_written + other.batches_without_written,
            breaks=(*self.breaks, *other.breaks)[-MAX_RANGES:],
            break_count=self.break_count + other.break_count,
        )


NO_TOTALS: Final = TaskTotals()

Ranges = tuple[tuple[Position, Position], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotals:
    """The positions of a partition that were counted."""

    since: Position
    """The position from which records are counted."""
    end: Position
    """The highest position after a counted batch; the latest one if positions are not numbers."""
    repeated: int = 0
    """Number of offsets that were delivered again; always 0 if positions are not numbers."""
    uncounted: Ranges = ()
    """The latest ranges from `since` to `end` that no entry covers."""
    uncounted_count: int = 0
    """Number of all uncounted ranges."""


@dataclass(frozen=True, slots=True)
class Span:
    """The positions that consecutive batches cover."""

    start: Position
    end: Position
    is_explained: bool = False
    """Whether positions before `start` are missing for a reason that is recorded elsewhere."""


def total_batch(counts: Counts, ranges: Mapping[SourcePartition, Range], time_ms: int) -> TaskTotals:
    """Return the totals of a single batch, with a break if it breaks the law."""
    error = find_error(counts)
    breaks = () if error is None else (Break(ranges=_list_ranges(ranges), reason=error, time_ms=time_ms),)
    return TaskTotals(
        batches=1,
        read=counts.read or 0,
        written=counts.written or 0,
        dropped=counts.dropped,
        dead_letters=counts.dead_letters,
        tolerated=counts.tolerated,
        batches_without_read=int(counts.read is None),
        batches_without_written=int(counts.written is None),
        breaks=breaks,
        break_count=len(breaks),
    )


def find_holes(
    entry: BatchEntry, run_ends: Mapping[SourcePartition, Position], time_ms: int
) -> Mapping[SourcePartition, Break]:
    """Return, by partition, the ranges that were left out before a batch.

    `run_ends` has the end of the latest batch of the same run for each partition that the run has recorded.
    """
    holes: dict[SourcePartition, Break] = {}
    for partition, span in entry.ranges.items():
        if span.reason is not RangeStart.NEXT or partition not in run_ends:
            continue
        end = run_ends[partition]
        if span.start == end or _is_before(span.start, end):
            continue
        ranges = _shorten(describe_range(partition, end, span.start))
        holes[partition] = Break(
            ranges=ranges, reason="no batch was recorded for this range", time_ms=time_ms
        )
    return holes


def append_span(totals: PartitionTotals | None, span: Span) -> PartitionTotals:
    """Return the totals of a partition with a span that was counted after them, or meanwhile by another worker."""
    if totals is None:
        return PartitionTotals(since=span.start, end=span.end)
    if span.is_explained and _is_before(span.start, totals.end):  # the topic was created again
        return PartitionTotals(since=span.start, end=span.end, repeated=totals.repeated)
    if span.is_explained or span.start == totals.end:
        return replace(totals, end=span.end)
    if not isinstance(span.start, int) or not isinstance(totals.end, int) or not isinstance(span.end, int):
        return _append_text_span(totals, span)
    if span.start > totals.end:
        return replace(_add_uncounted(totals, (totals.end, span.start)), end=span.end)
    return _insert_span(totals, span.start, span.end, totals.end)


def _insert_span(totals: PartitionTotals, start: int, end: int, old_end: int) -> PartitionTotals:
    """Insert a span that starts before the end of the totals."""
    since = totals.since if isinstance(totals.since, int) else start
    if end < since:
        totals = _add_uncounted(totals, (end, since))
    remaining, filled_count = _remove(totals.uncounted, start, end)
    overlap = max(0, min(end, old_end) - max(start, since))
    return replace(
        totals,
        since=min(start, since),
        end=max(end, old_end),
        repeated=totals.repeated + overlap - filled_count,
        uncounted=remaining,
        uncounted_count=totals.uncounted_count + len(remaining) - len(totals.uncounted),
    )


def _append_text_span(totals: PartitionTotals, span: Span) -> PartitionTotals:
    """Append a span whose positions have no order."""
    if span.start is None:  # the offset was deleted, so the source starts again
        return PartitionTotals(since=None, end=span.end)
    for index, (start, end) in enumerate(totals.uncounted):
        if (start, end) == (span.start, span.end):
            uncounted = (*totals.uncounted[:index], *totals.uncounted[index + 1 :])
            return replace(totals, uncounted=uncounted, uncounted_count=totals.uncounted_count - 1)
    return replace(_add_uncounted(totals, (totals.end, span.start)), end=span.end)


def _add_uncounted(totals: PartitionTotals, span: tuple[Position, Position]) -> PartitionTotals:
    ranges = (*totals.uncounted, span)[-MAX_RANGES:]
    return replace(totals, uncounted=ranges, uncounted_count=totals.uncounted_count + 1)


def _remove(ranges: Ranges, start: int, end: int) -> tuple[Ranges, int]:
    """Return the ranges without `[start, end)`, and the number of offsets that were removed."""
    remaining: list[tuple[Position, Position]] = []
    removed = 0
    for low, high in ranges:
        assert isinstance(low, int)  # noqa: S101 - positions of one partition have one type
        assert isinstance(high, int)  # noqa: S101 - as above
        overlap = max(0, min(high, end) - max(low, start))
        removed += overlap
        if not overlap:
            remaining.append((low, high))
            continue
        remaining += [part for part in ((low, max(low, start)), (min(high, end), high)) if part[0] < part[1]]
    return tuple(remaining[-MAX_RANGES:]), removed


def _is_before(position: Position, other: Position) -> bool:
    return isinstance(position, int) and isinstance(other, int) and position < other


def _list_ranges(ranges: Mapping[SourcePartition, Range]) -> str:
    names = [describe_range(partition, span.start, span.end) for partition, span in ranges.items()]
    unnamed_count = len(names) - MAX_NAMED_RANGES
    if unnamed_count > 0:
        names = [*names[:MAX_NAMED_RANGES], f"{unnamed_count} more partitions"]
    return _shorten(", ".join(names))


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_DESCRIPTION_LENGTH else text[: MAX_DESCRIPTION_LENGTH - 1] + "…"


def describe_range(partition: SourcePartition, start: Position, end: Position) -> str:
    """Return a range as text for users, such as `orders-0@100 to @200`."""
    fields = partition.as_dict()
    if fields.keys() == {"kafka_topic", "kafka_partition"}:
        return f"{fields['kafka_topic']}-{fields['kafka_partition']}@{start} to @{end}"
    name = ", ".join(f"{key}={value}" for key, value in sorted(fields.items()))
    return f"{{{name}}} from {start} to {end}"

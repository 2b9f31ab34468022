"""The running totals of one partition, of bounded size.

Batches become *segments* of the totals. Recent segments are single batches; older ones are merged in pairs, so that the
number of segments grows with the logarithm of the number of batches. A segment says for its range what was read and
written, which shows where a target differs.

A worker that ends between storing offsets and recording the batch leaves a range that nobody counted. Such a range
precedes the first batch of the next run. It does not break the law, but only a proof can check its records. A range
that is left out within a run does break the law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kraal.ledger.counts import NO_COUNTS, BatchEntry, Counts, Position, find_error

SEGMENTS_PER_LEVEL: Final = 4
"""Maximum number of segments of each level; a segment of level n has 2^n batches."""
MAX_RANGES: Final = 20
"""Maximum number of breaks and of uncounted ranges to keep; the oldest are removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A range of one or more batches."""

    start: Position
    end: Position
    counts: Counts
    level: int = 0
    """Logarithm of the number of batches to the base 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A range for which the law does not hold."""

    start: Position
    end: Position
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The totals of a partition since `since`."""

    since: Position
    """The position from which records are counted."""
    end: Position
    """The position after the last recorded batch."""
    counts: Counts = NO_COUNTS
    repeated: int = 0
    """Number of records of batches that were recorded and then written again."""
    segments: tuple[Segment, ...] = field(default=())
    breaks: tuple[Break, ...] = field(default=())
    """The latest breaks of the law."""
    break_count: int = 0
    """Number of all breaks of the law."""
    uncounted: tuple[tuple[Position, Position], ...] = field(default=())
    """The latest ranges whose batches were not recorded."""
    uncounted_count: int = 0
    """Number of all ranges whose batches were not recorded."""


def start_totals(position: Position) -> Totals:
    """Return totals that count from a position."""
    return Totals(since=position, end=position)


def add_entry(totals: Totals, entry: BatchEntry) -> Totals:
    """Return the totals with another batch of the same run.

    A batch that starts at an earlier batch replaces it and all later ones.
    """
    if entry.start != totals.end:
        totals = _move_end(totals, entry.start, is_explained=entry.gap is not None)
    error = find_error(entry)
    if error is not None:
        totals = _add_break(totals, Break(start=entry.start, end=entry.end, reason=error))
    segment = Segment(start=entry.start, end=entry.end, counts=entry.counts)
    return replace(
        totals,
        end=entry.end,
        counts=totals.counts + entry.counts,
        segments=_merge((*totals.segments, segment)),
    )


def append_run(totals: Totals, run: Totals) -> Totals:
    """Return the totals followed by those of batches of a later run, or of the next batches of the same run."""
    if run.since != totals.end:
        totals = _move_end(totals, run.since, is_run_start=True)
    return Totals(
        since=totals.since,
        end=run.end,
        counts=totals.counts + run.counts,
        repeated=totals.repeated + run.repeated,
        segments=_merge((*totals.segments, *run.segments)),
        breaks=(*totals.breaks, *run.breaks)[-MAX_RANGES:],
        break_count=totals.break_count + run.break_count,
        uncounted=(*totals.uncounted, *run.uncounted)[-MAX_RANGES:],
        uncounted_count=totals.uncounted_count + run.uncounted_count,
    )


def _move_end(
    totals: Totals, position: Position, *, is_explained: bool = False, is_run_start: bool = False
) -> Totals:
    """Return the totals with another end: without the batches after it, or with a range before it that is left out."""
    starts = [segment.start for segment in totals.segments]
    if position in starts:
        index = len(starts) - 1 - starts[::-1].index(position)
        counts = sum((segment.counts for segment in totals.segments[index:]), NO_COUNTS)
        return replace(
            totals,
            end=position,
            counts=totals.counts - counts,
            repeated=totals.repeated + counts.written.count,
            segments=totals.segments[:index],
        )
    if is_explained:  # the broker no longer has the records in between
        return replace(totals, end=position)
    if isinstance(position, int) and isinstance(totals.end, int) and position < totals.end:
        return start_totals(position)  # the position was moved back into a merged segment
    if is_run_start:
        ranges = (*totals.uncounted, (totals.end, position))[-MAX_RANGES:]
        return replace(totals, end=position, uncounted=ranges, uncounted_count=totals.uncounted_count + 1)
    reason = "no batch was recorded for this range"
    return replace(_add_break(totals, Break(start=totals.end, end=position, reason=reason)), end=position)


def _add_break(totals: Totals, added: Break) -> Totals:
    breaks = (*totals.breaks, added)[-MAX_RANGES:]
    return replace(totals, breaks=breaks, break_count=totals.break_count + 1)


def _merge(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Merge the two oldest segments of each level that has more than `SEGMENTS_PER_LEVEL` segments."""
    merged = list(segments)
    level = 0
    while any(segment.level >= level for segment in merged):
        same_level = [index for index, segment in enumerate(merged) if segment.level == level]
        if len(same_level) <= SEGMENTS_PER_LEVEL:
            level += 1
            continue
        first, second = same_level[0], same_level[0] + 1
        merged[first : second + 1] = [
            Segment(
                start=merged[first].start,
                end=merged[second].end,
                counts=merged[first].counts + merged[second].counts,
                level=1 + max(merged[first].level, merged[second].level),
            )
        ]
    return tuple(merged)

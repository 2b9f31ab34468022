"""The ranges of a source's batches: from the offset of one batch to that of the next."""

from __future__ import annotations

from collections.abc import Mapping

from kraal.core.offsets import Offset, SourcePartition
from kraal.ledger.counts import Position, Range, RangeStart
from kraal.ledger.records import offset_position


class SourceRanges:
    """The positions of one run. Not thread-safe."""

    def __init__(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """`offsets` are the stored offsets with which the run has started."""
        self._stored = offsets
        self._ends: dict[SourcePartition, Position] = {}

    def advance(self, offsets: Mapping[SourcePartition, Offset]) -> dict[SourcePartition, Range]:
        """Return the ranges of a batch with these offsets; the ranges of the next batch start there."""
        ranges = {partition: self._range_to(partition, offset) for partition, offset in offsets.items()}
        self._ends |= {partition: each.end for partition, each in ranges.items()}
        return ranges

    def _range_to(self, partition: SourcePartition, offset: Offset) -> Range:
        end = offset_position(offset)
        if partition in self._ends:
            return Range(self._ends[partition], end)
        return Range(offset_position(self._stored.get(partition)), end, RangeStart.RESUMED)

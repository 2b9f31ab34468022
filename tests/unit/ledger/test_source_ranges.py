"""Tests for the ranges of a source's batches."""

from __future__ import annotations

from kraal.core.offsets import SourcePartition
from kraal.ledger.counts import Range, RangeStart
from kraal.ledger.source_ranges import SourceRanges

A, B = SourcePartition.of({"file": "a"}), SourcePartition.of({"file": "b"})


def test_the_first_range_of_a_partition_starts_at_its_stored_offset() -> None:
    ranges = SourceRanges({A: {"line": 3}})
    assert ranges.advance({A: {"line": 5}, B: {"line": 1}}) == {
        A: Range('{"line":3}', '{"line":5}', RangeStart.RESUMED),
        B: Range(None, '{"line":1}', RangeStart.RESUMED),
    }


def test_further_ranges_start_at_the_end_of_the_previous_one() -> None:
    ranges = SourceRanges({})
    ranges.advance({A: {"line": 1}, B: {"line": 1}})
    ranges.advance({B: {"line": 2}})
    assert ranges.advance({A: {"line": 4}, B: {"line": 3}}) == {
        A: Range('{"line":1}', '{"line":4}'),
        B: Range('{"line":2}', '{"line":3}'),
    }

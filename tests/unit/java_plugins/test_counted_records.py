"""Tests for the ledger entries of Java tasks."""

from __future__ import annotations

from typing import Any

from kraal.core.offsets import SourcePartition
from kraal.java_plugins.counted_records import CountedRecords
from kraal.ledger.counts import NO_COUNTS, BatchEntry, Counts, Range, RangeStart

FIRST = SourcePartition.of({"kafka_topic": "orders", "kafka_partition": 0})
SECOND = SourcePartition.of({"kafka_topic": "orders", "kafka_partition": 1})
FILE = SourcePartition.of({"filename": "a"})


def counts(read: int, written: int | None) -> dict[str, int | None]:
    return {"read": read, "written": written, "dropped": 1, "dead_letters": 2, "tolerated": 3}


def make_entries(detail: dict[str, Any]) -> list[BatchEntry]:
    return CountedRecords({}).make_entries(detail)


def test_sink_has_one_entry_for_adjacent_ranges() -> None:
    ranges = [
        ["orders", 0, 100, 110, "RESUMED"],
        ["orders", 1, 5, 6, "NEXT"],
        ["orders", 0, 110, 120, "NEXT"],
    ]
    assert make_entries({"counts": [counts(10, 4)], "ranges": ranges}) == [
        BatchEntry(
            counts=Counts(read=10, written=4, dropped=1, dead_letters=2, tolerated=3),
            ranges={FIRST: Range(100, 120, RangeStart.RESUMED), SECOND: Range(5, 6)},
        )
    ]


def test_sink_that_was_rewound_has_several_entries_in_order() -> None:
    ranges = [
        ["orders", 0, 100, 110, "NEXT"],
        ["orders", 0, 105, 107, "RESUMED"],
        ["orders", 0, 107, 108, "NEXT"],
        ["orders", 1, 5, 6, "NEXT"],
        ["orders", 0, 0, 3, "SKIPPED"],
    ]
    entries = make_entries({"counts": [counts(10, 4)], "ranges": ranges})
    assert [dict(entry.ranges) for entry in entries] == [
        {FIRST: Range(100, 110), SECOND: Range(5, 6)},
        {FIRST: Range(105, 108, RangeStart.RESUMED)},
        {FIRST: Range(0, 3, RangeStart.SKIPPED)},
    ]
    assert [entry.counts for entry in entries[1:]] == [NO_COUNTS, NO_COUNTS]


def test_records_whose_writes_are_unknown_have_their_own_entry() -> None:
    ranges = [["orders", 0, 0, 20, "NEXT"]]
    known, unknown = make_entries({"counts": [counts(10, 4), counts(10, None)], "ranges": ranges})
    assert (known.counts.written, dict(known.ranges)) == (4, {FIRST: Range(0, 20)})
    assert (unknown.counts.written, dict(unknown.ranges)) == (None, {})


def test_source_starts_at_its_stored_offset_and_continues_at_its_last_one() -> None:
    records = CountedRecords({FILE: {"position": 1, "line": 0}})

    def count_to(position: int) -> BatchEntry:
        offsets = [['{"filename":"a"}', f'{{"position":{position},"line":0}}']]
        [entry] = records.make_entries({"counts": [counts(1, 1)], "offsets": offsets})
        return entry

    assert count_to(5).ranges == {
        FILE: Range('{"line":0,"position":1}', '{"line":0,"position":5}', RangeStart.RESUMED)
    }
    assert count_to(9).ranges == {FILE: Range('{"line":0,"position":5}', '{"line":0,"position":9}')}


def test_source_that_has_dropped_all_records_has_no_range() -> None:
    assert make_entries({"counts": [counts(1, 0)], "offsets": []}) == [
        BatchEntry(counts=Counts(read=1, written=0, dropped=1, dead_letters=2, tolerated=3))
    ]

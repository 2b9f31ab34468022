"""Tests for totals: sums, holes, uncounted and repeated ranges, and the size."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.core.offsets import SourcePartition
from kraal.ledger.counts import BatchEntry, Counts, Position, Range, RangeStart
from kraal.ledger.totals import (
    MAX_RANGES,
    NO_TOTALS,
    Break,
    PartitionTotals,
    Span,
    TaskTotals,
    append_span,
    find_holes,
    total_batch,
)

ORDERS = SourcePartition.of({"kafka_topic": "orders", "kafka_partition": 0})
FILE = SourcePartition.of({"filename": "/data/x"})


def append_all(*spans: tuple[Position, Position]) -> PartitionTotals:
    totals: PartitionTotals | None = None
    for start, end in spans:
        totals = append_span(totals, Span(start, end))
    assert totals is not None
    return totals


def test_totals_of_batches_are_sums() -> None:
    batches = [
        Counts(read=10, written=6, dropped=1, dead_letters=1, tolerated=2),
        Counts(read=5, written=5),
        Counts(read=None, written=3),
        Counts(read=4, written=None),
    ]
    totals = reduce(TaskTotals.__add__, (total_batch(counts, {}, 0) for counts in batches), NO_TOTALS)
    assert totals == TaskTotals(
        batches=4,
        read=19,
        written=14,
        dropped=1,
        dead_letters=1,
        tolerated=2,
        batches_without_read=1,
        batches_without_written=1,
    )


def test_a_break_names_the_ranges_of_its_batch() -> None:
    ranges = {ORDERS: Range(100, 200), FILE: Range(None, '{"position":7}')}
    totals = total_batch(Counts(read=3, written=2), ranges, 42)
    assert totals.break_count == 1
    assert totals.breaks == (
        Break(
            ranges='orders-0@100 to @200, {filename=/data/x} from None to {"position":7}',
            reason="1 of 3 records were read and neither written nor skipped",
            time_ms=42,
        ),
    )


def test_a_break_of_many_partitions_names_the_first_ones() -> None:
    ranges = {
        SourcePartition.of({"kafka_topic": "t", "kafka_partition": number}): Range(0, 1)
        for number in range(100)
    }
    [law_break] = total_batch(Counts(read=3, written=2), ranges, 0).breaks
    assert law_break.ranges.endswith("t-4@0 to @1, 95 more partitions")


def test_breaks_are_counted_and_the_latest_are_kept() -> None:
    broken = [
        total_batch(Counts(read=2, written=1), {ORDERS: Range(number, number + 1)}, number)
        for number in range(MAX_RANGES + 5)
    ]
    totals = reduce(TaskTotals.__add__, broken)
    assert (totals.break_count, len(totals.breaks)) == (MAX_RANGES + 5, MAX_RANGES)
    assert totals.breaks[-1].time_ms == MAX_RANGES + 4


@pytest.mark.parametrize(
    ("start", "reason", "is_hole"),
    [
        pytest.param(100, RangeStart.NEXT, False, id="next"),
        pytest.param(101, RangeStart.NEXT, True, id="one offset left out"),
        pytest.param(90, RangeStart.NEXT, False, id="repeated"),
        pytest.param(150, RangeStart.RESUMED, False, id="after a rebalance"),
        pytest.param(150, RangeStart.SKIPPED, False, id="after the retention time"),
    ],
)
def test_a_range_left_out_within_a_run_is_a_hole(start: int, reason: RangeStart, *, is_hole: bool) -> None:
    entry = BatchEntry(counts=Counts(), ranges={ORDERS: Range(start, 200, reason)})
    holes = find_holes(entry, {ORDERS: 100}, 7)
    reason_text = "no batch was recorded for this range"
    expected = Break(ranges=f"orders-0@100 to @{start}", reason=reason_text, time_ms=7)
    assert holes == ({ORDERS: expected} if is_hole else {})


def test_the_first_range_of_a_partition_has_no_hole() -> None:
    entry = BatchEntry(counts=Counts(), ranges={ORDERS: Range(50, 60)})
    assert find_holes(entry, {}, 0) == {}


def test_consecutive_spans_are_one_range() -> None:
    assert append_all((5, 10), (10, 30)) == PartitionTotals(since=5, end=30)


def test_a_range_between_spans_is_uncounted() -> None:
    assert append_all((0, 100), (110, 120)) == PartitionTotals(
        since=0, end=120, uncounted=((100, 110),), uncounted_count=1
    )


def test_an_explained_gap_is_not_uncounted() -> None:
    totals = append_span(append_all((0, 100)), Span(110, 120, is_explained=True))
    assert totals == PartitionTotals(since=0, end=120)


def test_topic_that_was_created_again_is_counted_from_its_start() -> None:
    totals = append_span(append_all((0, 100), (110, 120), (40, 50)), Span(0, 7, is_explained=True))
    assert totals == PartitionTotals(since=0, end=7, repeated=10)


def test_offsets_that_are_delivered_again_are_repeated() -> None:
    assert append_all((0, 100), (40, 60)) == PartitionTotals(since=0, end=100, repeated=20)
    assert append_all((0, 100), (40, 60), (60, 120)) == PartitionTotals(since=0, end=120, repeated=60)


def test_a_span_that_arrives_late_is_neither_uncounted_nor_repeated() -> None:
    assert append_all((0, 100), (150, 160), (100, 150)) == PartitionTotals(since=0, end=160)
    assert append_all((0, 100), (150, 160), (110, 120)) == PartitionTotals(
        since=0, end=160, uncounted=((100, 110), (120, 150)), uncounted_count=2
    )


def test_a_span_before_the_first_one_moves_the_start() -> None:
    assert append_all((100, 200), (50, 100)) == PartitionTotals(since=50, end=200)
    assert append_all((100, 200), (50, 60)) == PartitionTotals(
        since=50, end=200, uncounted=((60, 100),), uncounted_count=1
    )


def test_uncounted_ranges_of_a_source_are_recorded() -> None:
    assert append_all((None, "a"), ("a", "b")) == PartitionTotals(since=None, end="b")
    totals = append_all((None, "a"), ("b", "c"))
    assert totals == PartitionTotals(since=None, end="c", uncounted=(("a", "b"),), uncounted_count=1)
    late_totals = append_span(totals, Span("a", "b"))
    assert (late_totals.uncounted, late_totals.uncounted_count) == ((), 0)


def test_a_source_whose_offset_was_deleted_is_counted_again() -> None:
    assert append_all((None, "a"), (None, "b")) == PartitionTotals(since=None, end="b")


def test_uncounted_ranges_are_counted_and_the_latest_are_kept() -> None:
    totals = append_all(*((number * 10, number * 10 + 1) for number in range(MAX_RANGES + 6)))
    assert (totals.uncounted_count, len(totals.uncounted)) == (MAX_RANGES + 5, MAX_RANGES)
    assert totals.uncounted[-1] == (MAX_RANGES * 10 + 41, MAX_RANGES * 10 + 50)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.data())
def test_order_of_spans_does_not_matter(sizes: list[int], data: st.DataObject) -> None:
    """Counted offsets, repeated offsets and uncounted ranges are the same as for a set of offsets."""
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    counted_spans = data.draw(st.permutations(spans))
    counted_spans = counted_spans[: data.draw(st.integers(1, len(spans)))]
    totals = append_all(*counted_spans)
    offsets = {offset for start, end in counted_spans for offset in range(start, end)}
    uncounted = {
        offset for start, end in totals.uncounted for offset in range(int(str(start)), int(str(end)))
    }
    assert (totals.since, totals.end, totals.repeated) == (min(offsets), max(offsets) + 1, 0)
    assert uncounted == set(range(min(offsets), max(offsets) + 1)) - offsets
    assert totals.uncounted_count == len(totals.uncounted)

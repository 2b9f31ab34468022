"""Tests for the totals of a partition: the law, repeated batches, holes, and the size."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.ledger.counts import BatchEntry, Counts, find_error
from kraal.ledger.tally import Tally
from kraal.ledger.totals import MAX_RANGES, SEGMENTS_PER_LEVEL, Totals, add_entry, append_run, start_totals


def entry(start: int, end: int, *, dropped: int = 0, seed: int = 1) -> BatchEntry:
    """Return the entry of a batch without gaps, whose records have the hashes `seed` and its multiples."""
    read = Tally(end - start, seed * (end - start))
    written = Tally(read.count - dropped, seed * (read.count - dropped))
    return BatchEntry(start=start, end=end, counts=Counts(read=read, written=written, dropped=dropped))


def add_all(entries: list[BatchEntry], start: int = 0) -> Totals:
    totals = start_totals(start)
    for each in entries:
        totals = add_entry(totals, each)
    return totals


lengths = st.lists(st.integers(1, 1000), max_size=60)


def consecutive(sizes: list[int]) -> list[BatchEntry]:
    entries, start = [], 0
    for size in sizes:
        entries.append(entry(start, start + size, dropped=size // 3))
        start += size
    return entries


@given(lengths)
def test_totals_are_the_sums_of_all_batches(sizes: list[int]) -> None:
    totals = add_all(consecutive(sizes))
    assert totals.since == 0
    assert totals.end == sum(sizes)
    assert totals.counts.read.count == sum(sizes)
    assert totals.counts.dropped == sum(size // 3 for size in sizes)
    assert totals.counts.unexplained == 0
    assert (totals.breaks, totals.repeated) == ((), 0)


@given(lengths)
def test_segments_cover_all_batches_without_overlaps(sizes: list[int]) -> None:
    totals = add_all(consecutive(sizes))
    position = 0
    for segment in totals.segments:
        assert segment.start == position
        assert isinstance(segment.end, int)
        position = segment.end
    assert position == totals.end
    assert sum(segment.counts.read.count for segment in totals.segments) == totals.counts.read.count


def test_number_of_segments_grows_with_the_logarithm_of_the_number_of_batches() -> None:
    totals = start_totals(0)
    for number in range(10_000):
        totals = add_entry(totals, entry(number, number + 1))
    assert len(totals.segments) <= SEGMENTS_PER_LEVEL * 14


@given(lengths.filter(bool), st.data())
def test_a_repeated_batch_replaces_its_entry(sizes: list[int], data: st.DataObject) -> None:
    entries = consecutive(sizes)
    last = entries[-1]
    shorter = entry(
        int(last.start), int(last.start) + data.draw(st.integers(1, int(last.end) - int(last.start)))
    )
    totals = add_entry(add_all(entries), shorter)
    assert totals.counts == add_all([*entries[:-1], shorter]).counts
    assert totals.repeated == last.counts.written.count
    assert totals.breaks == ()


def test_a_position_within_an_old_segment_restarts_the_totals() -> None:
    totals = add_entry(add_all([entry(0, 100)]), entry(50, 60))
    assert (totals.since, totals.end, totals.counts.read.count, totals.breaks) == (50, 60, 10, ())


def test_a_hole_breaks_the_law() -> None:
    totals = add_all([entry(0, 100), entry(110, 120)])
    assert [(b.start, b.end, b.reason) for b in totals.breaks] == [
        (100, 110, "no batch was recorded for this range")
    ]
    assert totals.end == 120


def test_a_gap_that_the_broker_explains_does_not_break_the_law() -> None:
    gap = replace(entry(110, 120), gap="the retention of the topic has passed")
    totals = add_all([entry(0, 100), gap])
    assert (totals.breaks, totals.end, totals.counts.read.count) == ((), 120, 110)


def test_a_range_before_a_run_is_uncounted_and_does_not_break_the_law() -> None:
    totals = append_run(add_all([entry(0, 100)]), add_all([entry(110, 120)], start=110))
    assert (totals.breaks, totals.uncounted, totals.uncounted_count) == ((), ((100, 110),), 1)
    assert (totals.since, totals.end, totals.counts.read.count) == (0, 120, 110)


@given(lengths, st.integers(0, 60))
def test_runs_that_follow_each_other_have_the_counts_of_one_run(sizes: list[int], cut: int) -> None:
    entries = consecutive(sizes)
    first, second = add_all(entries[:cut]), start_totals(sum(sizes[:cut]))
    for each in entries[cut:]:
        second = add_entry(second, each)
    totals = append_run(first, second)
    whole = add_all(entries)
    assert (totals.since, totals.end, totals.counts) == (whole.since, whole.end, whole.counts)
    assert (totals.breaks, totals.uncounted, totals.repeated) == ((), (), 0)
    assert len(totals.segments) <= SEGMENTS_PER_LEVEL * 7


def test_a_run_that_starts_at_an_earlier_batch_repeats_it() -> None:
    totals = append_run(add_all([entry(0, 100), entry(100, 150)]), add_all([entry(100, 170)], start=100))
    assert (totals.end, totals.counts.read.count, totals.repeated, totals.uncounted) == (170, 170, 50, ())


def test_breaks_are_counted_and_the_latest_are_kept() -> None:
    totals = start_totals(0)
    for number in range(MAX_RANGES + 5):
        counts = Counts(read=Tally(2, 3), written=Tally(1, 1))
        totals = add_entry(totals, BatchEntry(start=number, end=number + 1, counts=counts))
    assert (totals.break_count, len(totals.breaks)) == (MAX_RANGES + 5, MAX_RANGES)
    assert totals.breaks[-1].end == MAX_RANGES + 5


two = Tally(2, 30)


@pytest.mark.parametrize(
    ("counts", "unchanged", "error"),
    [
        pytest.param(Counts(read=two, written=two), True, None, id="all written"),
        pytest.param(Counts(read=two, written=Tally(1, 10), dropped=1), True, None, id="one dropped"),
        pytest.param(
            Counts(read=two, written=Tally(1, 10), dead_letters=1), True, None, id="one dead letter"
        ),
        pytest.param(Counts(read=two, written=Tally(1, 10), tolerated=1), True, None, id="one tolerated"),
        pytest.param(Counts(read=two, written=Tally(3, 60), made=1), True, None, id="one made"),
        pytest.param(Counts(read=two, written=Tally(2, 31)), False, None, id="converted"),
        pytest.param(
            Counts(read=two, written=Tally(2, 31)),
            True,
            "the content of 2 records changed between reading and writing",
            id="changed",
        ),
        pytest.param(
            Counts(read=two, written=Tally(1, 10)),
            True,
            "1 of 2 records were read and not written",
            id="one lost",
        ),
        pytest.param(
            Counts(read=two, written=Tally(3, 60)),
            True,
            "1 more records were written than read",
            id="one repeated",
        ),
        pytest.param(
            Counts(read=two, written=Tally(1, 10), dropped=2),
            False,
            "1 more records were written than read",
            id="twice",
        ),
    ],
)
def test_law(*, counts: Counts, unchanged: bool, error: str | None) -> None:
    assert find_error(BatchEntry(start=0, end=2, counts=counts, is_unchanged=unchanged)) == error


@given(lengths, st.integers(0, 59), st.sampled_from(["lost", "repeated"]))
def test_one_lost_or_repeated_record_breaks_the_law_of_its_batch_alone(
    sizes: list[int], at: int, how: str
) -> None:
    entries = consecutive(sizes)
    if at >= len(entries):
        return
    counts = entries[at].counts
    written = counts.written - Tally(1, 1) if how == "lost" else counts.written + Tally(1, 1)
    entries[at] = replace(entries[at], counts=replace(counts, written=written))
    totals = add_all(entries)
    assert [(b.start, b.end) for b in totals.breaks] == [(entries[at].start, entries[at].end)]

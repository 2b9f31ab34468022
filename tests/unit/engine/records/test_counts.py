"""Tests for the counts of a batch for the ledger."""

from __future__ import annotations

from kraal.engine.records.counts import count_batch
from kraal.ledger.counts import Counts
from kraal.metrics.errors import ErrorCounts


def test_skipped_records_are_dead_letters_or_tolerated() -> None:
    errors = ErrorCounts(errors=5, skipped=5, dead_letters=3)
    counts = count_batch(read=10, written=4, dropped=1, errors=errors)
    assert counts == Counts(read=10, written=4, dropped=1, dead_letters=3, tolerated=2)
    assert counts.unexplained == 0


def test_dead_letters_that_were_written_again_are_counted_once() -> None:
    errors = ErrorCounts(errors=2, skipped=2, dead_letters=5, dead_letters_failed=3)
    assert count_batch(read=2, written=0, errors=errors) == Counts(read=2, written=0, dead_letters=2)


def test_records_without_errors_are_read_and_written() -> None:
    assert count_batch(read=2, written=None) == Counts(read=2, written=None)

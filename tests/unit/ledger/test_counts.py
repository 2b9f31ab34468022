"""Tests for the law that the counts of a batch obey."""

from __future__ import annotations

import pytest

from kraal.ledger.counts import Counts, find_error


@pytest.mark.parametrize(
    ("counts", "error"),
    [
        pytest.param(Counts(read=2, written=2), None, id="all written"),
        pytest.param(Counts(read=2, written=1, dropped=1), None, id="one dropped"),
        pytest.param(Counts(read=2, written=1, dead_letters=1), None, id="one dead letter"),
        pytest.param(Counts(read=2, written=1, tolerated=1), None, id="one tolerated"),
        pytest.param(Counts(read=None, written=1), None, id="read is not counted"),
        pytest.param(Counts(read=2, written=None), None, id="written is not counted"),
        pytest.param(
            Counts(read=2000, written=1999),
            "1 of 2,000 records were read and neither written nor skipped",
            id="one lost",
        ),
        pytest.param(
            Counts(read=2, written=3), "1 more records were written than read (2)", id="one written twice"
        ),
        pytest.param(
            Counts(read=2, written=1, dropped=2),
            "1 more records were written than read (2)",
            id="one dropped and written",
        ),
    ],
)
def test_law(counts: Counts, error: str | None) -> None:
    assert find_error(counts) == error

"""Tests for the positions of missing and repeated rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.core.offsets import TopicPartition
from kraal.proof.differences import (
    MAX_LISTED,
    MODULUS,
    LocatedRow,
    OffsetSpan,
    RowPosition,
    Span,
    Tally,
    find_repeated,
    find_unmatched,
    format_offsets,
)

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
COUNT = 2_000


def make_rows(hashes: Sequence[int], *, committed: int | None = None) -> list[LocatedRow[TopicPartition]]:
    """Return the rows of orders-0, one for each offset; those from `committed` are optional."""
    return [
        LocatedRow(
            row_hash,
            RowPosition(ORDERS_0, offset),
            is_optional=committed is not None and offset >= committed,
        )
        for offset, row_hash in enumerate(hashes)
    ]


def span(first: int, last: int) -> OffsetSpan:
    return Span(group=ORDERS_0, first=first, last=last)


def locate(
    rows: Sequence[LocatedRow[TopicPartition]], counts: Mapping[int, int]
) -> tuple[tuple[OffsetSpan, ...], tuple[OffsetSpan, ...]]:
    """Return the missing and the repeated rows."""
    return tuple(find_unmatched(rows, counts)), tuple(find_repeated(rows, counts))


def test_equal_sides_have_no_differences() -> None:
    hashes = [number // 3 for number in range(COUNT)]
    assert locate(make_rows(hashes), Counter(hashes)) == ((), ())


@pytest.mark.parametrize("seed", range(10))
def test_one_missing_or_repeated_row_is_located(seed: int) -> None:
    hashes = list(range(COUNT))
    offset = random.Random(seed).randrange(COUNT)  # noqa: S311 - not for security
    assert locate(make_rows(hashes), Counter(hashes[:offset] + hashes[offset + 1 :])) == (
        (span(offset, offset),),
        (),
    )
    assert locate(make_rows(hashes), Counter([*hashes, offset])) == ((), (span(offset, offset),))


def test_last_of_several_equal_rows_is_missing() -> None:
    assert locate(make_rows([7, 7, 8]), Counter([7, 8])) == ((span(1, 1),), ())


def test_rows_of_uncommitted_records_may_be_missing_or_stored() -> None:
    rows = make_rows([1, 2, 3], committed=2)
    assert locate(rows, Counter([1, 2])) == ((), ())
    assert locate(rows, Counter([1, 2, 3])) == ((), ())
    assert locate(rows, Counter([1, 3])) == ((span(1, 1),), ())


def test_committed_row_is_found_before_an_equal_uncommitted_one() -> None:
    rows = [
        LocatedRow(7, RowPosition(ORDERS_0, 5), is_optional=True),
        LocatedRow(7, RowPosition(ORDERS_1, 3), is_optional=False),
    ]
    assert locate(rows, Counter([7])) == ((), ())
    missing, _ = locate(rows, Counter())
    assert missing == (Span(group=ORDERS_1, first=3, last=3),)


def test_adjacent_positions_are_joined_and_their_number_is_limited() -> None:
    missing, _ = locate(make_rows([1, 2, 3, 4, 5]), Counter([3]))
    assert [format_offsets(each) for each in missing] == ["orders-0@0 to @1", "orders-0@3 to @4"]
    missing, _ = locate(make_rows(range(3 * MAX_LISTED)), Counter())
    assert missing == (span(0, MAX_LISTED - 1),)


@given(st.lists(st.integers(0, MODULUS - 1), max_size=50))
def test_sums_of_halves_equal_the_checksum(hashes: list[int]) -> None:
    high, low = sum(h >> 32 for h in hashes), sum(h & 0xFFFFFFFF for h in hashes)
    assert Tally.from_halves(len(hashes), high, low) == Tally(len(hashes), sum(hashes) % MODULUS)

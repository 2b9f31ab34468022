"""Tests for checksums and for spans of positions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.core.offsets import TopicPartition
from kraal.proof.differences import MODULUS, Span, Tally, format_offsets, join_positions

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.mark.parametrize(
    ("positions", "texts"),
    [
        ([], []),
        ([(ORDERS_0, 7)], ["orders-0@7"]),
        ([(ORDERS_0, 0), (ORDERS_0, 1), (ORDERS_0, 3)], ["orders-0@0 to @1", "orders-0@3"]),
        ([(ORDERS_0, 1), (ORDERS_1, 2)], ["orders-0@1", "orders-1@2"]),
        ([(ORDERS_1, 17_003_221), (ORDERS_1, 17_003_222)], ["orders-1@17,003,221 to @17,003,222"]),
    ],
)
def test_adjacent_positions_are_joined(positions: list[tuple[TopicPartition, int]], texts: list[str]) -> None:
    assert [format_offsets(span) for span in join_positions(positions)] == texts


def test_spans_of_batches_have_their_index() -> None:
    assert list(join_positions([(3, 0), (3, 1)])) == [Span(group=3, first=0, last=1)]


@given(st.lists(st.integers(0, MODULUS - 1), max_size=50))
def test_sums_of_halves_equal_the_checksum(hashes: list[int]) -> None:
    high, low = sum(h >> 32 for h in hashes), sum(h & 0xFFFFFFFF for h in hashes)
    assert Tally.from_halves(len(hashes), high, low) == Tally(len(hashes), sum(hashes) % MODULUS)


@given(st.lists(st.integers(0, MODULUS - 1), max_size=50), st.integers(0, 50))
def test_tallies_of_parts_add_up(hashes: list[int], length: int) -> None:
    parts = [Tally(len(part), sum(part) % MODULUS) for part in (hashes[:length], hashes[length:])]
    assert parts[0] + parts[1] == Tally(len(hashes), sum(hashes) % MODULUS)

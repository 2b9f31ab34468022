"""Tests for the comparison of a batch with the offsets of a table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.connectors.tables.positions import TableMoved, find_starts
from kraal.plugins.api import TopicPartition

P = TopicPartition("t", 3)


@pytest.mark.parametrize(
    ("stored", "expected", "start"),
    [
        (None, None, 10),  # the first batch
        (10, 10, 10),
        (7, 7, 10),  # the topic has a gap before the batch
        (15, 10, 15),  # another task has written a part
        (20, 10, 20),  # another task, or a commit whose response was lost
        (25, 10, 20),
        (12, None, 12),
    ],
)
def test_batch_starts_where_the_table_ends(stored: int | None, expected: int | None, start: int) -> None:
    def by_partition(offset: int | None) -> dict[TopicPartition, int]:
        return {} if offset is None else {P: offset}

    assert find_starts({P: (10, 20)}, by_partition(stored), by_partition(expected)) == {P: start}


def test_table_that_moved_back_is_an_error() -> None:
    with pytest.raises(TableMoved, match=r"continues at offset 9 of t-3, but .* up to offset 10"):
        find_starts({P: (10, 20)}, {P: 9}, {P: 10})
    with pytest.raises(TableMoved, match="contains no offset of t-3"):
        find_starts({P: (10, 20)}, {}, {P: 10})


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 5), st.booleans()), max_size=30))
def test_two_owners_write_each_offset_once(steps: list[tuple[int, int, bool]]) -> None:
    """Each owner reads from its own position; a response of a commit may be lost."""
    table: dict[TopicPartition, int] = {}
    positions, expected = [0, 0], [{}, {}]  # type: list[int], list[dict[TopicPartition, int]]
    written: list[int] = []
    for owner, length, is_lost in steps:
        end = positions[owner] + length
        start = find_starts({P: (positions[owner], end)}, table, expected[owner])[P]
        written.extend(range(start, end))
        table[P] = max(end, table.get(P, 0))
        if not is_lost:
            positions[owner], expected[owner][P] = end, end
    assert written == list(range(len(written)))

"""Tests for the offset ranges of a sink's batches, and for the start offset of a partition."""

from __future__ import annotations

import pytest

from kraal.config.clients.offset_reset import OffsetReset
from kraal.config.connector.batches import DEFAULT_MAX_RECORDS
from kraal.engine.sink import ranges
from kraal.engine.sink.ranges import Bounds, OffsetOutOfRange, Start, choose_start, count_pieces, next_ranges
from kraal.plugins.api import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("committed", "policy", "expected"),
    [
        pytest.param(7, "earliest", Start(7), id="committed offset"),
        pytest.param(None, "earliest", Start(5), id="no offset: earliest"),
        pytest.param(None, "latest", Start(9), id="no offset: latest"),
        pytest.param(
            2,
            "earliest",
            Start(5, "t-0: offset 2 is not in [5, 9]; continuing at 5"),
            id="expired: earliest, with the gap",
        ),
        pytest.param(None, "by_duration:PT1H", Start(7), id="no offset: an hour ago"),
        pytest.param(None, "by_duration:PT1S", Start(9), id="no record in the duration"),
        pytest.param(None, "by_duration:P9D", Start(5), id="first record deleted"),
        pytest.param(6, "by_duration:PT1H", Start(6), id="committed offset of any age"),
        pytest.param(
            2,
            "by_duration:PT1H",
            Start(7, "t-0: offset 2 is not in [5, 9]; continuing at 7"),
            id="expired: an hour ago",
        ),
    ],
)
def test_start_offset_follows_committed_offset_bounds_and_policy(
    committed: int | None, policy: str, expected: Start
) -> None:
    offsets_by_age = {3_600_000: 7, 1000: None, 9 * 86_400_000: 3}
    reset = OffsetReset.parse(policy)
    assert (
        choose_start(P0, committed, Bounds(5, 9), reset, lambda _, age_ms: offsets_by_age[age_ms]) == expected
    )


def test_policy_none_fails_without_a_valid_offset() -> None:
    with pytest.raises(OffsetOutOfRange, match="t-0: no committed offset"):
        choose_start(P0, None, Bounds(5, 9), OffsetReset("none"), lambda *_: None)


def test_ranges_are_limited_and_distributed() -> None:
    bounds = {P0: Bounds(0, 10), P1: Bounds(0, 5_000_000)}
    assert next_ranges({P0: 0, P1: 0}, bounds) == {P0: (0, 10), P1: (0, DEFAULT_MAX_RECORDS - 10)}


def test_large_records_reduce_the_ranges() -> None:
    assert next_ranges({P0: 0}, {P0: Bounds(0, 5_000_000)}, record_bytes=1_048_576) == {P0: (0, 1000)}


def test_missing_or_fully_read_partition_has_no_range() -> None:
    assert next_ranges({P0: 3, P1: 4}, {P1: Bounds(0, 4)}) == {}


@pytest.mark.parametrize(
    ("offset_ranges", "cores", "expected"),
    [
        pytest.param(
            {P0: (5, 5 + 3 * ranges.MIN_PIECE_RECORDS)}, 2, 2, id="long partition is split by cores"
        ),
        pytest.param({P0: (5, 5 + 3 * ranges.MIN_PIECE_RECORDS)}, 16, 3, id="minimum size of pieces"),
        pytest.param({P0: (0, 10)}, 4, 1, id="short partition is not split"),
        pytest.param({P0: (0, 9_000_000), P1: (0, 1)}, 4, 2, id="several partitions are not split"),
    ],
)
def test_only_a_single_partition_is_split(
    offset_ranges: dict[TopicPartition, tuple[int, int]], cores: int, expected: int
) -> None:
    assert count_pieces(offset_ranges, cores) == expected

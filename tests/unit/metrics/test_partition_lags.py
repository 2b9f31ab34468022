"""Tests for the lags of partitions, in offsets and in time."""

from __future__ import annotations

import pytest

from kraal.core.offsets import TopicPartition
from kraal.metrics.partition_lags import PartitionLag, PartitionLags, measure_lag, next_lags

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_lags_remember_when_the_position_was_last_the_end() -> None:
    lags: PartitionLags = {}
    for now_s, position, end in ((10, 5, 5), (20, 5, 9), (30, 9, 9), (40, 9, 12)):
        lags = next_lags(lags, {P0: (position, end)}, now_s)
    assert lags == {P0: PartitionLag(9, 12, first_report_s=10, caught_up_s=30)}


def test_partitions_without_a_report_are_removed() -> None:
    lags = next_lags({}, {P0: (0, 1), P1: (0, 1)}, 10)
    assert next_lags(lags, {P1: (1, 1)}, 20) == {P1: PartitionLag(1, 1, 10, 20)}


@pytest.mark.parametrize(
    ("position", "written_offset", "caught_up_s", "written_age_s", "measured"),
    [
        pytest.param(9, 9, 70.0, 500.0, (0, 0.0), id="at the end"),
        pytest.param(3, 9, 70.0, 500.0, (0, 0.0), id="the target is ahead of the position"),
        pytest.param(7, 5, 70.0, None, (2, 30.0), id="behind since the position was the end"),
        pytest.param(7, 7, 70.0, 4.0, (2, 4.0), id="a later record is written"),
        pytest.param(7, 7, 70.0, 500.0, (2, 30.0), id="the topic was idle after the latest written record"),
        pytest.param(7, 7, None, 500.0, (2, 500.0), id="never at the end"),
        pytest.param(7, 7, None, None, (2, 90.0), id="nothing is known but the first report"),
        pytest.param(7, 7, 70.0, -5.0, (2, 0.0), id="a timestamp in the future"),
    ],
)
def test_lag_is_the_maximum_age_of_the_first_unwritten_record(
    position: int,
    written_offset: int,
    caught_up_s: float | None,
    written_age_s: float | None,
    measured: tuple[int, float],
) -> None:
    lag = PartitionLag(position, end=9, first_report_s=10, caught_up_s=caught_up_s)
    assert measure_lag(lag, written_offset, written_age_s, now_s=100) == measured

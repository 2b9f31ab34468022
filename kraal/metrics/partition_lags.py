"""How far a sink task is behind the ends of its partitions, in offsets and in time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraal.core.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The position of a task in a partition, and the end of the partition. Times are monotonic seconds."""

    position: int
    end: int
    first_report_s: float
    caught_up_s: float | None
    """Latest time at which the position was known to be the end; None if it has never been."""


PartitionLags = Mapping["TopicPartition", PartitionLag]


def next_lags(
    before: PartitionLags, partitions: Mapping[TopicPartition, tuple[int, int]], now_s: float
) -> PartitionLags:
    """Return the lags after a report with the position and the end of each partition."""
    return {
        partition: _next_lag(before.get(partition), position, end, now_s)
        for partition, (position, end) in partitions.items()
    }


def _next_lag(before: PartitionLag | None, position: int, end: int, now_s: float) -> PartitionLag:
    first_report_s = now_s if before is None else before.first_report_s
    caught_up_s = None if before is None else before.caught_up_s
    return PartitionLag(position, end, first_report_s, now_s if position >= end else caught_up_s)


def measure_lag(
    lag: PartitionLag, written_offset: int, written_age_s: float | None, now_s: float
) -> tuple[int, float]:
    """Return how far a target is behind the end of a partition: the number of offsets, and the time in seconds.

    The time is the maximum age of the first record that is not written. This record is not older than the latest
    written record, whose age is `written_age_s` (None if it is unknown), and it was not there when the position was the
    end. If both times are unknown, the time since the first report is returned.
    `written_offset` is the next offset in the target, which may be ahead of the position.
    """
    records = max(0, lag.end - max(lag.position, written_offset))
    if not records:
        return 0, 0.0
    ages_s = [] if lag.caught_up_s is None else [now_s - lag.caught_up_s]
    if written_age_s is not None:
        ages_s.append(written_age_s)
    return records, max(0.0, min(ages_s, default=now_s - lag.first_report_s))

"""Reports the backlog of a sink task and the ends of its partitions, without requests to brokers.

The end offset of a partition is the maximum of the end offsets in the consumer's fetch responses and in the responses
to the run's offset requests. The backlog is a number of offsets, so transaction markers and compacted records count as
records.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from kraal.engine.sink.ranges import Bounds
    from kraal.plugins.api import TopicPartition

REPORT_INTERVAL_S: Final = 5.0
"""Minimum interval between reports while a task has no batch to write."""

Offsets = Mapping["TopicPartition", int]


def find_ends(positions: Offsets, *ends: Offsets) -> dict[TopicPartition, tuple[int, int]]:
    """Return the position and the highest known end of each partition; an end is not less than the position."""
    return {
        partition: (position, max(position, *(offsets.get(partition, position) for offsets in ends)))
        for partition, position in positions.items()
    }


class Fetches(Protocol):
    """The part of a group member that the report uses."""

    def known_ends(self) -> Offsets:
        """Return the ends of assigned partitions that are known from fetch responses."""


class BacklogReport:
    """Reports the backlog of one run. Not thread-safe.

    Calls the consumer only between batches: during a batch, another thread may be blocked in the consumer, by a
    rebalance that waits for the batch.
    """

    def __init__(
        self,
        report: Callable[[int], None],
        report_ends: Callable[[Mapping[TopicPartition, tuple[int, int]]], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a report.

        `report` receives the number of records, `report_ends` receives the position and the end of each partition, and
        `now` returns monotonic seconds.
        """
        self._report, self._report_ends = report, report_ends
        self._now = now
        self._ends: Offsets = {}
        self._fetched_ends: Offsets = {}
        self._last_report_s = -math.inf

    def set_ends(self, bounds: Mapping[TopicPartition, Bounds]) -> None:
        """Replace all known ends with those that the brokers returned."""
        self._ends = {partition: bound.high for partition, bound in bounds.items()}
        self._fetched_ends = {}

    def record_poll(self, fetches: Fetches, positions: Offsets, *, has_records: bool) -> None:
        """Record a poll; `has_records` is whether it returned records to write.

        Without records, report the backlog if the latest report is old and there are positions.
        """
        is_due = bool(positions) and self._now() - self._last_report_s >= REPORT_INTERVAL_S
        if has_records or is_due:
            self._fetched_ends = fetches.known_ends()
        if is_due and not has_records:
            self.report(positions)

    def report(self, positions: Offsets) -> None:
        """Report the backlog at these positions."""
        self._last_report_s = self._now()
        ends = find_ends(positions, self._ends, self._fetched_ends)
        self._report(sum(end - position for position, end in ends.values()))
        self._report_ends(ends)

    def record_batch(self, positions: Offsets, ranges: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Report the ends, but no backlog: a batch with these ranges is about to be written."""
        batch_ends = {partition: end for partition, (_, end) in ranges.items()}
        self._report_ends(find_ends(positions, self._ends, self._fetched_ends, batch_ends))

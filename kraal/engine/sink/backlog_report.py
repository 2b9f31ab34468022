"""How far a sink task is behind the end of its partitions, in records, without a request to a broker.

An end is the later one of the consumer's fetch responses and the run's own requests for offsets.
Offsets count, so a transaction's marker or a record that compaction removed counts as one record.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from kraal.engine.sink.ranges import Bounds
    from kraal.plugins.api import TopicPartition

IDLE_S: Final = 5.0
"""Seconds after which a task that has no batch to write reports again."""

Offsets = Mapping["TopicPartition", int]


def records_behind(positions: Offsets, *ends: Offsets) -> int:
    """Return the number of offsets between each position and the latest of its known ends, summed. Pure."""
    return sum(
        max(0, *(offsets.get(place, position) - position for offsets in ends))
        for place, position in positions.items()
    )


class Fetches(Protocol):
    """The part of a group member that the report uses."""

    def known_ends(self) -> Offsets:
        """Return the ends of its partitions as far as fetch responses contain them."""


class BacklogReport:
    """Reports the backlog of one run. One thread at a time.

    It calls the consumer only between batches: during a batch another thread may be inside the consumer, in a rebalance
    that waits for that batch.
    """

    def __init__(self, report: Callable[[int], None], now: Callable[[], float] = time.monotonic) -> None:
        """`report` receives the number of records; `now` returns monotonic seconds."""
        self._report = report
        self._now = now
        self._ends: Offsets = {}
        self._fetched: Offsets = {}
        self._reported_s = -math.inf

    def set_ends(self, bounds: Mapping[TopicPartition, Bounds]) -> None:
        """Replace all known ends with those that the brokers returned."""
        self._ends = {place: bound.high for place, bound in bounds.items()}
        self._fetched = {}

    def record_poll(self, fetches: Fetches, positions: Offsets, *, records: bool) -> None:
        """Update the fetched ends after a poll; `records`: whether it returned records, which will be written.

        Without records, report if the latest report is old. Without positions, no backlog is known yet.
        """
        is_due = bool(positions) and self._now() - self._reported_s >= IDLE_S
        if records or is_due:
            self._fetched = fetches.known_ends()
        if is_due and not records:
            self.report(positions)

    def report(self, positions: Offsets) -> None:
        """Report the backlog at these positions."""
        self._reported_s = self._now()
        self._report(records_behind(positions, self._ends, self._fetched))

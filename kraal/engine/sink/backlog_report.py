"""How far a sink task is behind the end of its partitions, in records, without a request to a broker.

The ends are those that fetches have told the consumer and those that the run has asked for anyway, whichever is later.
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
        max(0, *(known.get(place, position) - position for known in ends))
        for place, position in positions.items()
    )


class Fetches(Protocol):
    """The part of a group member that the report uses."""

    def known_ends(self) -> Offsets:
        """Return the ends of its partitions as far as fetches have told."""


class BacklogReport:
    """Reports the backlog of one run. One thread at a time.

    It asks the consumer only between batches: during a batch another thread may be inside the consumer, in a rebalance
    that waits for that batch.
    """

    def __init__(self, report: Callable[[int], None], now: Callable[[], float] = time.monotonic) -> None:
        """`report` is given the number of records; `now` returns monotonic seconds."""
        self._report = report
        self._now = now
        self._ends: Offsets = {}
        self._fetched: Offsets = {}
        self._told_s = -math.inf

    def found(self, bounds: Mapping[TopicPartition, Bounds]) -> None:
        """Keep the ends that the brokers have told, in place of all that was known."""
        self._ends = {place: known.high for place, known in bounds.items()}
        self._fetched = {}

    def polled(self, fetches: Fetches, positions: Offsets, *, records: bool) -> None:
        """Take what fetches have told when a poll has returned records, which will be written, or none.

        Without records it reports if the latest report is old. Without positions nothing is known yet.
        """
        is_due = bool(positions) and self._now() - self._told_s >= IDLE_S
        if records or is_due:
            self._fetched = fetches.known_ends()
        if is_due and not records:
            self.tell(positions)

    def tell(self, positions: Offsets) -> None:
        """Report the backlog at these positions."""
        self._told_s = self._now()
        self._report(records_behind(positions, self._ends, self._fetched))

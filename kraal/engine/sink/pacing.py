"""The minimum time between two batches of a sink, during which its records stay in Kafka.

A sink that commits each batch separately would otherwise write many small ones. Because nothing is read in advance, a
failure between two batches repeats no work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

MAX_CHECK_INTERVAL_S: Final = 0.5
"""Maximum interval between polls of the group member while the next batch is not due."""
BACKLOG_CHECKS: Final = 4
"""Number of times per batch interval that the backlog is compared with the size of a full batch."""


class BatchPacing:
    """Decides when the next batch of a sink may start. Used by one thread at a time."""

    def __init__(self, interval_s: float, now: Callable[[], float] = time.monotonic) -> None:
        """Create an object; `interval_s` is the time between the starts of two batches, `now` returns seconds."""
        self._interval_s, self._now = interval_s, now
        self._due_s = self._check_s = 0.0

    @property
    def has_interval(self) -> bool:
        """Whether batches wait for each other."""
        return self._interval_s > 0

    @property
    def is_due(self) -> bool:
        """Whether a batch may start, whatever its size."""
        return self._now() >= self._due_s

    @property
    def may_be_full(self) -> bool:
        """Whether to request the size of the backlog, because a full batch may start early."""
        return self._now() >= self._check_s

    def may_start(self, *, is_full: bool) -> bool:
        """Return whether a batch may start; `is_full` is whether the records of a full batch are available."""
        now_s = self._now()
        if is_full:
            self._due_s = min(self._due_s, now_s)
        if self.is_due:
            return True
        self._check_s = now_s + self._interval_s / BACKLOG_CHECKS
        return False

    def record_start(self, *, has_more: bool = False) -> None:
        """Record the start of a batch; `has_more` is whether there were more records than fit into the batch."""
        now_s = self._now()
        self._due_s = now_s + self._interval_s
        self._check_s = now_s if has_more else now_s + self._interval_s / BACKLOG_CHECKS

    def stretch(self, interval_s: float) -> float:
        """Return the time until the next poll: `interval_s`, or longer while no batch may start."""
        remaining_s = min(self._due_s, self._check_s) - self._now()
        return interval_s if remaining_s <= interval_s else min(remaining_s, MAX_CHECK_INTERVAL_S)

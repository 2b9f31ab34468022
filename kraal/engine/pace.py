"""The pause between a small batch and the next poll of its task, which grows with the worker's rate of small batches.

A batch costs the same whether it has one record or a hundred. At a low rate, each batch is written at once. At a high
rate, records accumulate during the pause, and tasks with equal pauses are polled at the same time. Their batches are
then passed to the JVM together, and their offsets are stored together. The cost is therefore proportional to the number
of records, and `batch.linger.ms` limits the delay.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Final

STEPS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Possible pauses: only a few, so that tasks pause together."""
PAUSE_PER_RATE_S: Final = 0.001
"""Seconds of pause for each small batch per second."""
TRANSACTION_WEIGHT: Final = 2
"""The number of small batches that a transaction counts as."""
TIME_CONSTANT_S: Final = 1.0
"""Time constant of the exponentially decaying rate."""
MAX_IDLE_POLLS_PER_S: Final = 1000
"""Maximum polls per second of all idle tasks that use the worker's interval; with more tasks, the interval grows."""
BUSY_PERIOD_S: Final = 1.0
"""A task whose last batch is more recent than this is polled after `BUSY_POLL_S` or, if longer, after its pause."""
BUSY_POLL_S: Final = 0.01
BUSY_RATE: Final = 100
"""Small batches per second above which a worker is busy."""
MAX_IGNORED_PAIRS: Final = 15
"""Maximum number of pairs of equally large batches that are ignored between two probes; see `PausePolicy`."""


class Pace:
    """The rate of small batches of a worker, and the resulting pauses.

    Thread-safe, except that only the poller thread calls `count_batch`.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """Create a pace; `now` returns monotonic seconds."""
        self._now = now
        self._rate = 0.0
        """Small batches per second, as of `_rate_time_s`."""
        self._rate_time_s = now()
        self._task_count = 0
        self._idle_s: dict[float, float] = {}
        """Cached results of `idle_s` for the current number of tasks."""
        self._lock = threading.Lock()

    def add_task(self) -> None:
        """Count a task with the worker's poll interval."""
        self._count(1)

    def remove_task(self) -> None:
        """Stop counting a task."""
        self._count(-1)

    def idle_s(self, interval_s: float) -> float:
        """Return the worker's poll interval `interval_s`, stretched if there are many tasks."""
        result_s = self._idle_s.get(interval_s)
        if result_s is None:
            with self._lock:
                result_s = self._idle_s[interval_s] = stretch_interval(interval_s, self._task_count)
        return result_s

    def count_batch(self, *, transaction: bool = False) -> None:
        """Count a small batch; a `transaction` has a higher weight, because it requires several requests."""
        now_s = self._now()
        self._rate = self._rate_at(now_s) + (TRANSACTION_WEIGHT if transaction else 1) / TIME_CONSTANT_S
        self._rate_time_s = now_s

    @property
    def is_busy(self) -> bool:
        """Whether the worker has had many small batches in the last seconds."""
        return self._rate_at(self._now()) > BUSY_RATE

    def pause_s(self, limit_s: float) -> float:
        """Return the time from a small batch to the next poll, at most `limit_s`; 0 to poll at once."""
        return pause_s(self._rate_at(self._now()), limit_s)

    def interval_s(self, idle_s: float, last_batch_s: float, limit_s: float) -> float:
        """Return the interval between empty polls: at most `idle_s`, and shorter soon after a batch.

        `last_batch_s` is the time of the task's last batch, in monotonic seconds.
        """
        if self._now() - last_batch_s > BUSY_PERIOD_S:
            return idle_s
        return min(idle_s, max(BUSY_POLL_S, self.pause_s(limit_s)))

    def _count(self, change: int) -> None:
        with self._lock:
            self._task_count += change
            self._idle_s.clear()

    def _rate_at(self, now_s: float) -> float:
        return self._rate * math.exp((self._rate_time_s - now_s) / TIME_CONSTANT_S)


class IdleInterval:
    """The poll interval of an idle task.

    The interval is set in the task's config. Otherwise, it is the worker's interval, which grows with the number of
    tasks.
    """

    def __init__(self, pace: Pace, task_s: float | None, worker_s: float) -> None:
        self._pace = pace
        self._task_s, self._worker_s = task_s, worker_s
        self._is_counted = False

    @property
    def is_set_by_task(self) -> bool:
        """Whether the task's config sets the interval."""
        return self._task_s is not None

    @property
    def seconds(self) -> float:
        """The current interval."""
        return self._task_s or self._pace.idle_s(self._worker_s)

    def set_polling(self, *, is_polling: bool) -> None:
        """Record whether the task polls: True once it is open, False once it is closed. Idempotent."""
        if self._task_s is None and is_polling is not self._is_counted:
            self._is_counted = is_polling
            (self._pace.add_task if is_polling else self._pace.remove_task)()


class PausePolicy:
    """Decides whether a source pauses after a small batch, so that records accumulate.

    A plugin that returns a fixed number of rows per poll has a backlog. So when two consecutive polls return equally
    many rows, the next poll follows without a pause, as a probe. Each time a probe returns a different number, more
    pairs of equally large polls are ignored before the next probe, up to `MAX_IGNORED_PAIRS`. Only the poller thread
    calls `record_poll`.
    """

    def __init__(self) -> None:
        self.should_pause = False
        """Whether to pause after the latest batch. Thread-safe."""
        self._row_count: int | None = None
        """The number of rows of the latest poll; None if it returned no batch."""
        self._is_probing = False
        """Whether the next poll is a probe."""
        self._ignored_pairs = 0
        """The number of pairs to ignore after the latest failed probe."""
        self._remaining_pairs = 0
        """The number of pairs that remain to be ignored."""

    def record_poll(self, row_count: int | None, *, is_small: bool = False) -> None:
        """Record a poll that returned a table with `row_count` rows, or no table (None)."""
        is_equal = is_small and bool(row_count) and row_count == self._row_count
        if self._is_probing:
            self._ignored_pairs = 0 if is_equal else min(2 * self._ignored_pairs + 1, MAX_IGNORED_PAIRS)
            self._remaining_pairs = self._ignored_pairs
        self._is_probing = is_equal and not self._remaining_pairs
        if is_equal and self._remaining_pairs:
            self._remaining_pairs -= 1
        self.should_pause = is_small and not self._is_probing
        self._row_count = row_count


def stretch_interval(interval_s: float, task_count: int) -> float:
    """Return `interval_s`, or a longer interval if the polls of all tasks would exceed `MAX_IDLE_POLLS_PER_S`."""
    required_s = task_count / MAX_IDLE_POLLS_PER_S
    if required_s <= interval_s:
        return interval_s
    return min((step for step in STEPS_S if step >= required_s), default=required_s)


def pause_s(rate: float, limit_s: float) -> float:
    """Return the pause for a rate of small batches per second: one of `STEPS_S`, 0, or the limit."""
    proportional_s = rate * PAUSE_PER_RATE_S
    if proportional_s >= limit_s:
        return limit_s
    return max((step for step in STEPS_S if step <= proportional_s), default=0.0)

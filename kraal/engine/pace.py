"""How soon after a small batch its task is polled again: the more small batches the worker writes, the later.

A batch costs the same whether it has one record or a hundred. Few batches a second may each go at once; when there are
many, the pause lets records gather, and tasks with equal pauses are polled together, so that their batches cross into
the JVM, and are stored, together. So the cost follows the records, and `batch.linger.ms` limits the delay.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Final

STEPS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Pauses: few different ones, so that tasks pause together."""
PAUSE_PER_RATE_S: Final = 0.001
"""Pause in seconds for each small batch per second."""
TRANSACTION: Final = 2
"""How many small batches a transaction counts as."""
TIME_CONSTANT_S: Final = 1.0
"""Time constant of the rate: older batches hardly count."""
IDLE_POLLS: Final = 1000
"""Polls per second of all idle tasks with the worker's interval; with more tasks, the interval grows."""
BUSY_S: Final = 1.0
"""A task whose last batch is not older than this is polled at `BUSY_POLL_S` or, if it is longer, the pause."""
BUSY_POLL_S: Final = 0.01
MAX_IGNORED: Final = 15
"""Pairs of equal batches that are ignored, at most, before a source is again polled at once to see if it has more."""


class Pace:
    """The rate of small batches of one worker, and the pauses for it. `note`: poller thread; other methods: any."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` returns monotonic seconds."""
        self._now = now
        self._rate = 0.0
        """Small batches per second, as of `_noted_s`."""
        self._noted_s = now()
        self._tasks = 0
        self._idle_s: dict[float, float] = {}
        """The results of `idle_s` for the present number of tasks."""
        self._lock = threading.Lock()

    def add_task(self) -> None:
        """Count a task with the worker's poll interval. Any thread."""
        self._count(1)

    def remove_task(self) -> None:
        """Stop counting a task. Any thread."""
        self._count(-1)

    def idle_s(self, interval_s: float) -> float:
        """Return the worker's poll interval, longer if it has many tasks."""
        result_s = self._idle_s.get(interval_s)
        if result_s is None:
            with self._lock:
                result_s = self._idle_s[interval_s] = stretched_s(interval_s, self._tasks)
        return result_s

    def note(self, *, transaction: bool = False) -> None:
        """Count a small batch; a `transaction` costs several requests, so it counts more."""
        now_s = self._now()
        self._rate = self._rate_at(now_s) + (TRANSACTION if transaction else 1) / TIME_CONSTANT_S
        self._noted_s = now_s

    def pause_s(self, limit_s: float) -> float:
        """Return the time from a small batch to the next poll, at most `limit_s`; 0: poll at once."""
        return pause_s(self._rate_at(self._now()), limit_s)

    def interval_s(self, idle_s: float, last_batch_s: float, limit_s: float) -> float:
        """Return the interval of empty polls: at most `idle_s`, and less soon after a batch.

        `last_batch_s` is the time of the task's last batch in monotonic seconds.
        """
        if self._now() - last_batch_s > BUSY_S:
            return idle_s
        return min(idle_s, max(BUSY_POLL_S, self.pause_s(limit_s)))

    def _count(self, more: int) -> None:
        with self._lock:
            self._tasks += more
            self._idle_s.clear()

    def _rate_at(self, now_s: float) -> float:
        return self._rate * math.exp((self._noted_s - now_s) / TIME_CONSTANT_S)


class IdleInterval:
    """The poll interval of an idle task: its own, or the worker's, which grows with the number of its tasks."""

    def __init__(self, pace: Pace, own_s: float | None, worker_s: float) -> None:
        self._pace = pace
        self._own_s, self._worker_s = own_s, worker_s
        self._is_counted = False

    @property
    def is_own(self) -> bool:
        """Whether the task has an interval of its own."""
        return self._own_s is not None

    @property
    def seconds(self) -> float:
        """The interval now."""
        return self._own_s or self._pace.idle_s(self._worker_s)

    def count(self, *, polls: bool) -> None:
        """Note whether the task polls: True when it is open, False when it is closed. May be called again."""
        if self._own_s is None and polls is not self._is_counted:
            self._is_counted = polls
            (self._pace.add_task if polls else self._pace.remove_task)()


class Gathering:
    """Whether a pause lets records of a source gather. `polled`: poller thread; `pauses`: any.

    A plugin that returns a fixed number of rows has more of them. So if two polls in a row return equally many, the
    next one comes at once, as a test. If it returns less, more and more such pairs are ignored, up to `MAX_IGNORED`.
    """

    def __init__(self) -> None:
        self.pauses = False
        """Whether to pause after the latest batch."""
        self._rows: int | None = None
        """The rows of the latest poll; None if it returned no batch."""
        self._tried = False
        """Whether the latest poll came at once, as a test."""
        self._ignored = 0
        """The pairs to ignore after the latest attempt that failed."""
        self._remaining = 0
        """How many of these remain."""

    def record_poll(self, rows: int | None, *, small: bool = False) -> None:
        """Record the result of a poll: the number of rows of a table, or None."""
        equal = small and bool(rows) and rows == self._rows
        if self._tried:
            self._ignored = 0 if equal else min(2 * self._ignored + 1, MAX_IGNORED)
            self._remaining = self._ignored
        self._tried = equal and not self._remaining
        if equal and self._remaining:
            self._remaining -= 1
        self.pauses = small and not self._tried
        self._rows = rows


def stretched_s(interval_s: float, tasks: int) -> float:
    """Return the poll interval for this number of tasks: longer if their polls would exceed `IDLE_POLLS` per second."""
    wanted_s = tasks / IDLE_POLLS
    if wanted_s <= interval_s:
        return interval_s
    return min((step for step in STEPS_S if step >= wanted_s), default=wanted_s)


def pause_s(rate: float, limit_s: float) -> float:
    """Return the pause at a rate of small batches per second: the longest step that it allows, or the limit."""
    wanted_s = rate * PAUSE_PER_RATE_S
    if wanted_s >= limit_s:
        return limit_s
    return max((step for step in STEPS_S if step <= wanted_s), default=0.0)

"""Repeats of a launched job: later after a retriable error, and when Spark is up if the job needs it before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.session.session import SparkAway
from kraal.plugins.api import RetriableError

LEASE_CHECK_INTERVAL_S: Final = 0.5

_Attempt = tuple[JobLauncher, Callable[[JobResult], None]]
"""A launcher, and the function that receives the final result."""


class Relaunch:
    """One run's job that failed and is launched again, if there is one. Any thread; returns at once."""

    def __init__(
        self,
        repeat: Callable[[RetriableError | SparkAway], float | None],
        spark_missing: Callable[[], str | None],
        leased: Callable[[], bool],
        after: Callable[[float, Callable[[], None]], None],
    ) -> None:
        """Create it without a job.

        Args:
            repeat: receives the error of each failed attempt; returns the delay in seconds, None: until Spark is up.
            spark_missing: returns why Spark cannot be used now, None if it can.
            leased: whether the task may write.
            after: calls a function later.
        """
        self._repeat = repeat
        self._spark_missing = spark_missing
        self._leased = leased
        self._after = after
        self._lock = threading.Lock()
        self._waiting: _Attempt | None = None
        self.awaits_spark = False
        """Whether a job waits for Spark."""

    @property
    def is_waiting(self) -> bool:
        """Whether a job waits for its next attempt."""
        return self._waiting is not None

    def over(self, launch: JobLauncher) -> JobLauncher:
        """Return a launcher whose job is repeated; its result is not RetriableError or SparkAway."""
        return lambda done: launch(partial(self._finish, (launch, done)))

    def spark_ready(self) -> None:
        """Launch the job that waits for Spark."""
        waiting = self._waiting
        if self.awaits_spark and waiting is not None:
            self._again(waiting)

    def give_up(self) -> None:
        """End the job that waits, without a result."""
        waiting = self._waiting
        if waiting is not None and self._take(waiting):
            waiting[1](None)

    def _finish(self, attempt: _Attempt, outcome: JobResult) -> None:
        if not isinstance(outcome, RetriableError | SparkAway):
            attempt[1](outcome)
            return
        with self._lock:
            self._waiting, self.awaits_spark = attempt, isinstance(outcome, SparkAway)
        delay_s = self._repeat(outcome)
        if delay_s is not None:
            self._after(delay_s, partial(self._again, attempt))
        elif self._spark_missing() is None:  # it has come up meanwhile
            self._again(attempt)

    def _again(self, attempt: _Attempt) -> None:
        if self._waiting is attempt and not self._leased():  # another worker may run the task by now
            self._after(LEASE_CHECK_INTERVAL_S, partial(self._again, attempt))
        elif self._take(attempt):
            launch, done = attempt
            self.over(launch)(done)

    def _take(self, attempt: _Attempt) -> bool:
        """Remove a job that waits; return False if it does not wait any more."""
        with self._lock:
            if self._waiting is not attempt:
                return False
            self._waiting, self.awaits_spark = None, False
            return True

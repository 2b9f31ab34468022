"""Repeats of a launched job: later after a retriable error, and when Spark is up if the job needs it before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from kraal.engine.executor import Executor, JobLauncher, JobResult
from kraal.engine.lease_watch import LeaseWatch
from kraal.engine.memory_quarantine import MemoryQuarantine
from kraal.engine.session.session import SparkUnavailable
from kraal.plugins.api import RetriableError

LEASE_CHECK_INTERVAL_S: Final = 0.5


class Attempt(NamedTuple):
    """A job of a run, which may be launched again."""

    job: JobLauncher
    executor: Executor
    """The executor of the job."""
    done: Callable[[JobResult], None]
    """Receives the final result, which is not RetriableError or SparkUnavailable."""
    is_requested: bool = False
    """Whether it writes a requested batch: then the memory quarantine applies."""


class Relaunch:
    """One run's job that failed and is launched again, if there is one. Any thread; returns at once."""

    def __init__(
        self,
        quarantine: MemoryQuarantine,
        watch: LeaseWatch,
        repeat: Callable[[RetriableError | SparkUnavailable], float | None],
        spark_missing: Callable[[], str | None],
        leased: Callable[[], bool],
        after: Callable[[float, Callable[[], None]], None],
    ) -> None:
        """The job comes with `launch`.

        Args:
            quarantine: has the job wait for other tasks.
            watch: interrupts a job without a lease.
            repeat: receives the error of each failed attempt; returns the delay in seconds, None: until Spark is up.
            spark_missing: returns why Spark cannot be used now, None if it can.
            leased: whether the task may write.
            after: calls a function later.
        """
        self._quarantine = quarantine
        self._watch = watch
        self._repeat = repeat
        self._spark_missing = spark_missing
        self._leased = leased
        self._after = after
        self._lock = threading.Lock()
        self._waiting: Attempt | None = None
        self.awaits_spark = False
        """Whether a job waits for Spark."""

    @property
    def is_waiting(self) -> bool:
        """Whether a job waits for its next attempt."""
        return self._waiting is not None

    def launch(self, attempt: Attempt) -> None:
        """Launch a job, and repeat it after an error that allows it."""
        self._watch.begin(attempt.executor.interrupt)
        wait = self._quarantine.begin(self._watch.task, attempt.executor) if attempt.is_requested else None
        if wait is None:
            attempt.job(partial(self._finish, attempt))
        else:
            self._finish(attempt, wait)

    def spark_ready(self) -> None:
        """Launch the job that waits for Spark."""
        waiting = self._waiting
        if self.awaits_spark and waiting is not None:
            self._again(waiting)

    def give_up(self) -> None:
        """End the job that waits, without a result."""
        waiting = self._waiting
        if waiting is not None and self._take(waiting):
            waiting.done(None)

    def _finish(self, attempt: Attempt, outcome: JobResult) -> None:
        if attempt.is_requested:
            self._quarantine.end(self._watch.task, attempt.executor, outcome)
        outcome = self._watch.end(outcome)
        if not isinstance(outcome, RetriableError | SparkUnavailable):
            attempt.done(outcome)
            return
        with self._lock:
            self._waiting, self.awaits_spark = attempt, isinstance(outcome, SparkUnavailable)
        delay_s = self._repeat(outcome)
        if delay_s is not None:
            self._after(delay_s, partial(self._again, attempt))
        elif self._spark_missing() is None:  # it has come up meanwhile
            self._again(attempt)

    def _again(self, attempt: Attempt) -> None:
        if self._waiting is attempt and not self._leased():  # another worker may run the task by now
            self._after(LEASE_CHECK_INTERVAL_S, partial(self._again, attempt))
        elif self._take(attempt):
            self.launch(attempt)

    def _take(self, attempt: Attempt) -> bool:
        """Remove a job that waits; return False if it does not wait any more."""
        with self._lock:
            if self._waiting is not attempt:
                return False
            self._waiting, self.awaits_spark = None, False
            return True

"""Relaunches jobs that failed: after a delay for a retriable error, or as soon as Spark is up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from kraal.engine.executor import Executor, JobLauncher, JobResult
from kraal.engine.lease_watch import LeaseWatch
from kraal.engine.session.session import SparkUnavailable
from kraal.engine.spark_quarantine import SparkQuarantine
from kraal.plugins.api import RetriableError

LEASE_CHECK_INTERVAL_S: Final = 0.5


class RunJob(NamedTuple):
    """A job of a run, and the callback for its result."""

    launch: JobLauncher
    executor: Executor
    """The executor that created the job."""
    done: Callable[[JobResult], None]
    """Receives the final result, which is never a RetriableError or SparkUnavailable."""
    is_requested: bool = False
    """Whether the job writes a requested batch, so that the Spark quarantine applies."""


class Relaunch:
    """Launches the jobs of one run, and relaunches jobs that failed. Thread-safe; methods return at once."""

    def __init__(
        self,
        quarantine: SparkQuarantine,
        watch: LeaseWatch,
        repeat: Callable[[RetriableError | SparkUnavailable], float | None],
        spark_unavailable_reason: Callable[[], str | None],
        has_lease: Callable[[], bool],
        call_later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        """Create a launcher without a job.

        Args:
            quarantine: delays the job while other tasks must run alone.
            watch: interrupts a job without a lease.
            repeat: receives the error of each failed attempt; returns the delay in seconds, or None to wait for Spark.
            spark_unavailable_reason: returns why Spark is unavailable, or None if it is available.
            has_lease: returns whether the task may write.
            call_later: calls a function after a number of seconds.
        """
        self._quarantine = quarantine
        self._watch = watch
        self._repeat = repeat
        self._spark_unavailable_reason = spark_unavailable_reason
        self._has_lease = has_lease
        self._call_later = call_later
        self._lock = threading.Lock()
        self._waiting: RunJob | None = None
        self.awaits_spark = False
        """Whether a job waits for Spark."""

    @property
    def is_waiting(self) -> bool:
        """Whether a job waits for its next attempt."""
        return self._waiting is not None

    def launch(self, job: RunJob) -> None:
        """Launch a job, and relaunch it after a retriable error or when Spark is up again."""
        self._watch.begin(job.executor.interrupt)
        error = self._quarantine.begin(self._watch.task, job.executor) if job.is_requested else None
        if error is None:
            job.launch(partial(self._handle_outcome, job))
        else:
            self._handle_outcome(job, error)

    def on_spark_ready(self) -> None:
        """Launch the job that waits for Spark."""
        job = self._waiting
        if self.awaits_spark and job is not None:
            self._relaunch(job)

    def cancel(self) -> None:
        """End a waiting job with the result None."""
        job = self._waiting
        if job is not None and self._remove(job):
            job.done(None)

    def _handle_outcome(self, job: RunJob, outcome: JobResult) -> None:
        """Report the final result of a job, or schedule its next attempt."""
        if job.is_requested:
            self._quarantine.end(self._watch.task, job.executor, outcome)
        outcome = self._watch.end(outcome)
        if not isinstance(outcome, RetriableError | SparkUnavailable):
            job.done(outcome)
            return
        with self._lock:
            self._waiting, self.awaits_spark = job, isinstance(outcome, SparkUnavailable)
        delay_s = self._repeat(outcome)
        if delay_s is not None:
            self._call_later(delay_s, partial(self._relaunch, job))
        elif self._spark_unavailable_reason() is None:  # Spark has started meanwhile
            self._relaunch(job)

    def _relaunch(self, job: RunJob) -> None:
        if self._waiting is job and not self._has_lease():  # another worker may run the task by now
            self._call_later(LEASE_CHECK_INTERVAL_S, partial(self._relaunch, job))
        elif self._remove(job):
            self.launch(job)

    def _remove(self, job: RunJob) -> bool:
        """Remove a waiting job; return False if it is no longer waiting."""
        with self._lock:
            if self._waiting is not job:
                return False
            self._waiting, self.awaits_spark = None, False
            return True

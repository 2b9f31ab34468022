"""The interface between a run and its source or sink executor, and the results of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from kraal.core.lease import LEASE_EXPIRED
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import BatchDone, Committed, Failed, Stopped
from kraal.engine.failure_trace import (
    failure_trace,
    find_broker_failure,
    is_bridge_failure,
    is_context_lost,
    is_conversion_failure,
)
from kraal.engine.records.fault import ToleranceExceeded
from kraal.engine.session.session import SparkUnavailable
from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.plugins.api import RetriableError


class StillWriting:
    """The result of a check of continuous writing that found records in flight and no new acknowledgements."""


STILL_WRITING: Final = StillWriting()
JobResult = BatchDone | Committed | StillWriting | None | BaseException
"""The result of a launched job; None if there was no batch after all, so that the run polls again."""

ABANDON_TIMEOUT_S = 5.0
"""How long an ended run may remain in plugin code or Spark before it is abandoned and its end is reported."""

JobLauncher = Callable[[Callable[[JobResult], None]], None]
"""Starts a job without waiting for it; the callback receives the result, on any thread."""


class Executor(Protocol):
    """The source- or sink-specific part of a run.

    Not thread-safe, except for `cancel`, `finish_soon` and `interrupt`.
    """

    @property
    def poll_interval_s(self) -> float:
        """The interval between polls while there is no data."""

    @property
    def pause_s(self) -> float:
        """The time from a batch to the next poll; 0 to poll at once."""

    @property
    def can_wait(self) -> bool:
        """Whether `wait` can replace the pause after an empty poll."""

    @property
    def polls_when_idle(self) -> bool:
        """Whether to call `poll` even when no batch is requested."""

    @property
    def can_skip_poll(self) -> Callable[[], bool] | None:
        """Returns whether the next poll would return no job and can be skipped; None if no poll can be skipped.

        Must return within microseconds. Called on the poller thread, without the lock of the run.
        """

    @property
    def has_pending_commit(self) -> bool:
        """Whether a reported batch must be committed before a graceful stop."""

    @property
    def is_flowing(self) -> bool:
        """Whether records flow without requests; `poll(requested=False)` then returns the job that ends the flow."""

    def open(self) -> str | None:
        """Open the plugin and return its version. Called on a pool thread."""

    def poll(self, *, requested: bool) -> JobLauncher | None:
        """Return a job if there is work. Must return within milliseconds.

        Called on the poller thread, or after `wait` on a waiting thread.
        """

    def wait(self) -> None:
        """Block briefly until a poll is likely to return records. Called on a waiting thread.

        Does not raise: the next `poll` raises the error, if any.
        """

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit a sink's offsets. Called on a pool thread."""

    def close(self) -> None:
        """Close the plugin. Called on a pool thread."""

    def cancel(self) -> None:
        """Cancel the running job. Idempotent; must not block."""

    def finish_soon(self) -> None:
        """End a job of several batches soon, if one is running or being polled for. Idempotent; must not block."""

    def interrupt(self) -> bool:
        """Cancel the running job if it can be launched again; return whether it can. Thread-safe, like `cancel`."""


class OneBatchJobs:
    """A base class of executors whose jobs have one batch."""

    def finish_soon(self) -> None:
        """No-op."""


class NoExecutor(OneBatchJobs):
    """The executor of a run that has not opened a plugin: all methods are no-ops. Implements `Executor`."""

    poll_interval_s = 1.0
    pause_s = 0.0
    can_wait = polls_when_idle = has_pending_commit = is_flowing = False
    can_skip_poll: Callable[[], bool] | None = None

    def open(self) -> None:
        """No-op."""

    def poll(self, *, requested: bool) -> None:
        """Return no job."""

    def wait(self) -> None:
        """Return at once."""

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """No-op."""

    def close(self) -> None:
        """No-op."""

    def cancel(self) -> None:
        """No-op."""

    def interrupt(self) -> bool:
        """Return False, as there is no job."""
        return False


def run_job(function: Callable[[], JobResult]) -> JobResult:
    """Run a job and return its result, which may be an exception, including SystemExit.

    If brokers were unavailable to a client in the JVM, the result is a RetriableError: although Spark's readers
    fail after minutes and its writers after `delivery.timeout.ms`, the job must be retried. May call the JVM to find
    the causes of an error.
    """
    try:
        return function()
    except BaseException as error:  # noqa: BLE001 - plugin code may raise anything
        cause = find_broker_failure(error)
        if cause is None:
            return error
        retriable = RetriableError(cause)
        retriable.__cause__ = error
        return retriable


def start_job(start: Callable[[], None], done: Callable[[JobResult], None]) -> None:
    """Call a function that starts a job; its exception, if any, becomes the result of the job. See `run_job`."""
    error = run_job(start)
    if error is not None:
        done(error)


class Phase(Enum):
    """The current activity of a run."""

    OPENING = auto()
    AWAITING_SPARK = auto()
    IDLE = auto()
    POLLING = auto()
    WORKING = auto()
    CLOSING = auto()
    OVER = auto()


@dataclass(slots=True)
class PendingRequests:
    """Requests that are not completed yet."""

    next_batch: bool = False
    stop: bool = False
    hold: bool = False
    commit: Mapping[SourcePartition, Offset] | None = None
    end: Failed | Stopped | None = None
    """The run's last event, once it is determined."""

    @property
    def has_only_batch_request(self) -> bool:
        """Whether a batch is the only pending request."""
        return self.next_batch and not (self.stop or self.hold) and self.commit is None and self.end is None

    @property
    def cancels_retries(self) -> bool:
        """Whether to drop a pending retry."""
        return self.end is not None or (self.stop and self.commit is None)

    def must_end_flow(self, executor: Executor) -> bool:
        """Return whether a continuous flow of records must end before a pause or a stop."""
        return (self.hold or self.stop) and self.end is None and executor.is_flowing

    def can_close(self, executor: Executor) -> bool:
        """Return whether the run has ended, or must stop and has neither a batch to commit nor a flow to end."""
        if self.end is not None or not self.stop:
            return self.end is not None
        return self.commit is None and not executor.has_pending_commit and not self.must_end_flow(executor)


def commit_job(
    executor: Executor,
    offsets: Mapping[SourcePartition, Offset],
    has_lease: Callable[[], bool],
    submit: Callable[[Callable[[], None]], None],
) -> JobLauncher:
    """Return the job that commits a sink's offsets on a pool thread; without a lease it fails with RetriableError."""

    def commit() -> JobResult:
        if not has_lease():
            raise RetriableError(LEASE_EXPIRED)
        executor.commit(offsets)
        return Committed()

    return lambda done: submit(lambda: done(run_job(commit)))


def make_failure(
    error: BaseException, failure_cause: Callable[[BaseException], str | None], location: str
) -> Failed:
    """Return the last event of a failed run; `failure_cause` returns why Spark ended, if it did. May call the JVM."""
    is_lost = is_bridge_failure(error) or is_context_lost(error) or isinstance(error, SparkUnavailable)
    cause = failure_cause(error) if is_lost else None
    if cause is not None:
        return Failed(trace=cause, engine_lost=True)
    trace = failure_trace(error, location)
    return Failed(trace=trace, errors=_count_errors(error, trace))


def _count_errors(error: BaseException, trace: str) -> ErrorCounts:
    """Return the record errors that a failure represents."""
    if isinstance(error, ToleranceExceeded):
        return error.counts
    return ErrorCounts(failures=1, errors=1) if is_conversion_failure(trace) else NO_ERRORS

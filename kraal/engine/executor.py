"""The interface between a run and the executor of a source or sink, and the results of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from kraal.core.lease import LEASE_OVER
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import BatchDone, Committed, Failed, Stopped
from kraal.engine.failure_trace import (
    brokers_away,
    failure_trace,
    is_bridge_failure,
    is_of_a_record,
    lost_context,
)
from kraal.engine.records.fault import ToleranceExceeded
from kraal.engine.session.session import SparkUnavailable
from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.plugins.api import RetriableError


class StillWriting:
    """The result of a check of continuous writing: records are in flight, and none was acknowledged since."""


STILL_WRITING: Final = StillWriting()
JobResult = BatchDone | Committed | StillWriting | None | BaseException
"""The result of a launched job; None: there was no batch after all; poll again."""

GRACE_S = 5.0
"""How long an ended run may stay inside plugin code or Spark before its end is reported anyway."""

JobLauncher = Callable[[Callable[[JobResult], None]], None]
"""Starts a job without waiting for it; the result arrives on any thread."""


class Executor(Protocol):
    """The part of a run that is specific to sources or sinks. One thread at a time, except for `cancel`."""

    @property
    def poll_interval_s(self) -> float:
        """The interval between polls while there is no data."""

    @property
    def pause_s(self) -> float:
        """The time from a batch to the next poll; 0: at once."""

    @property
    def waits(self) -> bool:
        """Whether `wait` can be called now in place of a pause between empty polls."""

    @property
    def polls_idle(self) -> bool:
        """Whether to call `poll` even when no batch is requested."""

    @property
    def owes_commit(self) -> bool:
        """Whether a reported batch must be committed before the run may end gracefully."""

    @property
    def runs_on(self) -> bool:
        """Whether records flow without a request; `poll(asked=False)` then returns the job that ends the flow."""

    def open(self) -> str | None:
        """Open the plugin; return its version. Pool thread."""

    def poll(self, *, asked: bool) -> JobLauncher | None:
        """Look for work; milliseconds. Poller thread, or a waiting thread after `wait`."""

    def wait(self) -> None:
        """Block briefly until a poll is likely to return records. Waiting thread. Errors are those of the next poll."""

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit a sink's offsets. Pool thread."""

    def close(self) -> None:
        """Close the plugin. Pool thread."""

    def cancel(self) -> None:
        """Cancel the running job. Must not wait; may be called twice."""

    def interrupt(self) -> bool:
        """Cancel a running job that may be launched again; return False if it cannot be. Threads as for `cancel`."""


class NoExecutor:
    """The executor of a run that has not opened a plugin: no operation has an effect. Implements `Executor`."""

    poll_interval_s = 1.0
    pause_s = 0.0
    waits = polls_idle = owes_commit = runs_on = False

    def open(self) -> None:
        """No-op, like all methods."""

    def poll(self, *, asked: bool) -> None:
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
        """Return False: there is no job."""
        return False


def run_job(function: Callable[[], JobResult]) -> JobResult:
    """Run a job's code; an exception, including SystemExit, is its result.

    Returns a RetriableError if brokers did not answer a client of the JVM: such a job is run again, because Spark's
    readers give up after minutes, and its writers when the configured `delivery.timeout.ms` has passed.
    Thread: may ask the JVM for an error's causes.
    """
    try:
        return function()
    except BaseException as error:  # noqa: BLE001 - the border to plugin code
        cause = brokers_away(error)
        if cause is None:
            return error
        retriable = RetriableError(cause)
        retriable.__cause__ = error
        return retriable


def start_job(start: Callable[[], None], done: Callable[[JobResult], None]) -> None:
    """Call a function that starts a job; if it fails, its exception is the job's result. Thread as for `run_job`."""
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
    """Requests that are not carried out yet."""

    asked: bool = False
    stop: bool = False
    hold: bool = False
    commit: Mapping[SourcePartition, Offset] | None = None
    end: Failed | Stopped | None = None
    """The run's last event, once it is known."""

    @property
    def only_batch_requested(self) -> bool:
        """Whether a batch is the only pending request."""
        return self.asked and not (self.stop or self.hold) and self.commit is None and self.end is None

    @property
    def cancels_retries(self) -> bool:
        """Whether a pending retry is dropped."""
        return self.end is not None or (self.stop and self.commit is None)

    def must_end_flow(self, executor: Executor) -> bool:
        """Whether a flow of records without requests must end before a pause or a stop."""
        return (self.hold or self.stop) and self.end is None and executor.runs_on

    def may_close(self, executor: Executor) -> bool:
        """Whether the run is over, or shall stop and has no batch left to commit."""
        if self.end is not None or not self.stop:
            return self.end is not None
        return self.commit is None and not executor.owes_commit and not self.must_end_flow(executor)


def commit_job(
    executor: Executor,
    offsets: Mapping[SourcePartition, Offset],
    leased: Callable[[], bool],
    submit: Callable[[Callable[[], None]], None],
) -> JobLauncher:
    """Return the job that commits a sink's offsets on a pool's thread; it fails with RetriableError without a lease."""

    def commit() -> JobResult:
        if not leased():
            raise RetriableError(LEASE_OVER)
        executor.commit(offsets)
        return Committed()

    return lambda done: submit(lambda: done(run_job(commit)))


def failure(error: BaseException, failure_cause: Callable[[BaseException], str | None], where: str) -> Failed:
    """Return a run's last event; `failure_cause` returns why Spark ended, if it did. Calls the JVM."""
    is_lost = is_bridge_failure(error) or lost_context(error) or isinstance(error, SparkUnavailable)
    cause = failure_cause(error) if is_lost else None
    if cause is not None:
        return Failed(trace=cause, engine_lost=True)
    trace = failure_trace(error, where)
    return Failed(trace=trace, errors=_counts(error, trace))


def _counts(error: BaseException, trace: str) -> ErrorCounts:
    """Return the record errors that a failure counts as."""
    if isinstance(error, ToleranceExceeded):
        return error.counts
    return ErrorCounts(failures=1, errors=1) if is_of_a_record(trace) else NO_ERRORS

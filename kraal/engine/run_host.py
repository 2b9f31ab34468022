"""The resources that runs share, and the poll timer, step reports and waiting reports of one run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from kraal.core.ids import TaskId
from kraal.engine.api import RunEvent, Waiting
from kraal.engine.executor import Executor, JobResult, StillWriting
from kraal.engine.spark_quarantine import SparkQuarantine
from kraal.engine.thread_pool import Owner, Pool
from kraal.engine.timer import TimerThread
from kraal.engine.waiters import Waiters

if TYPE_CHECKING:
    from kraal.engine.api import Run, StepReporter


MAX_SHARED_INTERVAL_S: Final = 1.0
"""Tasks with a poll interval up to this are polled at the same times, so that their batches are written together."""


class Host(Protocol):
    """The resources that runs share: threads, timers and the state of Spark."""

    @property
    def pool(self) -> Pool:
        """Threads that may block."""

    @property
    def poller(self) -> TimerThread:
        """The timer thread."""

    @property
    def waiters(self) -> Waiters:
        """Threads that block until a consumer has a record."""

    @property
    def remove_run(self) -> Callable[[TaskId, Run], None]:
        """Removes a run that is over."""

    @property
    def quarantine(self) -> SparkQuarantine:
        """Decides which tasks must wait for other tasks."""

    def spark_unavailable_reason(self) -> str | None:
        """Return why Spark is unavailable, or None if it is available."""

    def await_at_open(self) -> str | None:
        """Return why opened runs must wait for Spark; None if Spark is up, or if it starts on demand."""

    def failure_cause(self, error: BaseException) -> str | None:
        """Return why Spark ended if its JVM is dead or dying, otherwise None. May block briefly."""

    def abandon_calls(self, owner: Owner) -> None:
        """Replace the threads that an ended run's calls occupy, now and later."""


class Poll(Protocol):
    """The function that polls for a run."""

    def __call__(self, number: int, *, wait: bool = False) -> bool:
        """Poll, unless the poll with this `number` was replaced or cancelled.

        With `wait`, first wait for records, on a thread that may block. Return whether to poll again after the same
        interval; if True, no other poll has been scheduled.
        """


class PollTimer:
    """Schedules the polls of a run; a new time replaces the previous one. Guarded by the run's lock."""

    def __init__(self, host: Host, owner: Owner, poll: Poll) -> None:
        self._poller, self._waiters = host.poller, host.waiters
        self._owner = owner
        self._poll = poll
        self._number = 0
        self._interval_s = 0.0
        """The interval of the scheduled poll, if it is shared with other tasks."""

    def set_next(self, executor: Executor, *, soon: bool) -> None:
        """Call `poll` after the executor's pause if `soon` and it has one.

        Otherwise, wait for data on a waiting thread. If that is not possible, poll at once if `soon`, or after the poll
        interval. On the timer thread, the poll would queue behind those of other tasks.
        """
        if soon and (pause_s := executor.pause_s):
            self._set_together(pause_s, executor)
        elif not (executor.can_wait and self._wait()):
            self._set_together(0.0 if soon else executor.poll_interval_s, executor)

    def is_current(self, number: int) -> bool:
        """Return whether the poll with this number is still scheduled; reliable only under the lock of the run."""
        return number == self._number

    def keeps_interval(self, executor: Executor) -> bool:
        """Return whether the executor's next poll is due after the same interval as the current one."""
        return executor.poll_interval_s == self._interval_s and not executor.can_wait

    def set(self, delay_s: float) -> None:
        """Call `poll` after `delay_s` seconds."""
        self.cancel()
        poll = partial(self._poll_if_current, self._number)
        if delay_s:
            self._poller.call_later(delay_s, poll, self._owner)
        else:
            self._poller.call_soon(poll, self._owner)

    def _set_together(self, interval_s: float, executor: Executor) -> None:
        """Call `poll` at the multiples of a short `interval_s`, at the same times as other tasks; skip idle polls."""
        if not 0 < interval_s <= MAX_SHARED_INTERVAL_S:
            self.set(interval_s)
            return
        self.cancel()
        self._interval_s = interval_s
        number, can_skip_poll = self._number, executor.can_skip_poll
        can_skip = None
        if can_skip_poll is not None:

            def can_skip() -> bool:
                return self.is_current(number) and can_skip_poll()

        poll = partial(self._poll_if_current, number)
        self._poller.call_at_interval(interval_s, poll, self._owner, can_skip=can_skip)

    def _poll_if_current(self, number: int) -> bool:
        return self.is_current(number) and self._poll(number)

    def _wait(self) -> bool:
        """Call `poll` with `wait` on a waiting thread; return False if none is free."""
        self.cancel()
        number = self._number

        def wait() -> None:
            if self.is_current(number):
                self._poll(number, wait=True)

        return self._waiters.try_submit(wait)

    def cancel(self) -> None:
        """Do not call `poll` until a new time is set."""
        self._number += 1
        self._interval_s = 0.0


class StepReports:
    """Reports the steps of a run. Consecutive checks of continuous writing without progress are a single step."""

    def __init__(self, working: StepReporter) -> None:
        self._working = working
        self._is_writing = False
        """Whether the latest job was a check of continuous writing that found no new acknowledgements."""

    def begin(self, step: str) -> None:
        """Record that a poll, a batch or a commit starts or is retried."""
        self._working(busy=True, step="" if self._is_writing and step == "poll" else step)

    def fail(self, why: str) -> None:
        """Record why the step is retried or must wait."""
        self._working(busy=True, failure=why)

    def end_poll(self) -> None:
        """Record that a poll returned no batch."""
        if not self._is_writing:
            self._working(busy=False)

    def end_job(self, result: JobResult) -> None:
        """Record the end of a job."""
        self._is_writing = isinstance(result, StillWriting)
        self.end_poll()

    def end(self) -> None:
        """Record that no step is in progress."""
        self._is_writing = False
        self._working(busy=False)


class WaitingReports:
    """Reports why a run waits: each retry, and any other reason once until the wait ends."""

    def __init__(self, report: Callable[[RunEvent], None]) -> None:
        self._report = report
        self._last: str | None = None

    def add(self, reason: str, *, retry: bool, engine_failed: bool) -> None:
        """Report a retry, or a reason that differs from the last one."""
        if retry or self._last != reason:
            self._last = reason
            self._report(Waiting(reason, retry=retry, engine_failed=engine_failed))

    def end_wait(self) -> None:
        """Record that the run no longer waits."""
        self._last = None

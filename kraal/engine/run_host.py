"""The resources that runs share, and one run's poll timer and reports of waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from kraal.core.ids import TaskId
from kraal.engine.api import RunEvent, Waiting
from kraal.engine.executor import Executor, JobResult, StillWriting
from kraal.engine.memory_quarantine import MemoryQuarantine
from kraal.engine.thread_pool import Owner, Pool
from kraal.engine.timer import TimerThread
from kraal.engine.waiters import Waiters

if TYPE_CHECKING:
    from kraal.engine.api import Run, Working


MAX_SHARED_INTERVAL_S: Final = 1.0
"""Tasks with a poll interval up to this are polled at the same moments, so that their batches are written together."""


class Host(Protocol):
    """Resources that runs share: threads, timers and the state of Spark."""

    @property
    def pool(self) -> Pool:
        """Threads that may block."""

    @property
    def poller(self) -> TimerThread:
        """The thread for timers."""

    @property
    def waiters(self) -> Waiters:
        """Threads that wait for records."""

    @property
    def remove_run(self) -> Callable[[TaskId, Run], None]:
        """Removes a run that is over."""

    @property
    def quarantine(self) -> MemoryQuarantine:
        """Which tasks have to wait for other tasks before they are polled."""

    def spark_missing(self) -> str | None:
        """Return why Spark cannot be used now, or None if it can."""

    def await_at_open(self) -> str | None:
        """Return why runs must not open yet: Spark has ended, or all records need it; otherwise None."""

    def failure_cause(self, error: BaseException) -> str | None:
        """Return why Spark ended if its JVM is dead or dying, else None. May block briefly."""

    def abandon_calls(self, owner: Owner) -> None:
        """Replace the threads that calls of an ended run hold, now and later."""


class Poll(Protocol):
    """A run's poll."""

    def __call__(self, number: int, *, wait: bool = False) -> bool:
        """Poll if `number` is current; `wait`: first wait for records, on a thread that may block.

        Returns whether to poll again after the same interval; then no other time is set.
        """


class PollTimer:
    """Schedules a run's `poll`; a new time replaces the previous one. Guarded by the run's lock."""

    def __init__(self, host: Host, owner: Owner, poll: Poll) -> None:
        self._poller, self._waiters = host.poller, host.waiters
        self._owner = owner
        self._poll = poll
        self._number = 0
        self._interval_s = 0.0
        """The interval in which tasks are polled together."""

    def set_next(self, executor: Executor, *, soon: bool) -> None:
        """Call `poll` after the executor's pause (`soon`), after its wait, or after its poll interval."""
        if soon:
            self.set(executor.pause_s, together=True)
        elif not (executor.waits and self._wait()):
            self.set(executor.poll_interval_s, together=True)

    def is_current(self, number: int) -> bool:
        """Whether the time with this number was not replaced; certain under the run's lock."""
        return number == self._number

    def keeps_interval(self, executor: Executor) -> bool:
        """Whether the executor's next poll is due after the same interval as the current one."""
        return executor.poll_interval_s == self._interval_s and not executor.waits

    def set(self, delay_s: float, *, together: bool = False) -> None:
        """Call `poll` in `delay_s` seconds; 0: at once. `together`: at the next multiple of a short delay."""
        self.cancel()
        number = self._number

        def due() -> bool:
            return self.is_current(number) and self._poll(number)

        if not delay_s:
            self._poller.call_soon(due, self._owner)
        elif together and delay_s <= MAX_SHARED_INTERVAL_S:
            self._interval_s = delay_s
            self._poller.at_next(delay_s, due, self._owner)
        else:
            self._poller.after(delay_s, due, self._owner)

    def _wait(self) -> bool:
        """Have `poll` wait on a waiting thread, if one is free; return whether it is."""
        self.cancel()
        number = self._number

        def wait() -> None:
            if self.is_current(number):
                self._poll(number, wait=True)

        return self._waiters.take(wait)

    def cancel(self) -> None:
        """Do not call `poll` until it is set again."""
        self._number += 1
        self._interval_s = 0.0


class Steps:
    """Reports the steps of a run. Continuous writing without progress is one step, however often it is checked."""

    def __init__(self, working: Working) -> None:
        self._working = working
        self._continues = False
        """Whether the latest job was such a check."""

    def begin(self, step: str) -> None:
        """Record that a poll, a batch or a commit starts, or is repeated."""
        self._working(busy=True, step="" if self._continues and step == "poll" else step)

    def fail(self, why: str) -> None:
        """Record why the step is repeated or waits."""
        self._working(busy=True, failure=why)

    def end_poll(self) -> None:
        """Record that a poll returned no batch."""
        if not self._continues:
            self._working(busy=False)

    def end_job(self, result: JobResult) -> None:
        """Record the end of a job."""
        self._continues = isinstance(result, StillWriting)
        self.end_poll()

    def end(self) -> None:
        """Record that the run is at no step."""
        self._continues = False
        self._working(busy=False)


class WaitingReports:
    """Reports why a run waits: each retry, and every other reason once until the wait is over."""

    def __init__(self, report: Callable[[RunEvent], None]) -> None:
        self._report = report
        self._last: str | None = None

    def add(self, reason: str, *, retry: bool, engine_failed: bool) -> None:
        """Report a reason, unless it equals the last one."""
        if retry or self._last != reason:
            self._last = reason
            self._report(Waiting(reason, retry=retry, engine_failed=engine_failed))

    def end_wait(self) -> None:
        """Record that the run no longer waits."""
        self._last = None

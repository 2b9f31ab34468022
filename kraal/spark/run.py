"""The life of one run: what may happen when, the same for sources and sinks.

    OPENING ──► AWAITING_SPARK ──► IDLE ──► POLLING ──► WORKING ──► IDLE …      ──► CLOSING ──► OVER
      pool                                  poller      pool                        pool

A run does one thing at a time, so plugin objects see one thread at a time without a lock around them: the
phase is the lock. Whatever comes meanwhile (`stop`, `commit`, Spark's death) is noted and done when that one
thing has ended. What must not be waited for (a cancel, Spark's death) is reported after `GRACE_S` at the
latest, even if a plugin never comes back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.offsets import Offset, SourcePartition
from kraal.plugins.api import RetriableError
from kraal.spark.api import (
    Committed,
    Failed,
    Held,
    Opened,
    RunEvent,
    Stopped,
    TaskSpec,
    Waiting,
)
from kraal.spark.poller import Poller
from kraal.spark.pool import Pool
from kraal.spark.records.fault import ToleranceExceeded
from kraal.spark.session import SparkAway
from kraal.spark.trace import failure_trace, is_bridge_failure, is_of_a_record, lost_context
from kraal.spark.work import Launch, Outcome, Phase, Wishes, Work, outcome_of

log = logging.getLogger(__name__)

GRACE_S = 5.0
"""How long an ended run may stay inside plugin code or Spark before its end is reported anyway."""

RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_LEASE_S = 0.5


class Host(Protocol):
    """What runs share: threads, and the word on Spark."""

    @property
    def pool(self) -> Pool:
        """Threads that may wait."""

    @property
    def poller(self) -> Poller:
        """The thread for timers."""

    def spark_missing(self) -> str | None:
        """Return why Spark cannot be used now, or None."""

    def obituary(self, error: BaseException) -> str | None:
        """Return what ended Spark if its JVM is dead or dying, else None. May wait a little."""

    def over(self, run: TaskRun) -> None:
        """Forget the run."""


class TaskRun:
    """One start of one task; implements `kraal.spark.api.Run`."""

    def __init__(self, host: Host, spec: TaskSpec, work: Work, report: Callable[[RunEvent], None]) -> None:
        self.spec = spec
        self._host = host
        self._work = work
        self._report_to = report
        self._lock = threading.RLock()
        self._phase = Phase.OPENING
        self._wishes = Wishes()
        self._batch = self._failures = self._timer = 0
        self._opened = False
        self._version: str | None = None
        self._waiting: str | None = None

    def start(self) -> None:
        """Begin opening. Once."""
        self._host.pool.submit(self._open)

    def next(self) -> None:
        """Ask for one more batch."""
        with self._lock:
            self._wishes.asked = True
            self._advance()

    def hold(self) -> None:
        """Pause: ask for no more; `Held` follows, after the batch that runs or was just found."""
        with self._lock:
            self._wishes.asked = False
            self._wishes.hold = True
            self._advance()

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit what a BatchDone reported; also while a stop waits for it."""
        with self._lock:
            self._wishes.commit = offsets
            self._advance()

    def stop(self) -> None:
        """End when the running batch has ended, and a sink's reported batch is committed."""
        with self._lock:
            self._wishes.stop = True
            self._advance()

    def cancel(self) -> None:
        """End now."""
        self._end(Stopped(clean=False))

    def spark_ready(self) -> None:
        """Spark is up: open runs that waited for it can go on."""
        with self._lock:
            if self._phase is not Phase.AWAITING_SPARK:
                return
            self._phase = Phase.IDLE
            self._opened = True
            self._waiting = None
            self._report_to(Opened(version=self._version))
            self._advance()

    def spark_away(self, why: str, *, lost: bool) -> None:
        """Spark is not there. `lost`: it was, so runs that had it are over."""
        with self._lock:
            if self._phase is Phase.OVER:
                return
            if self._opened and lost:
                self._end(Failed(trace=why, engine_lost=True))
            elif not self._opened:
                self._report_waiting(why)

    def _open(self) -> None:
        with self._lock:
            if self._wishes.end is not None or self._wishes.stop:
                self._phase = Phase.CLOSING
                self._host.pool.submit(self._close)
                return
        try:
            self._version = self._work.open()
        except BaseException as error:  # noqa: BLE001 - a plugin's SystemExit must not end our thread
            self._fail(error, "start")
            return
        with self._lock:
            self._back(Phase.AWAITING_SPARK)
        missing = self._host.spark_missing()
        if missing is None:
            self.spark_ready()
        else:
            self._report_waiting(missing)

    def _back(self, phase: Phase) -> None:
        """Something has ended. Holds the lock. A run that was left behind still closes its plugin."""
        if self._phase is Phase.OVER:
            self._host.pool.submit(self._close)
            return
        self._phase = phase
        self._advance()

    def _close(self) -> None:
        try:
            self._work.close()
        except BaseException:  # the task is over anyway; the reason it ended for is what people need
            log.exception("%s: the plugin's stop failed", self.spec.task)
        with self._lock:
            self._finish()

    def _finish(self) -> None:
        if self._phase is not Phase.OVER:
            self._phase = Phase.OVER
            self._host.over(self)
            self.spec.working(busy=False)
            self._report_to(self._wishes.end or Stopped(clean=True))

    def _force(self) -> None:
        with self._lock:
            if self._phase is not Phase.OVER:
                log.warning("%s: stays in %s; it is left behind", self.spec.task, self._phase.name)
                self._finish()

    def _end(self, event: Failed | Stopped) -> None:
        with self._lock:
            if self._wishes.end is not None or self._phase is Phase.OVER:
                return
            self._wishes.end = event
            if self._phase in {Phase.WORKING, Phase.POLLING, Phase.OPENING, Phase.CLOSING}:
                self._host.poller.after(GRACE_S, self._force)
            if self._phase is Phase.WORKING:
                self._timer += 1
                self._work.cancel()
            self._advance()

    def _fail(self, error: BaseException, doing: str) -> None:
        """End the run with `error`; on the thread that did the work, which may ask the JVM."""
        away = is_bridge_failure(error) or lost_context(error) or isinstance(error, SparkAway)
        gone = self._host.obituary(error) if away else None
        event = _failed(error, gone, f"task {self.spec.task}, {doing}")
        with self._lock:
            if self._wishes.end is None:
                self._wishes.end = event
            self._back(Phase.IDLE)

    def _advance(self) -> None:
        """Do the next thing, if nothing is being done. Holds the lock; never waits."""
        wishes = self._wishes
        if self._phase is Phase.RETRYING and wishes.gives_up:
            wishes.end = wishes.end or Stopped(clean=False)
            self._phase = Phase.IDLE
        if self._phase not in {Phase.IDLE, Phase.AWAITING_SPARK}:
            return
        rests = wishes.must_rest(self._work)
        if wishes.may_close(self._work):
            self._phase = Phase.CLOSING
            self._host.pool.submit(self._close)
            return
        if wishes.hold and wishes.commit is None and not rests:
            wishes.hold = False
            self._waiting = None
            self.spec.working(busy=False)
            self._report_to(Held())
        if self._phase is not Phase.IDLE:
            return
        if wishes.commit is not None:
            self._commit(wishes.commit)
        elif wishes.asked or rests or self._work.polls_idle:
            self._poll_after(0.0 if wishes.asked or rests else self._work.poll_interval_s)

    def _poll_after(self, delay_s: float) -> None:
        number = self._timer = self._timer + 1

        def due() -> None:
            if number == self._timer:
                self._poll()

        if delay_s:
            self._host.poller.after(delay_s, due)
        else:
            self._host.poller.soon(due)

    def _poll(self) -> None:
        with self._lock:
            if self._phase is not Phase.IDLE or self._wishes.commit is not None:
                return
            rests = self._wishes.must_rest(self._work) or (self._work.runs_on and not self._leased())
            asked = self._wishes.asked and not rests
            if not asked and not self._work.polls_idle and not rests:
                return  # withdrawn by a hold since this poll was scheduled
            if asked and not self._leased():
                self._poll_after(_LEASE_S)
                return
            self._phase = Phase.POLLING
            self.spec.working(busy=True)
        try:
            launch = self._work.poll(asked=asked)
        except RetriableError as error:
            self._retry(error, "poll", None)
            return
        except BaseException as error:  # noqa: BLE001 - as in _open; the trace may need the JVM, so not here
            failed = error
            with self._lock:
                self._phase = Phase.WORKING
            self._host.pool.submit(lambda: self._fail(failed, "poll"))
            return
        with self._lock:
            if launch is None:
                self.spec.working(busy=False)
                self._phase = Phase.IDLE
                self._settle(self._work.poll_interval_s)
                return
            if self._wishes.end is not None or (self._wishes.stop and not rests):
                self._phase = Phase.IDLE  # read again by the next run
                self._advance()
                return
            self._wishes.asked = False
            self._timer += 1
            self._phase = Phase.WORKING
        self._launch(launch)

    def _settle(self, delay_s: float) -> None:
        """A poll found nothing: do what was wished for meanwhile, or poll again later. Holds the lock."""
        wishes = self._wishes
        if wishes.end is not None or wishes.stop or wishes.hold or wishes.commit is not None:
            self._advance()
        elif wishes.asked or self._work.polls_idle:
            self._poll_after(delay_s)

    def _launch(self, launch: Launch) -> None:
        launch(lambda outcome: self._outcome(launch, outcome))

    def _outcome(self, launch: Launch, outcome: Outcome) -> None:
        if isinstance(outcome, RetriableError):
            self._retry(outcome, f"batch {self._batch + 1}", launch)
            return
        if isinstance(outcome, BaseException):
            self._fail(outcome, f"batch {self._batch + 1}")
            return
        with self._lock:
            self._failures, self._waiting = 0, None
            self.spec.working(busy=False)
            if outcome is None:
                self._wishes.asked = not self._wishes.hold
            elif isinstance(outcome, Committed):
                self._wishes.commit = None
            else:
                self._batch += 1
            if outcome is not None and self._wishes.end is None and self._phase is not Phase.OVER:
                self._report_to(outcome)
            self._back(Phase.IDLE)

    def _retry(self, error: BaseException, doing: str, launch: Launch | None) -> None:
        """Do the same again later: poll, or `launch` again."""
        delay_s = RETRY_S[min(self._failures, len(RETRY_S) - 1)]
        self._failures += 1
        log.warning("%s: %s is tried again in %.1f s: %s", self.spec.task, doing, delay_s, error)
        with self._lock:
            self._report_waiting(f"{doing} is tried again: {error}", retry=True)
            if launch is None:
                self._phase = Phase.IDLE
                self._settle(delay_s)
                return
            self._back(Phase.RETRYING)

        def again() -> None:
            with self._lock:
                if self._phase is not Phase.RETRYING:
                    return
                if not self._leased():  # the work may be somebody else's by now
                    self._host.poller.after(_LEASE_S, again)
                    return
                self._phase = Phase.WORKING
            self._launch(launch)

        self._host.poller.after(delay_s, again)

    def _commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit as a job like any other. Holds the lock."""

        def commit() -> Outcome:
            if not self._leased():
                raise RetriableError("this worker's lease has ended")
            self._work.commit(offsets)
            return Committed()

        self._timer += 1
        self._phase = Phase.WORKING
        self.spec.working(busy=True)
        self._launch(lambda done: self._host.pool.submit(lambda: done(outcome_of(commit))))

    def _leased(self) -> bool:
        leased = self.spec.lease()
        if not leased:
            self._report_waiting("this worker may not write for the task: its lease has ended")
        return leased

    def _report_waiting(self, reason: str, *, retry: bool = False) -> None:
        """Report each retry, of other reasons each once, and nothing after the end is decided."""
        with self._lock:
            over = self._wishes.end is not None or self._phase is Phase.OVER
            if not over and (retry or self._waiting != reason):
                self._waiting = reason
                self._report_to(Waiting(reason, retry=retry))


def _failed(error: BaseException, gone: str | None, where: str) -> Failed:
    """Return a run's last event; `gone`: what ended Spark. Asks the JVM."""
    if gone is not None:
        return Failed(trace=gone, engine_lost=True)
    trace = failure_trace(error, where)
    return Failed(trace=trace, errors=_counts(error, trace))


def _counts(error: BaseException, trace: str) -> ErrorCounts:
    """Return what a failure says of records."""
    if isinstance(error, ToleranceExceeded):
        return error.counts
    return ErrorCounts(failures=1, errors=1) if is_of_a_record(trace) else NO_ERRORS

"""The state machine of one run of a source or sink task.

    OPENING ──► AWAITING_SPARK ──► IDLE ──► POLLING ──► WORKING ──► IDLE …      ──► CLOSING ──► OVER
      pool        if Spark is down          poller      pool                        pool

A run executes one step at a time, so at most one thread calls the plugin, without a lock: the phase acts as the lock.
Requests that arrive during a step (`stop`, `commit`, the loss of Spark) are recorded and processed when the step ends.
Events that must not be delayed (a cancel, the loss of Spark) are reported within `ABANDON_TIMEOUT_S`, even if the
plugin never returns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from kraal.core.ids import TaskId
from kraal.core.lease import MUST_NOT_WRITE
from kraal.core.logging import SubjectLock
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import (
    BatchDone,
    Committed,
    Failed,
    Held,
    Opened,
    RunEvent,
    Stopped,
    TaskSpec,
)
from kraal.engine.executor import (
    ABANDON_TIMEOUT_S,
    Executor,
    JobResult,
    NoExecutor,
    PendingRequests,
    Phase,
    StillWriting,
    commit_job,
    make_failure,
)
from kraal.engine.lease_watch import LeaseWatch
from kraal.engine.relaunch import LEASE_CHECK_INTERVAL_S, Relaunch, RunJob
from kraal.engine.run_host import Host, PollTimer, StepReports, WaitingReports
from kraal.engine.session.session import SparkUnavailable
from kraal.engine.thread_pool import Owner
from kraal.plugins.api import RetriableError

log = logging.getLogger(__name__)

RETRY_DELAYS_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


MakeExecutor = Callable[[], Executor]
"""Finds the plugin and creates its executor. Called on a pool thread, because it may load code and fail."""

Report = Callable[[RunEvent], None]


class TaskRun:
    """One run of one task; implements `kraal.engine.api.Run`."""

    def __init__(
        self, host: Host, owner: Owner, spec: TaskSpec, make_executor: MakeExecutor, report: Report
    ) -> None:
        """Create a run; `owner` is the owner of all calls of the run and its executor."""
        self.spec, self._host, self._owner = spec, host, owner
        self._pool = host.pool.share_for(owner)
        self._executor: Executor = NoExecutor()
        self._make_executor, self._report_to = make_executor, report
        self._lock = SubjectLock(f"task {spec.task}")
        self._phase, self._requests = Phase.OPENING, PendingRequests()
        self._batch_count, self._failures, self._has_opened = 0, 0, False
        self._version: str | None = None
        self._timer = PollTimer(host, owner, self._poll)
        self._steps, self._waiting = StepReports(spec.working), WaitingReports(report)
        call_later, watch = host.poller.call_later, LeaseWatch(spec.task, spec.lease, host.poller.call_later)
        spark_reason, has_lease = host.spark_unavailable_reason, self._has_lease
        self._relaunch = Relaunch(host.quarantine, watch, self._repeat, spark_reason, has_lease, call_later)

    def start(self) -> None:
        """Start opening the plugin. Call once."""
        self._pool.submit(self._open)

    def next(self) -> None:
        """Request one batch."""
        with self._lock:
            self._requests.next_batch = True
            self._advance()

    def hold(self) -> None:
        """Pause: withdraw the request; `Held` is reported after a batch that is running or was just polled."""
        with self._lock:
            self._requests.next_batch, self._requests.hold = False, True
            self._advance()

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit the offsets of a BatchDone, even while a stop is pending."""
        with self._lock:
            self._requests.commit = offsets
            self._advance()

    def stop(self) -> None:
        """Stop once the running batch has ended and a sink's reported batch is committed."""
        with self._lock:
            self._requests.stop = True
            self._advance()

    def stop_if_idle(self) -> bool:
        """Stop if the run waits for a batch; return whether the run stops."""
        with self._lock:
            if self._phase is not Phase.IDLE or self._relaunch.is_waiting or self._executor.is_flowing:
                return False
            if stops := self._requests.has_only_batch_request:
                self.stop()
            return stops

    def cancel(self) -> None:
        """Cancel the run."""
        self._end(Stopped(clean=False))

    @property
    def waits_for_spark(self) -> bool:
        """Whether the run or its job waits for Spark."""
        return self._phase is Phase.AWAITING_SPARK or self._relaunch.awaits_spark

    def on_spark_ready(self) -> None:
        """Resume the run, or its job, if it waits for Spark."""
        with self._lock:
            if self.waits_for_spark:
                self._has_opened = True
                self._waiting.end_wait()
                self._report_to(Opened(version=self._version))
            if self._phase is Phase.AWAITING_SPARK:
                self._phase = Phase.IDLE
                self._advance()
        self._relaunch.on_spark_ready()

    def on_spark_unavailable(self, why: str, *, lost: bool) -> None:
        """Wait for Spark, which is unavailable; if Spark was `lost`, end an open run."""
        with self._lock:
            if self._has_opened and lost:
                self._end(Failed(trace=why, engine_lost=True))
            elif self.waits_for_spark:
                self._report_waiting(why, engine_failed=self._has_opened)

    def _open(self) -> None:
        with self._lock:
            if self._requests.end is not None or self._requests.stop:
                self._return_to(Phase.IDLE)
                return
        try:
            self._executor = self._make_executor()
            self._version = self._executor.open()
        except BaseException as error:  # noqa: BLE001 - a plugin's SystemExit must not end this thread
            self._fail(error, "start")
            return
        with self._lock:
            self._return_to(Phase.AWAITING_SPARK)
        if (reason := self._host.await_at_open()) is None:
            self.on_spark_ready()
        else:
            self._report_waiting(reason)

    def _return_to(self, phase: Phase) -> None:
        """Return to `phase` after a step has ended. The caller holds the lock."""
        if not self._is_abandoned():
            self._phase = phase
            self._advance()

    def _is_abandoned(self) -> bool:
        """Return whether the run was abandoned; if so, close the plugin. The caller must ignore the step's result."""
        if self._phase is not Phase.OVER:
            return False
        self._pool.submit(self._close)
        self._host.poller.call_later(ABANDON_TIMEOUT_S, lambda: self._host.abandon_calls(self._owner))
        return True

    def _close(self) -> None:
        _close_executor(self._executor, self._host, self.spec.task)
        with self._lock:
            self._finish()

    def _finish(self) -> None:
        if self._phase is not Phase.OVER:
            self._phase = Phase.OVER
            self._host.remove_run(self.spec.task, self)
            self._steps.end()
            self._report_to(self._requests.end or Stopped(clean=True))

    def _force_finish(self) -> None:
        """Abandon the run, unless it has ended."""
        with self._lock:
            if self._phase is not Phase.OVER:
                log.warning("%s: Abandoning a run that stays in %s", self.spec.task, self._phase.name)
                self._host.abandon_calls(self._owner)
                self._finish()

    def _end(self, event: Failed | Stopped) -> None:
        with self._lock:
            if self._requests.end is not None or self._phase is Phase.OVER:
                return
            self._requests.end = event
            if self._phase in {Phase.WORKING, Phase.POLLING, Phase.OPENING, Phase.CLOSING}:
                self._host.poller.call_later(ABANDON_TIMEOUT_S, self._force_finish)
            if self._phase is Phase.WORKING:
                self._timer.cancel()
                self._executor.cancel()
            self._advance()

    def _fail(self, error: BaseException, step: str) -> None:
        """End the run with `error`. Called on the thread that has failed, which may call the JVM."""
        event = make_failure(error, self._host.failure_cause, f"task {self.spec.task}, {step}")
        with self._lock:
            if self._requests.end is None:
                self._requests.end = event
            self._return_to(Phase.IDLE)

    def _advance(self, retry_s: float | None = None, *, has_batch: bool = True) -> None:
        """Start the next step if none is running; a poll follows soon if `has_batch`. The caller holds the lock."""
        requests = self._requests
        if self._relaunch.is_waiting and requests.cancels_retries:
            requests.end = requests.end or Stopped(clean=False)
            self._relaunch.cancel()
            return
        if self._phase in {Phase.POLLING, Phase.WORKING} and (requests.hold or requests.stop):
            self._executor.finish_soon()
        if self._phase is not Phase.IDLE and self._phase is not Phase.AWAITING_SPARK:
            return
        if requests.can_close(self._executor):
            self._phase = Phase.CLOSING
            if requests.end is not None:
                self._host.poller.call_later(ABANDON_TIMEOUT_S, self._force_finish)
            self._pool.submit(self._close)
            return
        ends_flow = requests.must_end_flow(self._executor)
        if requests.hold and requests.commit is None and not ends_flow:
            requests.hold = False
            self._waiting.end_wait()
            self._steps.end()
            self._report_to(Held())
        if self._phase is not Phase.IDLE:
            return
        if requests.commit is not None:
            self._commit(requests.commit)
        elif ends_flow or retry_s is not None:
            self._timer.set(0.0 if ends_flow else retry_s or 0.0)
        elif requests.next_batch or self._executor.polls_when_idle:
            self._timer.set_next(self._executor, soon=requests.next_batch and has_batch)

    def _poll(self, number: int, *, wait: bool = False) -> bool:
        """Poll the executor if `number` is current; return whether to poll again after the same interval."""
        with self._lock:
            requests, executor = self._requests, self._executor
            if self._phase is not Phase.IDLE or not self._timer.is_current(number):
                return False
            ends_flow = requests.must_end_flow(executor) or (executor.is_flowing and not self._has_lease())
            requested = requests.next_batch and not ends_flow
            if requests.commit is not None or not (requested or executor.polls_when_idle or ends_flow):
                return False  # a commit or a hold has replaced the request since this poll was scheduled
            if requested and not self._has_lease():
                self._timer.set(LEASE_CHECK_INTERVAL_S)
                return False
            self._phase = Phase.POLLING
            self._steps.begin("poll")
        try:
            if wait:
                executor.wait()
            launch = self._host.quarantine.poll(self.spec.task, executor, requested=requested)
        except RetriableError as error:
            with self._lock:
                if not self._is_abandoned():
                    self._phase = Phase.IDLE
                    self._advance(self._report_attempt(error, "poll"))
            return False
        except BaseException as error:  # noqa: BLE001 - as in `_open`; a pool thread fails the run: it may call the JVM
            with self._lock:
                if self._is_abandoned():
                    return False
                self._phase = Phase.WORKING
            self._pool.submit(partial(self._fail, error, "poll"))
            return False
        with self._lock:
            if self._is_abandoned():
                return False
            is_dropped = requests.end is not None or (requests.stop and not ends_flow)
            if launch is None or is_dropped:
                self._steps.end_poll()
                self._phase = Phase.IDLE
                polls_again = requests.has_only_batch_request and self._timer.keeps_interval(executor)
                if not polls_again:
                    self._advance(has_batch=launch is not None)
                return polls_again
            requests.next_batch = False
            self._timer.cancel()
            self._phase = Phase.WORKING
            self._steps.begin("batch")
        self._relaunch.launch(RunJob(launch, executor, self._handle_outcome, is_requested=requested))
        return False

    def _handle_outcome(self, outcome: JobResult) -> None:
        if isinstance(outcome, BaseException):
            self._fail(outcome, f"batch {self._batch_count + 1}")
            return
        with self._lock:
            if self._is_abandoned():
                return
            self._failures = 0
            self._waiting.end_wait()
            self._steps.end_job(outcome)
            if outcome is None or isinstance(outcome, StillWriting):
                self._requests.next_batch = not self._requests.hold
            elif isinstance(outcome, Committed):
                self._requests.commit = None
            else:
                self._batch_count += 1
            if isinstance(outcome, BatchDone | Committed) and self._requests.end is None:
                self._report_to(outcome)
            self._return_to(Phase.IDLE)

    def _repeat(self, error: RetriableError | SparkUnavailable) -> float | None:
        """Report why a job is relaunched; return the delay in seconds, or None to wait for Spark."""
        with self._lock:
            delay_s = self._report_attempt(error, f"batch {self._batch_count + 1}")
            self._advance()
        return delay_s

    def _report_attempt(self, error: RetriableError | SparkUnavailable, step: str) -> float | None:
        """Report a failed step; return the delay of its next attempt, or None to wait for Spark. Requires the lock."""
        self._steps.fail(str(error))
        if isinstance(error, SparkUnavailable):
            self._report_waiting(str(error))
            return None
        delay_s = RETRY_DELAYS_S[min(self._failures, len(RETRY_DELAYS_S) - 1)]
        self._failures += 1
        log.warning("%s: Retrying %s in %.1f s: %s", self.spec.task, step, delay_s, error)
        self._report_waiting(f"Retrying {step}: {error}", retry=True)
        return delay_s

    def _commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Launch the job that commits. The caller holds the lock."""
        self._timer.cancel()
        self._phase = Phase.WORKING
        self._steps.begin("commit")
        commit = commit_job(self._executor, offsets, self._has_lease, self._pool.submit)
        self._relaunch.launch(RunJob(commit, self._executor, self._handle_outcome))

    def _has_lease(self) -> bool:
        has_lease = self.spec.lease()
        if not has_lease:
            self._report_waiting(MUST_NOT_WRITE)
        return has_lease

    def _report_waiting(self, reason: str, *, retry: bool = False, engine_failed: bool = False) -> None:
        """Report why the run waits, unless it is already ending."""
        with self._lock:
            if self._requests.end is None and self._phase is not Phase.OVER:
                self._waiting.add(reason, retry=retry, engine_failed=engine_failed)


def _close_executor(executor: Executor, host: Host, task: TaskId) -> None:
    """Close the plugin; an error is only logged, because the run reports why it ended."""
    try:
        host.quarantine.release_turn(executor)
        executor.close()
    except BaseException:
        log.exception("%s: Failed to stop the plugin", task)

"""One run of a Java task: Kafka's `Worker` runs it, and this object reports its events to the task's actor.

    WAITING ──up──► STARTING ──started──► RUNNING ──stop()──► ENDING ──► OVER
       ▲               │ an earlier run has not ended
       └───────────────┘

The Java task writes records and commits offsets itself, so a `BatchDone` contains no offsets, only the number of
records since the previous report. A run ends when its JVM exits or its lease expires; the actor then opens another run,
which continues at the committed offsets.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from kraal.core.lease import MUST_NOT_WRITE
from kraal.engine.api import Counted, Failed, Held, Opened, Stopped, Waiting
from kraal.java_plugins.counted_records import CountedRecords
from kraal.java_plugins.jvm import PluginsUnavailable
from kraal.java_plugins.lingering import LingeringTask
from kraal.java_plugins.progress import CurrentStep, RecordProgress, StepDurations

if TYPE_CHECKING:
    from kraal.core.ids import TaskId
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.engine.api import RunEvent, TaskSpec, Transactions
    from kraal.java_plugins.host import PluginHost

log = logging.getLogger(__name__)

HOLD_TIMEOUT_S: Final = 1.0
"""How long a pause waits for a task that is in a plugin call; the task then pauses when the call returns."""
RETRY_DELAY_S: Final = 1.0
"""Interval at which a waiting run checks whether the previous run has ended."""
CLAIM_TIMEOUT_S: Final = 5.0
"""Maximum age of the claim of an exactly-once task at its start; an older claim is renewed."""
CLAIM_EXPIRED: Final = "the task waited too long after this worker had claimed it; the claim is renewed"


class _Phase(Enum):
    WAITING = auto()
    STARTING = auto()
    RUNNING = auto()
    ENDING = auto()
    OVER = auto()


class JavaRun:
    """A run of a Java task. Implements `kraal.engine.api.Run` and the host's `Listener`."""

    def __init__(
        self,
        host: PluginHost,
        spec: TaskSpec,
        *,
        number: int,
        version: str,
        is_source: bool,
        graceful_s: float,
        report: Callable[[RunEvent], None],
        store_metrics: Callable[[TaskId, int, Mapping[str, float]], None],
        on_end: Callable[[JavaRun, Failed | Stopped], None],
        offsets: Mapping[SourcePartition, Offset],
    ) -> None:
        """Create a run of a task with these stored offsets.

        `on_end` receives the last event, and a second event when a failed task is removed.
        """
        self.spec, self.number, self._host = spec, number, host
        self._claim = spec.transactions
        """The claim of an exactly-once task; None once a start or the run's end has taken it. Guarded by `_lock`."""
        self._version, self._is_source, self._graceful_s = version, is_source, graceful_s
        self._report, self._store_metrics, self._on_end = report, store_metrics, on_end
        self._lock = threading.RLock()
        self._call_lock = threading.Lock()
        """Serializes the calls that start, pause and stop the task; acquired before `_lock`."""
        self._phase = _Phase.WAITING
        self._previous_run: JavaRun | None = None
        self._is_requested = self._is_paused = False
        self._opened_s = time.monotonic()
        self._stop_deadline_s = math.inf
        """The monotonic time in seconds at which the task is cancelled if it has not stopped."""
        self._retry_at_s = 0.0
        """The monotonic time in seconds at which to retry a start that the previous run prevented."""
        self._waiting_reason = ""
        """The last reported reason for waiting."""
        self._hold_deadline_s: float | None = None
        """The monotonic time in seconds by which a pause must be reported; None if no pause is pending."""
        self.is_kept_in_jvm = False
        """Whether the JVM keeps the failed task, for alerts on its MBeans, until `cancel` or `stop`."""
        self._progress, self._durations = RecordProgress(), StepDurations()
        self._step, self._counted = CurrentStep(spec.working), CountedRecords(offsets)

    def open(self, previous: JavaRun | None) -> None:
        """Start the task as soon as the JVM is up and the previous run is over."""
        self._previous_run = previous
        if why := self._host.down_reason:
            self._report_waiting(why)
        self._host.add_listener(self.number, self)

    @property
    def is_over(self) -> bool:
        """Whether the run has reported its last event."""
        return self._phase is _Phase.OVER

    def next(self) -> None:
        """Resume the task if it is paused, and request one more report of progress."""
        with self._lock:
            self._is_requested, self._hold_deadline_s = True, None
            if self._is_paused:
                self._pause(paused=False)
                self._step.restart_step()
            self._report_progress()

    def hold(self) -> None:
        """Pause the task; report `Held` once it has paused, or after `HOLD_TIMEOUT_S` if it is in a plugin call."""
        with self._lock:
            self._report_progress()
            self._is_requested = False
            if self._phase is not _Phase.RUNNING:
                self._report(Held())
                return
            self._hold_deadline_s = time.monotonic() + HOLD_TIMEOUT_S
            self._pause(paused=True)

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """No-op: the Java task commits its offsets."""

    def stop(self) -> None:
        """Stop the task gracefully, with a timeout of `task.shutdown.graceful.timeout.ms`."""
        self._end(self._graceful_s)

    def stop_if_idle(self) -> bool:
        """Return False, so that the caller pauses the task before stopping it."""
        return False

    def cancel(self) -> None:
        """Cancel the task, so that it writes no more records. Abandons a thread that is in a plugin call."""
        self._end(0.0)

    def on_up(self) -> None:
        """Start the task unless its previous run is still active."""
        with self._lock:
            previous = self._previous_run
            if self._phase is _Phase.WAITING and (previous is None or previous.is_over):
                self._phase, self._previous_run = _Phase.STARTING, None
                self._host.submit(self._start)

    def on_down(self, why: str) -> None:
        """End the run, because the JVM has exited, or report that it waits for the JVM."""
        with self._lock:
            if self._phase in (_Phase.STARTING, _Phase.RUNNING):
                self._finish(Failed(trace=why, engine_lost=True))
            elif self._phase is _Phase.ENDING:
                self._finish(Stopped(clean=False))
            elif self._phase is _Phase.WAITING:
                self._report_waiting(why)

    def event(self, event: Mapping[str, Any]) -> None:
        """Handle an event of the Java task."""
        kind, detail = event["what"], event["detail"]
        with self._lock:
            if self._phase is _Phase.OVER:
                return
            match kind:
                case "started" if self._phase is _Phase.STARTING:
                    self._phase = _Phase.RUNNING
                    self._report(Opened(version=self._version))
                case "waiting" if self._phase is _Phase.ENDING:
                    self._end_before_start()
                case "waiting" if self._phase is _Phase.STARTING:
                    self._phase, self._retry_at_s = _Phase.WAITING, time.monotonic() + RETRY_DELAY_S
                    self._report_waiting(detail)
                case "progress":
                    self._on_progress(detail)
                case "times":
                    self._report(self._durations.since_last(detail))
                case "counted":
                    for entry in self._counted.make_entries(detail):
                        self._report(Counted(entry))
                case "backlog" if detail["partitions"]:
                    self.spec.backlog(detail["records"], exact=True, paused=detail["paused"])
                case "busy":
                    self._step.report(busy=detail)
                case "measured":
                    self._store_metrics(self.spec.task, self.number, detail)
                case "paused" if self._hold_deadline_s is not None:
                    self._report_held()
                case "failed":
                    self.is_kept_in_jvm = True
                    self._finish(Failed(trace=detail))
                case "ended" if self._phase is _Phase.ENDING:
                    self._remove()
                    self._finish(Stopped(clean=True))

    def tick(self) -> None:
        """Handle timeouts: retry the start, report a slow pause, cancel a slow stop, and check the lease."""
        with self._lock:
            if self._hold_deadline_s is not None and time.monotonic() >= self._hold_deadline_s:
                self._report_held()
            if self._phase is _Phase.WAITING and time.monotonic() >= self._retry_at_s:
                self.on_up()
            elif self._phase is _Phase.ENDING and time.monotonic() >= self._stop_deadline_s:
                self._host.submit(self._cancel_now)
            has_lost_lease = self._phase not in (_Phase.WAITING, _Phase.OVER) and not self.spec.lease()
        if has_lost_lease:
            self._host.kill_process(MUST_NOT_WRITE)

    # --- steps ----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        spec, task = self.spec, self.spec.task
        configs = (json.dumps(dict(spec.connector_config)), json.dumps(dict(spec.task_config)))
        try:
            with self._call_lock:
                if not self._is_starting():
                    self._end_before_start()
                    return
                if (refusal := _find_refusal(self.spec, self._opened_s)) is not None:
                    self._finish_once(Failed(trace=refusal, engine_lost=True))
                    return
                claim = self._take_claim()
                if claim is not None:
                    claim.close()  # the Java task opens its own producer with the same transactional id
                    if not self._is_starting():  # `close` may block; the run may be over by now
                        self._end_before_start()
                        return
                self._host.ask("startTask", task.connector, task.task, self.number, *configs, self._is_source)
        except PluginsUnavailable as exc:
            self._finish_once(Failed(trace=str(exc), engine_lost=True))
        except Exception as exc:  # noqa: BLE001 - any error of plugin code
            self._remove()
            self._finish_once(Failed(trace=str(exc)))

    def _is_starting(self) -> bool:
        return self._phase is _Phase.STARTING

    def _report_waiting(self, why: str) -> None:
        """Report a new reason for waiting. Repeated reasons are dropped, since each report writes a status record."""
        if why != self._waiting_reason:
            self._waiting_reason = why
            self._report(Waiting(why))

    def _end_before_start(self) -> None:
        """End a run that was stopped before its task was started, so that the task reports no event."""
        with self._lock:
            if self._phase is _Phase.ENDING:
                self._finish(Stopped(clean=True))

    def _end(self, wait_s: float) -> None:
        with self._lock:
            if self._phase is _Phase.OVER:
                if self.is_kept_in_jvm:
                    self.is_kept_in_jvm = False
                    self._remove()
                    self._on_end(self, Stopped(clean=True))
                return
            if self._phase is _Phase.WAITING:
                self._finish(Stopped(clean=True))
                return
            if self._phase is _Phase.ENDING:
                self._stop_deadline_s = min(self._stop_deadline_s, time.monotonic() + wait_s)
                return
            self._phase, self._stop_deadline_s = _Phase.ENDING, time.monotonic() + wait_s
        self._host.submit(self._request_stop if wait_s else self._cancel_now)

    def _request_stop(self) -> None:
        task = self.spec.task
        try:
            with self._call_lock:
                self._host.ask("requestStop", task.connector, task.task, self.number)
        except Exception as exc:  # noqa: BLE001 - any error of plugin code; the timeout ends the run
            log.warning("%s: Failed to request the Java task to stop: %s", task, exc)

    def _cancel_now(self) -> None:
        self._finish_once(Stopped(clean=self._end_task()))

    def _end_task(self) -> bool:
        """Remove the task from the JVM, and cancel it if it has not ended; return whether it had ended."""
        task, has_ended = self.spec.task, False
        try:
            with self._call_lock:
                has_ended = bool(self._host.ask("endTask", task.connector, task.task, self.number))
        except PluginsUnavailable:  # the task has exited with the JVM
            return False
        except Exception as exc:  # noqa: BLE001 - as above
            log.warning("%s: Failed to end the Java task: %s", task, exc)
        if not has_ended:
            LingeringTask(self._host, self.spec, self.number)
        return has_ended

    def _remove(self) -> None:
        """Remove a task that has ended or failed from the JVM."""
        self._host.submit(self._end_task)

    def _take_claim(self) -> Transactions | None:
        """Return the claim and clear it; the caller must close it."""
        with self._lock:
            claim, self._claim = self._claim, None
            return claim

    def _finish_once(self, event: Failed | Stopped) -> None:
        with self._lock:
            if self._phase is not _Phase.OVER:
                self._finish(event)

    def _finish(self, event: Failed | Stopped) -> None:
        """Report the last event, and release a claim that the Java task has not taken. Requires the lock."""
        self._phase = _Phase.OVER
        if (claim := self._take_claim()) is not None:
            self._host.submit(claim.close)
        self._host.remove_listener(self.number)
        self._step.report(busy=False)
        self._on_end(self, event)
        self._report(event)

    def _pause(self, *, paused: bool) -> None:
        self._is_paused = paused
        task = self.spec.task

        def ask() -> None:
            try:
                with self._call_lock:  # the most recent request wins
                    self._host.ask("setPaused", task.connector, task.task, self.number, self._is_paused)
            except PluginsUnavailable:
                log.debug("%s: The JVM of Java plugins exited before the task was paused or resumed", task)

        self._host.submit(ask)

    def _report_held(self) -> None:
        self._hold_deadline_s = None
        self._report(Held())

    def _on_progress(self, detail: Mapping[str, Any]) -> None:
        self._step.restart_step()
        self._progress.set_totals(detail)
        if not self._is_source:
            self.spec.assigned(detail["partitions"])
        self._report_progress()

    def _report_progress(self) -> None:
        """Report the progress since the last report, if a report is requested. Requires the lock."""
        batch_done = self._progress.since_last() if self._is_requested else None
        if batch_done is not None:
            self._is_requested = False
            self._report(batch_done)


def _find_refusal(spec: TaskSpec, opened_s: float) -> str | None:
    """Return the reason why a task must not start (no lease, or an old claim); None if it may start."""
    if not spec.lease():
        return MUST_NOT_WRITE
    is_old = spec.transactions is not None and time.monotonic() - opened_s > CLAIM_TIMEOUT_S
    return CLAIM_EXPIRED if is_old else None

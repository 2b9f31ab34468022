"""One run of a Java task: Kafka's `Worker` runs it, and this object reports its events to the task's actor.

    WAITING ──up──► STARTING ──started──► RUNNING ──stop()──► ENDING ──► OVER
       ▲               │ an earlier run has not ended
       └───────────────┘

The Java task writes and commits itself: sources their offsets, sinks those of their consumer group. So a
`BatchDone` has no offsets, but the number of records since the last one. A run whose process ends, or whose
lease expires, is over: the actor opens another, which continues at the committed offsets.
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
from kraal.engine.api import Failed, Held, Opened, Stopped, Waiting
from kraal.java_plugins.jvm import PluginsAway
from kraal.java_plugins.lingering import LingeringTask
from kraal.java_plugins.progress import Passed, Step, Times

if TYPE_CHECKING:
    from kraal.core.ids import TaskId
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.engine.api import RunEvent, TaskSpec, Transactions
    from kraal.java_plugins.host import PluginHost

log = logging.getLogger(__name__)

HOLD_TIMEOUT_S: Final = 1.0
"""How long a pause waits for a task that is inside its plugin; it is paused when the call returns."""
RETRY_DELAY_S: Final = 1.0
"""Interval at which a waiting task checks whether its earlier run has ended."""
CLAIM_TIMEOUT_S: Final = 5.0
"""Maximum age of the claim of an exactly-once task at its start; an older claim is renewed."""
CLAIM_OLD: Final = "the task has waited for too long since this worker claimed it; it is claimed again"


class _Phase(Enum):
    WAITING = auto()
    STARTING = auto()
    RUNNING = auto()
    ENDING = auto()
    OVER = auto()


class JavaRun:
    """Implements `kraal.engine.api.Run`, and the host's `Listener`."""

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
        measured: Callable[[TaskId, int, Mapping[str, float]], None],
        over: Callable[[JavaRun, Failed | Stopped], None],
    ) -> None:
        """`over` gets the last event, and again when nothing remains; `measured` gets the metrics of a failed task."""
        self.spec = spec
        self.number = number
        self._host = host
        self._claim = spec.transactions
        """The claim of an exactly-once task, until the Java task or the run's end takes it. Guarded by `_lock`."""
        self._version, self._is_source, self._graceful_s = version, is_source, graceful_s
        self._report, self._measured, self._over = report, measured, over
        self._lock = threading.RLock()
        self._calls = threading.Lock()
        """Held during calls that start, pause or stop the task, so that they have one order; taken before `_lock`."""
        self._phase = _Phase.WAITING
        self._behind: JavaRun | None = None
        self._asked = self._paused = False
        self._opened_s = time.monotonic()
        self._ends_by_s = math.inf
        """When the task is cancelled if it has not ended, in monotonic seconds."""
        self._retry_at_s = 0.0
        """When a start that an earlier run prevented is tried again, in monotonic seconds."""
        self._waits_for = ""
        """The reason to wait that was reported last."""
        self._held_by_s: float | None = None
        """When a pause is reported at the latest, in monotonic seconds."""
        self.has_remains = False
        """Whether the process still has the failed task, whose MBeans alerts read, until `cancel` or `stop`."""
        self._passed, self._times, self._step = Passed(), Times(), Step(spec.working)

    def open(self, behind: JavaRun | None) -> None:
        """Start as soon as the process is up and the run `behind` which this one waits is over."""
        self._behind = behind
        if why := self._host.why_away:
            self._wait_for(why)
        self._host.follow(self.number, self)

    @property
    def is_over(self) -> bool:
        """Whether nothing of the run is left."""
        return self._phase is _Phase.OVER

    # --- Run ------------------------------------------------------------------------------------------------

    def next(self) -> None:
        """Continue, and report once more when records have passed."""
        with self._lock:
            self._asked, self._held_by_s = True, None
            if self._paused:
                self._pause(paused=False)
                self._step.restart_step()
            self._report_progress()

    def hold(self) -> None:
        """Pause the task; `Held` follows when it has paused, or soon if it is inside its plugin."""
        with self._lock:
            self._report_progress()
            self._asked = False
            if self._phase is not _Phase.RUNNING:
                self._report(Held())
                return
            self._held_by_s = time.monotonic() + HOLD_TIMEOUT_S
            self._pause(paused=True)

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Do nothing: the Java task commits."""

    def stop(self) -> None:
        """Stop the task within `task.shutdown.graceful.timeout.ms`; it writes and commits its records."""
        self._end(self._graceful_s)

    def cancel(self) -> None:
        """Cancel the task: it writes nothing more, and its thread is left behind if it is inside its plugin."""
        self._end(0.0)

    # --- Listener -------------------------------------------------------------------------------------------

    def on_up(self) -> None:
        """Start the task when the process is up."""
        with self._lock:
            behind = self._behind
            if self._phase is _Phase.WAITING and (behind is None or behind.is_over):
                self._phase, self._behind = _Phase.STARTING, None
                self._host.submit(self._start)

    def on_down(self, why: str) -> None:
        """End the run, because the process has exited."""
        with self._lock:
            if self._phase in (_Phase.STARTING, _Phase.RUNNING):
                self._finish(Failed(trace=why, engine_lost=True))
            elif self._phase is _Phase.ENDING:
                self._finish(Stopped(clean=False))
            elif self._phase is _Phase.WAITING:
                self._wait_for(why)

    def event(self, event: Mapping[str, Any]) -> None:
        """Follow the Java task."""
        what, detail = event["what"], event["detail"]
        with self._lock:
            if self._phase is _Phase.OVER:
                return
            match what:
                case "started" if self._phase is _Phase.STARTING:
                    self._phase = _Phase.RUNNING
                    self._report(Opened(version=self._version))
                case "waiting" if self._phase is _Phase.ENDING:
                    self._end_before_start()
                case "waiting" if self._phase is _Phase.STARTING:
                    self._phase, self._retry_at_s = _Phase.WAITING, time.monotonic() + RETRY_DELAY_S
                    self._wait_for(detail)
                case "progress":
                    self._has_come(detail)
                case "times":
                    self._report(self._times.since_last(detail))
                case "backlog" if detail["partitions"]:
                    self.spec.backlog(detail["records"], exact=True, paused=detail["paused"])
                case "busy":
                    self._step.report(busy=detail)
                case "measured":
                    self._measured(self.spec.task, self.number, detail)
                case "paused" if self._held_by_s is not None:
                    self._report_held()
                case "failed":
                    self.has_remains = True
                    self._finish(Failed(trace=detail))
                case "ended" if self._phase is _Phase.ENDING:
                    self._remove()
                    self._finish(Stopped(clean=True))

    def tick(self) -> None:
        """Start after an earlier run, report a slow pause, cancel a task that does not stop, and keep the lease."""
        with self._lock:
            if self._held_by_s is not None and time.monotonic() >= self._held_by_s:
                self._report_held()
            if self._phase is _Phase.WAITING and time.monotonic() >= self._retry_at_s:
                self.on_up()
            elif self._phase is _Phase.ENDING and time.monotonic() >= self._ends_by_s:
                self._host.submit(self._cancel_now)
            lost = self._phase not in (_Phase.WAITING, _Phase.OVER) and not self.spec.lease()
        if lost:
            self._host.end_process(MUST_NOT_WRITE)

    # --- steps ----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        spec, task = self.spec, self.spec.task
        configs = (json.dumps(dict(spec.connector_config)), json.dumps(dict(spec.task_config)))
        try:
            with self._calls:
                if not self._is_starting():
                    self._end_before_start()
                    return
                if (refusal := self._refusal()) is not None:
                    self._finish_once(Failed(trace=refusal, engine_lost=True))
                    return
                claim = self._take_claim()
                if claim is not None:
                    claim.close()  # the Java task opens a producer of its own, with the same id
                    if not self._is_starting():  # that takes a while; another process may run by now
                        self._end_before_start()
                        return
                self._host.ask("startTask", task.connector, task.task, self.number, *configs, self._is_source)
        except PluginsAway as exc:
            self._finish_once(Failed(trace=str(exc), engine_lost=True))
        except Exception as exc:  # noqa: BLE001 - the border to plugin code
            self._remove()
            self._finish_once(Failed(trace=str(exc)))

    def _is_starting(self) -> bool:
        return self._phase is _Phase.STARTING

    def _wait_for(self, why: str) -> None:
        """Report the reason to wait, once: each report is a record in the status topic."""
        if why != self._waits_for:
            self._waits_for = why
            self._report(Waiting(why))

    def _end_before_start(self) -> None:
        """End a run that was stopped before its task was started: no event of the task follows."""
        with self._lock:
            if self._phase is _Phase.ENDING:
                self._finish(Stopped(clean=True))

    def _refusal(self) -> str | None:
        """Return why the task must not start: no lease, or a claim so old that it may be another worker's by now."""
        if not self.spec.lease():
            return MUST_NOT_WRITE
        is_old = self.spec.transactions is not None and time.monotonic() - self._opened_s > CLAIM_TIMEOUT_S
        return CLAIM_OLD if is_old else None

    def _end(self, wait_s: float) -> None:
        with self._lock:
            if self._phase is _Phase.OVER:
                if self.has_remains:
                    self.has_remains = False
                    self._remove()
                    self._over(self, Stopped(clean=True))
                return
            if self._phase is _Phase.WAITING:
                self._finish(Stopped(clean=True))
                return
            if self._phase is _Phase.ENDING:
                self._ends_by_s = min(self._ends_by_s, time.monotonic() + wait_s)
                return
            self._phase, self._ends_by_s = _Phase.ENDING, time.monotonic() + wait_s
        self._host.submit(self._ask_to_stop if wait_s else self._cancel_now)

    def _ask_to_stop(self) -> None:
        task = self.spec.task
        try:
            with self._calls:
                self._host.ask("requestStop", task.connector, task.task, self.number)
        except Exception as exc:  # noqa: BLE001 - the border to plugin code; the time limit ends the run
            log.warning("%s: The Java task could not be asked to stop: %s", task, exc)

    def _cancel_now(self) -> None:
        self._finish_once(Stopped(clean=self._end_task()))

    def _end_task(self) -> bool:
        """Remove the task from the process, and cancel it if it has not ended; return whether it had."""
        task, has_ended = self.spec.task, False
        try:
            with self._calls:
                has_ended = bool(self._host.ask("endTask", task.connector, task.task, self.number))
        except PluginsAway:  # and the task with them
            return False
        except Exception as exc:  # noqa: BLE001 - as above
            log.warning("%s: The Java task could not be ended: %s", task, exc)
        if not has_ended:
            LingeringTask(self._host, self.spec, self.number)
        return has_ended

    def _remove(self) -> None:
        """Remove a task that has ended or failed from the process."""
        self._host.submit(self._end_task)

    def _take_claim(self) -> Transactions | None:
        """Return the claim to close, the first time."""
        with self._lock:
            claim, self._claim = self._claim, None
            return claim

    def _finish_once(self, event: Failed | Stopped) -> None:
        with self._lock:
            if self._phase is not _Phase.OVER:
                self._finish(event)

    def _finish(self, event: Failed | Stopped) -> None:
        """Report the last event, and release a claim that the Java task has not taken. Holds the lock."""
        self._phase = _Phase.OVER
        if (claim := self._take_claim()) is not None:
            self._host.submit(claim.close)
        self._host.forget(self.number)
        self._step.report(busy=False)
        self._over(self, event)
        self._report(event)

    def _pause(self, *, paused: bool) -> None:
        self._paused = paused
        task = self.spec.task

        def ask() -> None:
            try:
                with self._calls:  # the most recent request wins
                    self._host.ask("setPaused", task.connector, task.task, self.number, self._paused)
            except PluginsAway:
                log.debug("%s: The JVM of Java plugins ended before a pause", task)

        self._host.submit(ask)

    def _report_held(self) -> None:
        self._held_by_s = None
        self._report(Held())

    def _has_come(self, detail: Mapping[str, Any]) -> None:
        self._step.restart_step()
        self._passed.add_report(detail)
        if not self._is_source:
            self.spec.assigned(detail["partitions"])
        self._report_progress()

    def _report_progress(self) -> None:
        """Report the progress since the last report, if one is requested. Holds the lock."""
        done = self._passed.since_last() if self._asked else None
        if done is not None:
            self._asked = False
            self._report(done)

"""One run of a task in Python whose transforms and converters run in the plugins' JVM.

    WAITING ──up──► OPENING ──► OPEN ──► CLOSING ──► OVER

The run waits for the JVM and creates the chain there; then the engine for Python plugins runs the task. If the JVM
exits, the run ends as if Spark were lost: the current batch is abandoned, and the next run repeats the batch with a new
chain.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from kraal.engine.api import Failed, Held, Stopped, Waiting
from kraal.java_plugins.chains.chain import JavaChain
from kraal.java_plugins.chains.connection import ChainAddress, ChainLost
from kraal.java_plugins.jvm import PluginsUnavailable

if TYPE_CHECKING:
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.engine.api import Run, RunEvent, TaskSpec
    from kraal.java_plugins.host import PluginHost

log = logging.getLogger(__name__)


class _Phase(Enum):
    WAITING = auto()
    OPENING = auto()
    OPEN = auto()
    CLOSING = auto()
    OVER = auto()


class ChainedRun:
    """A run of a Python task with a chain in Java. Implements `kraal.engine.api.Run` and the host's `Listener`."""

    def __init__(
        self,
        host: PluginHost,
        spec: TaskSpec,
        config: Mapping[str, str],
        *,
        kind: str,
        number: int,
        graceful_s: float,
        open_inner: Callable[[TaskSpec, Callable[[RunEvent], None]], Run],
        report: Callable[[RunEvent], None],
        on_end: Callable[[ChainedRun, Failed | Stopped], None],
    ) -> None:
        """Create a run; `open` starts it.

        Args:
            host: the host of the chain's JVM.
            spec: the task.
            config: the config of the chain.
            kind: `source` or `sink`.
            number: identifies the chain.
            graceful_s: how long to wait for the plugins' `close` before the run ends.
            open_inner: opens the task in the inner engine, which is the engine for Python plugins.
            report: receives the run's events.
            on_end: called with the last event, before it is reported.
        """
        self.spec = spec
        self._host, self._config, self._kind, self._number = host, dict(config), kind, number
        self._graceful_s, self._open_inner, self._report, self._on_end = (
            graceful_s,
            open_inner,
            report,
            on_end,
        )
        self._call_lock = threading.Lock()
        """Serializes the calls of the inner engine's run; acquired before `_lock`."""
        self._lock = threading.RLock()
        """Guards the end of the run; not held during calls of the inner run, which reports under its own lock."""
        self._phase = _Phase.WAITING
        self._inner: Run | None = None
        self._is_requested = self._is_ending = False
        self._lost_reason: str | None = None
        """Why the JVM exited during the run."""
        self._last_event: Failed | Stopped | None = None
        """The event to report when the chain is closed."""
        self._close_deadline_s = 0.0

    def open(self) -> None:
        """Open the task as soon as the JVM is up."""
        if why := self._host.down_reason:
            self._report(Waiting(why))
        self._host.add_listener(self._number, self)

    # --- Run ------------------------------------------------------------------------------------------------

    def next(self) -> None:
        """Request one more batch, now or when the task is open."""
        with self._call_lock:
            self._is_requested = True
            if (inner := self._inner) is not None:
                inner.next()

    def hold(self) -> None:
        """Pause the task."""
        with self._call_lock:
            self._is_requested = False
            if (inner := self._inner) is not None:
                inner.hold()
            elif self._phase is not _Phase.OVER:
                self._report(Held())

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit a batch of a sink; the task actor stores the offsets of a source."""
        with self._call_lock:
            if (inner := self._inner) is not None:
                inner.commit(offsets)

    def stop(self) -> None:
        """Stop the task gracefully."""
        self._end(lambda inner: inner.stop())

    def stop_if_idle(self) -> bool:
        """Return False, so that the caller pauses the task before stopping it."""
        return False

    def cancel(self) -> None:
        """Cancel the task immediately."""
        self._end(lambda inner: inner.cancel())

    def _end(self, end: Callable[[Run], None]) -> None:
        with self._call_lock:
            self._is_ending = True
            if (inner := self._inner) is not None:
                end(inner)
                return
            with self._lock:
                if self._phase is not _Phase.OVER:
                    self._finish(Stopped(clean=True))

    # --- Listener -------------------------------------------------------------------------------------------

    def on_up(self) -> None:
        """Create the chain in the JVM."""
        with self._lock:
            if self._phase is _Phase.WAITING:
                self._phase = _Phase.OPENING
                self._host.submit(self._open, may_block=True)

    def on_down(self, why: str) -> None:
        """End the run, because the JVM has exited, or report that it waits for the JVM."""
        with self._call_lock:
            if (inner := self._inner) is not None:
                self._lost_reason = why
                inner.cancel()
            elif self._phase is _Phase.OPENING:
                self._lost_reason = why
            elif self._phase is _Phase.WAITING:
                self._report(Waiting(why))

    def event(self, event: Mapping[str, Any]) -> None:
        """No-op: a chain reports no events."""

    def tick(self) -> None:
        """Retry the creation of the chain, or report the end of the run if the chain does not close in time."""
        self.on_up()
        with self._lock:
            if self._phase is _Phase.CLOSING and time.monotonic() > self._close_deadline_s:
                log.warning(
                    "Transforms and converters of %s are still closing after %g s",
                    self.spec.task,
                    self._graceful_s,
                )
                self._report_last()

    # --- steps ----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        task = self.spec.task
        try:
            config = json.dumps(self._config)
            response = self._host.ask(
                "openChain", self._kind, task.connector, task.task, self._number, config
            )
        except PluginsUnavailable as exc:
            with self._lock:
                if self._phase is _Phase.OPENING:
                    self._phase = _Phase.WAITING
                    self._report(Waiting(str(exc)))
            return
        except Exception as exc:  # noqa: BLE001 - any error of plugin code
            with self._lock:
                if self._phase is _Phase.OPENING:
                    self._finish(Failed(trace=_format_trace(exc)))
            return
        self._open_task(JavaChain(ChainAddress(number=self._number, **json.loads(response))))

    def _open_task(self, chain: JavaChain) -> None:
        with self._call_lock:
            if self._phase is not _Phase.OPENING:  # the run was stopped meanwhile
                self._host.submit(self._close_chain, may_block=True)
                return
            if self._lost_reason is not None:
                self._phase, why, self._lost_reason = _Phase.WAITING, self._lost_reason, None
                self._report(Waiting(why))
                return
            self._phase = _Phase.OPEN
            try:
                inner = self._open_inner(replace(self.spec, chain=chain), self._forward)
            except Exception as exc:  # noqa: BLE001 - any error of the inner engine
                with self._lock:
                    self._finish(Failed(trace=repr(exc)))
                return
            with self._lock:
                if self._phase is not _Phase.OPEN:  # the task failed immediately
                    return
                self._inner = inner
            if self._is_requested:
                inner.next()

    def _forward(self, event: RunEvent) -> None:
        """Forward the inner engine's events; report a lost JVM like a lost engine."""
        if not isinstance(event, (Failed, Stopped)):
            self._report(event)
            return
        with self._lock:
            why = self._lost_reason
            if isinstance(event, Failed) and ChainLost.is_in(event.trace):
                why = why or event.trace
            self._inner = None
            self._finish(event if why is None or self._is_ending else Failed(trace=why, engine_lost=True))

    def _finish(self, event: Failed | Stopped) -> None:
        """Close the chain, because the next run creates new plugins; then report the event. Requires the lock."""
        self._last_event = event
        if self._phase is _Phase.OPEN:
            self._phase, self._close_deadline_s = _Phase.CLOSING, time.monotonic() + self._graceful_s
            self._host.submit(self._close, may_block=True)
            return
        if self.spec.transactions is not None:
            self._host.submit(self.spec.transactions.close)
        self._report_last()

    def _close(self) -> None:
        self._close_chain()
        with self._lock:
            self._report_last()

    def _report_last(self) -> None:
        """Report the last event, once. Requires the lock."""
        if self._phase is _Phase.OVER or self._last_event is None:
            return
        self._phase = _Phase.OVER
        self._host.remove_listener(self._number)
        self._on_end(self, self._last_event)
        self._report(self._last_event)

    def _close_chain(self) -> None:
        with suppress(PluginsUnavailable):  # the chain has ended with the JVM
            self._host.ask("closeChain", self._number)


def _format_trace(error: Exception) -> str:
    """Return a Java exception as text: its message in the first line, then the stack trace."""
    java = getattr(error, "java_exception", None)
    return str(error) if java is None else f"{java.toString()}\n{error}"

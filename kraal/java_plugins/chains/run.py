"""One run of a task in Python whose transforms and converters are in the plugins' JVM.

    WAITING ──up──► OPENING ──► OPEN ──► CLOSING ──► OVER

The run waits for the JVM and has it create the chain; then the other engine runs the task. If the JVM ends, so does the
run, as when Spark is lost: its current batch is abandoned, and the next run repeats it with a new chain.
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
from kraal.java_plugins.jvm import PluginsAway

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
    """Implements `kraal.engine.api.Run`, and the host's `Listener`."""

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
        over: Callable[[ChainedRun, Failed | Stopped], None],
    ) -> None:
        """`config`: the chain's; `kind`: `source` or `sink`; `number`: identifies the chain.

        `graceful_s`: how long the end of the run waits for the plugins' `close`; `open_inner` opens the task in the
        other engine.
        """
        self.spec = spec
        self._host, self._config, self._kind, self._number = host, dict(config), kind, number
        self._graceful_s, self._open_inner, self._report, self._over = graceful_s, open_inner, report, over
        self._calls = threading.Lock()
        """Held during calls of the other engine's run, so that they have one order; taken before `_lock`."""
        self._lock = threading.RLock()
        """Guards the end; not held during such calls, because that run reports with a lock of its own."""
        self._phase = _Phase.WAITING
        self._inner: Run | None = None
        self._asked = self._ends = False
        self._lost: str | None = None
        """Why the JVM ended during the run."""
        self._last: Failed | Stopped | None = None
        """The event to report when the chain is closed."""
        self._closed_by_s = 0.0

    def open(self) -> None:
        """Open the task as soon as the JVM is up."""
        if why := self._host.why_away:
            self._report(Waiting(why))
        self._host.follow(self._number, self)

    # --- Run ------------------------------------------------------------------------------------------------

    def next(self) -> None:
        """Ask for one more batch, at once or when the task is open."""
        with self._calls:
            self._asked = True
            if (inner := self._inner) is not None:
                inner.next()

    def hold(self) -> None:
        """Pause."""
        with self._calls:
            self._asked = False
            if (inner := self._inner) is not None:
                inner.hold()
            elif self._phase is not _Phase.OVER:
                self._report(Held())

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit a batch of a sink; the task actor stores the offsets of a source."""
        with self._calls:
            if (inner := self._inner) is not None:
                inner.commit(offsets)

    def stop(self) -> None:
        """End gracefully."""
        self._end(lambda inner: inner.stop())

    def cancel(self) -> None:
        """End now."""
        self._end(lambda inner: inner.cancel())

    def _end(self, end: Callable[[Run], None]) -> None:
        with self._calls:
            self._ends = True
            if (inner := self._inner) is not None:
                end(inner)
                return
            with self._lock:
                if self._phase is not _Phase.OVER:
                    self._finish(Stopped(clean=True))

    # --- Listener -------------------------------------------------------------------------------------------

    def on_up(self) -> None:
        """Make the chain when the JVM is up."""
        with self._lock:
            if self._phase is _Phase.WAITING:
                self._phase = _Phase.OPENING
                self._host.submit(self._open, may_block=True)

    def on_down(self, why: str) -> None:
        """End the run, because the JVM has exited, or continue to wait for the JVM."""
        with self._calls:
            if (inner := self._inner) is not None:
                self._lost = why
                inner.cancel()
            elif self._phase is _Phase.OPENING:
                self._lost = why
            elif self._phase is _Phase.WAITING:
                self._report(Waiting(why))

    def event(self, event: Mapping[str, Any]) -> None:
        """Do nothing: a chain reports nothing."""

    def tick(self) -> None:
        """Retry the creation of a chain; stop waiting for one that does not close."""
        self.on_up()
        with self._lock:
            if self._phase is _Phase.CLOSING and time.monotonic() > self._closed_by_s:
                log.warning(
                    "Transforms and converters of %s are still closing after %g s",
                    self.spec.task,
                    self._graceful_s,
                )
                self._tell()

    # --- steps ----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        task = self.spec.task
        try:
            config = json.dumps(self._config)
            answer = self._host.ask("openChain", self._kind, task.connector, task.task, self._number, config)
        except PluginsAway as exc:
            with self._lock:
                if self._phase is _Phase.OPENING:
                    self._phase = _Phase.WAITING
                    self._report(Waiting(str(exc)))
            return
        except Exception as exc:  # noqa: BLE001 - the border to plugin code
            with self._lock:
                if self._phase is _Phase.OPENING:
                    self._finish(Failed(trace=_trace(exc)))
            return
        self._open_task(JavaChain(ChainAddress(number=self._number, **json.loads(answer))))

    def _open_task(self, chain: JavaChain) -> None:
        with self._calls:
            if self._phase is not _Phase.OPENING:  # it was stopped meanwhile
                self._host.submit(self._close_chain, may_block=True)
                return
            if self._lost is not None:
                self._phase, why, self._lost = _Phase.WAITING, self._lost, None
                self._report(Waiting(why))
                return
            self._phase = _Phase.OPEN
            try:
                inner = self._open_inner(replace(self.spec, chain=chain), self._forward)
            except Exception as exc:  # noqa: BLE001 - the border to the other engine
                with self._lock:
                    self._finish(Failed(trace=repr(exc)))
                return
            with self._lock:
                if self._phase is not _Phase.OPEN:  # it has failed at once
                    return
                self._inner = inner
            if self._asked:
                inner.next()

    def _forward(self, event: RunEvent) -> None:
        """Pass on the other engine's reports; the loss of the JVM ends a run like the loss of Spark."""
        if not isinstance(event, (Failed, Stopped)):
            self._report(event)
            return
        with self._lock:
            why = self._lost
            if isinstance(event, Failed) and ChainLost.is_in(event.trace):
                why = why or event.trace
            self._inner = None
            self._finish(event if why is None or self._ends else Failed(trace=why, engine_lost=True))

    def _finish(self, event: Failed | Stopped) -> None:
        """Report the last event, after the chain is closed: the next run has other plugins. Holds the lock."""
        self._last = event
        if self._phase is _Phase.OPEN:
            self._phase, self._closed_by_s = _Phase.CLOSING, time.monotonic() + self._graceful_s
            self._host.submit(self._close, may_block=True)
            return
        if self.spec.transactions is not None:
            self._host.submit(self.spec.transactions.close)
        self._tell()

    def _close(self) -> None:
        self._close_chain()
        with self._lock:
            self._tell()

    def _tell(self) -> None:
        """Report the last event, once. Holds the lock."""
        if self._phase is _Phase.OVER or self._last is None:
            return
        self._phase = _Phase.OVER
        self._host.forget(self._number)
        self._over(self, self._last)
        self._report(self._last)

    def _close_chain(self) -> None:
        with suppress(PluginsAway):  # it has ended with the JVM
            self._host.ask("closeChain", self._number)


def _trace(error: Exception) -> str:
    """Return Java's exception as text: the cause in the first line, then the stack."""
    java = getattr(error, "java_exception", None)
    return str(error) if java is None else f"{java.toString()}\n{error}"

"""Watches a task's lease while a job runs, because a producer may block a job for longer than the lease is valid."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from kraal.core.ids import TaskId
from kraal.core.lease import LEASE_EXPIRED
from kraal.engine.api import BatchDone, Committed
from kraal.engine.executor import JobResult
from kraal.plugins.api import RetriableError

log = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 0.25


class LeaseWatch:
    """Watches the lease of one run, which has one job at a time. Thread-safe."""

    def __init__(
        self,
        task: TaskId,
        has_lease: Callable[[], bool],
        call_later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        """Create a watch; `call_later` calls a function after a number of seconds."""
        self.task = task
        self._has_lease = has_lease
        self._call_later = call_later
        self._lock = threading.Lock()
        self._interrupt: Callable[[], bool] = bool  # returns False
        self._is_working = self._is_interrupted = self._is_scheduled = False

    def begin(self, interrupt: Callable[[], bool]) -> None:
        """Watch the job that is about to start; for `interrupt`, see `Executor`."""
        with self._lock:
            self._interrupt, self._is_working, self._is_interrupted = interrupt, True, False
            if not self._is_scheduled:
                self._is_scheduled = True
                self._call_later(CHECK_INTERVAL_S, self._check)

    def end(self, outcome: JobResult) -> JobResult:
        """Stop watching the job; return its result, or a RetriableError if it was interrupted before it succeeded."""
        with self._lock:
            self._is_working = False
            is_interrupted = self._is_interrupted
        if is_interrupted and not isinstance(outcome, BatchDone | Committed):
            return RetriableError(LEASE_EXPIRED)
        return outcome

    def _check(self) -> None:
        """Interrupt the job if there is no lease.

        Repeats until the job ends, because parts of the job may start at any time.
        """
        with self._lock:
            self._is_scheduled = self._is_working
            if not self._is_working:
                return
            if not self._has_lease() and self._interrupt() and not self._is_interrupted:
                self._is_interrupted = True
                log.warning("%s: Interrupting a job because %s", self.task, LEASE_EXPIRED)
            self._call_later(CHECK_INTERVAL_S, self._check)

"""The few threads that may wait: for Spark, for Kafka, for a plugin's `start` and `stop`.

Each Python thread that calls Spark holds a thread in the JVM, so there are few of them, shared by all tasks.
What a plugin can block is therefore bounded: a stuck `start`, `write` or `stop` holds one of these threads;
the other tasks go on with the rest of them, and an ending task is reported by the poller even if none is
free.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from kraal.logs import carried

log = logging.getLogger(__name__)


class Pool:
    """Runs functions on `size` threads, first come, first served."""

    def __init__(self, size: int, name: str) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True) for number in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[[], None]) -> None:
        """Have `function` run; it must not raise."""
        self._queue.put(carried(function))

    def close(self, timeout_s: float) -> None:
        """End the threads after what is queued; waits `timeout_s` for each at most."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout_s)

    def _run(self) -> None:
        while (function := self._queue.get()) is not None:
            try:
                function()
            except BaseException:
                log.exception("work on a job thread failed")

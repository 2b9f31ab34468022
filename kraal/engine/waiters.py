"""Threads that block until a consumer has a record, so that an idle sink receives it at once without polling.

Each wait is short, because a wait delays requests to its task, such as a pause or a stop. The pool has at most
`MAX_THREADS` threads. If no thread is free for a task, the timer thread polls that task.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kraal.core.logging import bind_subject

log = logging.getLogger(__name__)

MAX_THREADS: Final = 16
MAX_WAIT_S: Final = 0.05
"""Maximum duration of a wait."""


class Waiters:
    """A pool of threads for functions that block briefly. Thread-safe."""

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        """Create an empty pool. Threads are started on demand and then kept."""
        self._free = threading.Semaphore(max_threads)
        self._local = threading.local()
        """`next` is the function that a waiting thread calls after the current function; not set on other threads."""
        self._threads = ThreadPoolExecutor(max_threads, "kraal-wait")

    def try_submit(self, function: Callable[[], None]) -> bool:
        """Run `function` if a thread is free, and return whether it was accepted. Exceptions are logged."""
        run = bind_subject(function)
        if getattr(self._local, "next", run) is None:  # on a waiting thread, which runs this function next
            self._local.next = run
            return True
        if not self._free.acquire(blocking=False):
            return False

        def wait() -> None:
            self._local.next = run
            try:
                while (function := self._local.next) is not None:
                    self._local.next = None
                    _call(function)
            finally:
                del self._local.next
                self._free.release()

        try:
            self._threads.submit(wait)
        except RuntimeError:  # closed
            self._free.release()
            return False
        return True

    def close(self) -> None:
        """Reject further functions. Returns at once."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _call(function: Callable[[], None]) -> None:
    try:
        function()
    except BaseException:
        log.exception("Uncaught exception in a wait for records")

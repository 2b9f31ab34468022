"""Threads that wait for a consumer's next record, so that an idle sink need not be polled to have it at once.

Each wait is short, because what is asked of its task meanwhile (a pause, a stop) waits for its end. There are at most
`MOST` threads; the tasks that find none free are polled by the timer thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kraal.core.logging import carried

log = logging.getLogger(__name__)

MOST: Final = 16
"""Maximum number of threads."""
WAIT_S: Final = 0.05
"""Maximum time of one wait."""


class Waiters:
    """Runs functions that wait. Any thread."""

    def __init__(self, most: int = MOST) -> None:
        """Create it without threads; they start when they are needed, and stay."""
        self._free = threading.Semaphore(most)
        self._here = threading.local()
        """`next`: what this waiting thread does after the current function; not set on other threads."""
        self._threads = ThreadPoolExecutor(most, "kraal-wait")

    def take(self, function: Callable[[], None]) -> bool:
        """Run `function` on a thread if one is free; return whether it is run. What it raises is logged."""
        run = carried(function)
        if getattr(self._here, "next", run) is None:  # this is such a thread: it goes on with this function
            self._here.next = run
            return True
        if not self._free.acquire(blocking=False):
            return False

        def wait() -> None:
            self._here.next = run
            try:
                while (function := self._here.next) is not None:
                    self._here.next = None
                    _call(function)
            finally:
                del self._here.next
                self._free.release()

        try:
            self._threads.submit(wait)
        except RuntimeError:  # closed
            self._free.release()
            return False
        return True

    def close(self) -> None:
        """Take no more functions; returns at once."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _call(function: Callable[[], None]) -> None:
    try:
        function()
    except BaseException:
        log.exception("A wait for records failed")

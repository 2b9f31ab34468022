"""One thread for everything that waits for time: polls of idle tasks, back-offs, deadlines.

A hundred idle tasks cost one thread and a few wake-ups a second, because due times are rounded up to a common
tick. Callbacks must return in milliseconds. One that does not (a stuck plugin) is left behind: `relieve`,
called by whoever wants something done, starts a fresh thread, and the stuck one ends when its callback
returns.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable

from kraal.logs import carried

log = logging.getLogger(__name__)

TICK_S = 0.02
"""Due times are rounded up to multiples of this, so that idle tasks wake the thread together."""

STUCK_S = 2.0
"""A callback that runs longer than this loses its thread."""


class Poller:
    """Calls functions at their time. Any thread may call its methods."""

    def __init__(self, name: str = "kraal-poller") -> None:
        self._name = name
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._current: threading.Thread | None = None
        self._busy_since: float | None = None
        with self._changed:
            self._replace()

    def soon(self, function: Callable[[], None]) -> None:
        """Call `function` at once, on the poller's thread."""
        self._put(time.monotonic(), function)

    def after(self, delay_s: float, function: Callable[[], None]) -> None:
        """Call `function` in `delay_s` seconds, rounded up to the common tick."""
        due = math.ceil((time.monotonic() + delay_s) / TICK_S) * TICK_S
        self._put(due, function)

    def close(self, timeout_s: float) -> None:
        """Forget what waits and end the thread."""
        with self._changed:
            self._closed = True
            self._heap.clear()
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(timeout_s)

    def relieve(self) -> None:
        """Start a new thread if the present one is stuck in a callback."""
        with self._changed:
            since = self._busy_since
            if since is not None and time.monotonic() - since > STUCK_S and not self._closed:
                log.warning("a plugin has kept the poller for %.1f s; it goes on without it", STUCK_S)
                self._replace()

    def _put(self, due: float, function: Callable[[], None]) -> None:
        with self._changed:
            if self._closed:
                return
            first = self._heap[0][0] if self._heap else math.inf
            heapq.heappush(self._heap, (due, next(self._numbers), carried(function)))
            if due < first:
                self._changed.notify_all()
        self.relieve()

    def _replace(self) -> None:
        self._busy_since = None
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._current = thread
        self._threads = [t for t in self._threads if t.is_alive()] + [thread]
        thread.start()

    def _run(self) -> None:
        me = threading.current_thread()
        while True:
            function = self._take(me)
            if function is None:
                return
            try:
                function()
            except BaseException:
                log.exception("a timer's callback failed")
            with self._changed:
                if self._current is me:
                    self._busy_since = None

    def _take(self, me: threading.Thread) -> Callable[[], None] | None:
        with self._changed:
            while not self._closed and self._current is me:
                now = time.monotonic()
                if self._heap and self._heap[0][0] <= now:
                    self._busy_since = now
                    return heapq.heappop(self._heap)[2]
                self._changed.wait(self._heap[0][0] - now if self._heap else None)
            return None

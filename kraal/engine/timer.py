"""The timer thread: polls of idle tasks, back-offs, deadlines.

A hundred idle tasks cost one thread and a few wake-ups per second, because due times are rounded up to a common
tick. Callbacks must return in milliseconds. If one does not (a stuck plugin), it loses the thread: a watchdog thread
starts a new one, and the stuck thread ends when its callback returns. There are at most `MOST` threads, including the
stuck ones.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable

from kraal.core.logging import carried
from kraal.engine.thread_pool import NOBODY, Owner, stack_of
from kraal.metrics.thread_pools import PoolState, StuckCall

log = logging.getLogger(__name__)

TICK_S = 0.02
"""Due times are rounded up to multiples of this, so that idle tasks wake the thread together."""

STUCK_S = 2.0
"""A callback that runs longer than this loses its thread."""

MOST = 16
"""Maximum number of threads, including those of stuck callbacks; the same as for a pool of jobs."""


class TimerThread:
    """Calls functions at scheduled times. Methods may be called on any thread."""

    def __init__(self, name: str = "kraal-poller") -> None:
        self._name = name
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, Callable[[], None], Owner]] = []
        self._numbers = itertools.count()
        self._closed = False
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._current: threading.Thread | None = None
        self._busy_since: float | None = None
        self._owner = NOBODY
        """The owner of the current thread's callback."""
        self._stuck: dict[threading.Thread, StuckCall] = {}
        with self._changed:
            self._replace()
        threading.Thread(target=self._watch, name=f"{name}-watch", daemon=True).start()

    def call_soon(self, function: Callable[[], None], owner: Owner = NOBODY) -> None:
        """Call `function` for `owner` immediately, on the timer thread."""
        self._schedule(time.monotonic(), function, owner)

    def after(self, delay_s: float, function: Callable[[], None], owner: Owner = NOBODY) -> None:
        """Call `function` for `owner` in `delay_s` seconds, rounded up to the common tick."""
        due = math.ceil((time.monotonic() + delay_s) / TICK_S) * TICK_S
        self._schedule(due, function, owner)

    def at_next(self, interval_s: float, function: Callable[[], None], owner: Owner = NOBODY) -> None:
        """Call `function` for `owner` at the next multiple of `interval_s`: together with all that have the same."""
        due = (math.floor(time.monotonic() / interval_s) + 1) * interval_s
        self._schedule(due, function, owner)

    def close(self, timeout_s: float) -> None:
        """Drop pending callbacks and end the thread."""
        with self._changed:
            self._closed = True
            self._over.set()
            self._heap.clear()
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(timeout_s)

    def state(self) -> PoolState:
        """Return the callbacks that are stuck now. Any thread."""
        with self._changed:
            return PoolState(self._name, MOST, tuple(self._stuck.values()))

    def _watch(self) -> None:
        while not self._over.wait(STUCK_S / 2):
            self._relieve()

    def _relieve(self) -> None:
        """Start a new thread if the current one is stuck in a callback and the limit is not reached."""
        with self._changed:
            since, stuck = self._busy_since, self._current
            if self._closed or since is None or stuck is None or stuck in self._stuck:
                return
            busy_s = time.monotonic() - since
            if busy_s <= STUCK_S:
                return
            owner = self._owner
            self._stuck[stuck] = StuckCall(str(owner), time.time() - busy_s)
            count = len(self._stuck)
            self._replace()
        log.warning(
            "%s: Abandoning a thread of the poller because its call has not returned for %.1f s; the poller has "
            "abandoned %d of at most %d threads. Stack of the call:\n%s",
            *(owner, busy_s, count, MOST, stack_of(stuck)),
        )

    def _schedule(self, due: float, function: Callable[[], None], owner: Owner) -> None:
        with self._changed:
            if self._closed:
                return
            first = self._heap[0][0] if self._heap else math.inf
            heapq.heappush(self._heap, (due, next(self._numbers), carried(function), owner))
            if due < first:
                self._changed.notify_all()

    def _replace(self) -> None:
        """Continue on a new thread, if the limit allows one. Holds the lock."""
        if len(self._stuck) >= MOST:
            return
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
                log.exception("A timer callback failed")
            with self._changed:
                self._stuck.pop(me, None)
                if self._current is me:
                    self._busy_since = None
                elif self._current in self._stuck and not self._closed:
                    self._replace()

    def _take(self, me: threading.Thread) -> Callable[[], None] | None:
        with self._changed:
            while not self._closed and self._current is me:
                now = time.monotonic()
                if self._heap and self._heap[0][0] <= now:
                    self._busy_since = now
                    _, _, function, self._owner = heapq.heappop(self._heap)
                    return function
                self._changed.wait(self._heap[0][0] - now if self._heap else None)
            return None

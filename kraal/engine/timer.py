"""The timer thread, which polls idle tasks and serves backoffs and deadlines.

A hundred idle tasks require one thread and ten wake-ups per second, because tasks with equal intervals are polled at
the same times, and all other due times are rounded up to a common tick. Callbacks must return within milliseconds. If
one does not, for example in a stuck plugin, a watchdog thread starts a new timer thread, and the stuck one ends when
its callback returns. There are at most `MAX_THREADS` threads, including the stuck ones.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from typing_extensions import override

from kraal.core.logging import log_subject
from kraal.engine.thread_pool import WORKER_OWNER, Owner, describe_stack
from kraal.metrics.thread_pools import PoolState, StuckCall

log = logging.getLogger(__name__)

TICK_S = 0.02
"""Due times are rounded up to multiples of this, so that idle tasks share wake-ups."""

STUCK_TIMEOUT_S = 2.0
"""A callback that runs longer than this counts as stuck, and its thread is replaced."""

MAX_THREADS = 16
"""Maximum number of threads, including those of stuck callbacks; the same as for the pool of job threads."""


class _Call(NamedTuple):
    function: Callable[[], object]
    owner: Owner
    subject: str
    """The subject of the call's log lines, inherited from the thread that scheduled it."""
    interval_s: float
    """The interval after which `function` is called again if it returns True; 0 for a single call."""
    can_skip: Callable[[], bool] | None = None
    """Returns whether a call can be skipped, as if it had returned True; None to make all calls."""


class _CallThread(threading.Thread):
    """A thread that makes calls; no other thread writes its fields."""

    def __init__(self, name: str, make_calls: Callable[[_CallThread], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._make_calls = make_calls
        self.current_call: tuple[Owner, float] | None = None
        """The owner of the current call, and its start in monotonic seconds; None while the thread waits."""

    @override
    def run(self) -> None:
        self._make_calls(self)


class TimerThread:
    """Calls functions at scheduled times. Thread-safe."""

    def __init__(self, name: str = "kraal-poller") -> None:
        self._name = name
        self._changed = threading.Condition()
        self._times: list[float] = []
        """A heap of due times."""
        self._calls: dict[float, list[_Call]] = {}
        """The calls that are due at each of these times, in the order in which they were scheduled."""
        self._due: Final[deque[_Call]] = deque()
        """The calls that are due now; threads remove them without the lock."""
        self._closed = False
        self._over = threading.Event()
        self._threads: list[_CallThread] = []
        self._current: _CallThread | None = None
        """The thread that makes the calls."""
        self._stuck_calls: dict[_CallThread, StuckCall] = {}
        with self._changed:
            self._start_thread()
        threading.Thread(target=self._watch, name=f"{name}-watch", daemon=True).start()

    def call_soon(self, function: Callable[[], object], owner: Owner = WORKER_OWNER) -> None:
        """Call `function` for `owner` as soon as possible, on the timer thread."""
        self._schedule(time.monotonic(), _Call(function, owner, log_subject.get(), 0.0))

    def call_later(self, delay_s: float, function: Callable[[], object], owner: Owner = WORKER_OWNER) -> None:
        """Call `function` for `owner` after `delay_s` seconds, rounded up to the common tick."""
        due_s = math.ceil((time.monotonic() + delay_s) / TICK_S) * TICK_S
        self._schedule(due_s, _Call(function, owner, log_subject.get(), 0.0))

    def call_at_interval(
        self,
        interval_s: float,
        function: Callable[[], bool],
        owner: Owner = WORKER_OWNER,
        *,
        can_skip: Callable[[], bool] | None = None,
    ) -> None:
        """Call `function` for `owner` at the next multiple of `interval_s`, together with other calls of that interval.

        `function` is called again at this interval as long as it returns True. It is not called at times when
        `can_skip`, which must return within microseconds, returns True.
        """
        self._schedule(
            _next_multiple(time.monotonic(), interval_s),
            _Call(function, owner, log_subject.get(), interval_s, can_skip),
        )

    def close(self, timeout_s: float) -> None:
        """Drop pending callbacks, and wait up to `timeout_s` for each thread to end."""
        with self._changed:
            self._closed = True
            self._over.set()
            self._times.clear()
            self._calls.clear()
            self._due.clear()
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(timeout_s)

    def state(self) -> PoolState:
        """Return the state of the poller, with its stuck callbacks."""
        with self._changed:
            return PoolState(self._name, MAX_THREADS, tuple(self._stuck_calls.values()))

    def _watch(self) -> None:
        while not self._over.wait(STUCK_TIMEOUT_S / 2):
            self._replace_stuck_thread()

    def _replace_stuck_thread(self) -> None:
        """Start a new thread if the current one is stuck in a callback and the limit allows it."""
        with self._changed:
            thread = self._current
            current_call = None if thread is None else thread.current_call
            if self._closed or thread is None or current_call is None or thread in self._stuck_calls:
                return
            owner, since_s = current_call
            busy_s = time.monotonic() - since_s
            if busy_s <= STUCK_TIMEOUT_S:
                return
            self._stuck_calls[thread] = StuckCall(str(owner), time.time() - busy_s)
            count = len(self._stuck_calls)
            self._start_thread()
        log.warning(
            "%s: Abandoning a thread of the poller because its call has not returned for %.1f s; the poller has "
            "abandoned %d of at most %d threads. Stack of the call:\n%s",
            *(owner, busy_s, count, MAX_THREADS, describe_stack(thread)),
        )

    def _schedule(self, due_s: float, call: _Call) -> None:
        with self._changed:
            if self._closed:
                return
            calls = self._calls.get(due_s)
            if calls is not None:
                calls.append(call)
                return
            self._calls[due_s] = [call]
            heapq.heappush(self._times, due_s)
            if self._times[0] == due_s:
                self._changed.notify_all()

    def _start_thread(self) -> None:
        """Start a thread and make it the current one, if the limit allows it. The caller holds the lock."""
        if len(self._stuck_calls) >= MAX_THREADS:
            return
        thread = _CallThread(self._name, self._run)
        self._current = thread
        self._threads = [t for t in self._threads if t.is_alive()] + [thread]
        thread.start()

    def _run(self, thread: _CallThread) -> None:
        while self._wait(thread):
            self._make_calls(thread)
            thread.current_call = None
            with self._changed:
                self._stuck_calls.pop(thread, None)
                if self._current in self._stuck_calls and not self._closed:
                    self._start_thread()

    def _wait(self, thread: _CallThread) -> bool:
        """Wait until calls are due; return False if the thread must end."""
        with self._changed:
            while not self._closed and self._current is thread:
                now_s = time.monotonic()
                while self._times and self._times[0] <= now_s:
                    self._due.extend(self._calls.pop(heapq.heappop(self._times)))
                if self._due:
                    return True
                self._changed.wait(self._times[0] - now_s if self._times else None)
            return False

    def _make_calls(self, thread: _CallThread) -> None:
        """Make the calls that are due, as long as `thread` is the current thread.

        Another thread may replace `thread` between two calls. Both may then make calls for a moment, but never the same
        call.
        """
        while self._current is thread and thread not in self._stuck_calls:
            try:
                call = self._due.popleft()
            except IndexError:
                return
            function, owner, subject, interval_s, can_skip = call
            now_s = time.monotonic()
            thread.current_call = owner, now_s
            log_subject.set(subject)
            try:
                must_repeat = (can_skip is not None and can_skip()) or function()
            except BaseException:
                log.exception("Uncaught exception in a timer callback")
                continue
            if must_repeat and interval_s:
                self._schedule(_next_multiple(now_s, interval_s), call)


def _next_multiple(now_s: float, interval_s: float) -> float:
    """Return the first multiple of `interval_s` after `now_s`."""
    return (now_s // interval_s + 1.0) * interval_s

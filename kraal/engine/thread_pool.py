"""Thread pools for calls that may block: in Spark, in Kafka, in a plugin's `start` and `stop`.

Each Python thread that calls Spark occupies a thread of the JVM, so all tasks share a small number of threads. A plugin
that blocks in `start`, `write` or `stop` occupies one of them; other tasks continue on the remaining ones, and the
poller reports the end of a task even if no thread is free. A call that has not returned when its owner is abandoned
keeps its thread, but the pool starts another one in its place, up to a limit.
"""

from __future__ import annotations

import gc
import itertools
import logging
import queue
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType

from typing_extensions import override

from kraal.core.logging import bind_subject
from kraal.metrics.thread_pools import PoolState, StuckCall

log = logging.getLogger(__name__)

MAX_THREADS_FACTOR = 2
"""Maximum number of threads of a pool, including those of stuck calls, as a multiple of its size.

If as many calls hang as a pool has threads, further calls are likely to hang too; more threads would only delay the
report that the worker is unhealthy.
"""


class Owner:
    """The owner of calls: one run of a task, or a job of several runs. Compared by identity."""

    def __init__(self, name: str) -> None:
        self._name = name

    @override
    def __str__(self) -> str:
        return self._name


WORKER_OWNER = Owner("the worker")
"""The owner of calls that are never abandoned."""


@dataclass(frozen=True, slots=True)
class _Call:
    function: Callable[[], None]
    owner: Owner


class Pool:
    """Runs functions on `size` threads, first in, first out."""

    def __init__(self, size: int, name: str) -> None:
        self._name = name
        self._size = size
        self._max_threads = size * MAX_THREADS_FACTOR
        self._queue: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._threads: set[threading.Thread] = set()
        """The threads that take calls from the queue."""
        self._running_calls: dict[threading.Thread, tuple[Owner, float]] = {}
        """For each busy thread, the owner and the start time of its call."""
        self._stuck_calls: dict[threading.Thread, StuckCall] = {}
        self._queued_counts: Counter[Owner] = Counter()
        """Number of queued calls by owner."""
        self._closed = False
        with self._lock:
            self._fill()

    def submit(self, function: Callable[[], None], owner: Owner = WORKER_OWNER) -> None:
        """Schedule `function` to run for `owner`. `function` must not raise."""
        with self._lock:
            self._queued_counts[owner] += 1
        self._queue.put(_Call(bind_subject(function), owner))

    def share_for(self, owner: Owner) -> Share:
        """Return a view of the pool that submits calls for `owner`."""
        return Share(self, owner)

    def abandon(self, owner: Owner) -> bool:
        """Mark the running calls of `owner` as stuck, and replace their threads.

        Return whether calls of the owner are still queued: they may hang as well, so the caller should call again.
        """
        with self._lock:
            stuck_threads = [thread for thread, (caller, _) in self._running_calls.items() if caller is owner]
            stuck_threads = [thread for thread in stuck_threads if thread not in self._stuck_calls]
            for thread in stuck_threads:
                self._stuck_calls[thread] = StuckCall(str(owner), self._running_calls[thread][1])
                self._threads.discard(thread)
            self._fill()
            count = len(self._stuck_calls)
            has_queued_calls = owner in self._queued_counts
        for thread in stuck_threads:
            log.warning(
                "%s: Abandoning thread %s because its call does not return; %s has abandoned %d of at most %d threads. "
                "Stack of the call:\n%s",
                *(owner, thread.name, self._name, count, self._max_threads, describe_stack(thread)),
            )
        return has_queued_calls

    def state(self) -> PoolState:
        """Return the state of the pool, with its stuck calls. Thread-safe."""
        with self._lock:
            return PoolState(self._name, self._max_threads, tuple(self._stuck_calls.values()))

    def close(self, timeout_s: float) -> None:
        """Stop the threads after the queued calls; wait up to `timeout_s` for each thread that is not stuck."""
        with self._lock:
            self._closed = True
            threads = list(self._threads)
        for _ in threads:
            self._queue.put(None)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(timeout_s)

    def _fill(self) -> None:
        """Start missing threads, up to the limit. The caller holds the lock."""
        while (
            not self._closed
            and len(self._threads) < self._size
            and len(self._threads) + len(self._stuck_calls) < self._max_threads
        ):
            name = f"{self._name}-{next(self._numbers)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.add(thread)
            thread.start()

    def _run(self) -> None:
        thread = threading.current_thread()
        while (call := self._queue.get()) is not None:
            with self._lock:
                self._running_calls[thread] = (call.owner, time.time())
                self._queued_counts[call.owner] -= 1
                if not self._queued_counts[call.owner]:
                    del self._queued_counts[call.owner]
            try:
                call.function()
            except BaseException:
                log.exception("Uncaught exception on a pool thread")
            with self._lock:
                _, start_s = self._running_calls.pop(thread)
                stuck_call = self._stuck_calls.pop(thread, None)
                if stuck_call is not None:
                    self._fill()
            if stuck_call is not None:
                duration_s = time.time() - start_s
                log.info(
                    "%s: An abandoned call returned after %.0f s; stopping its thread",
                    stuck_call.owner,
                    duration_s,
                )
                return


@dataclass(frozen=True, slots=True)
class Share:
    """A pool, as used by one owner."""

    pool: Pool
    owner: Owner

    def submit(self, function: Callable[[], None]) -> None:
        """Schedule `function`; it must not raise."""
        self.pool.submit(function, self.owner)


def describe_stack(thread: threading.Thread) -> str:
    """Return the Python stack of a thread as a traceback, or a message if the thread has ended."""
    frame = _current_frames().get(thread.ident or 0)
    return "(the thread has ended)" if frame is None else "".join(traceback.format_stack(frame)).rstrip()


def _current_frames() -> Mapping[int, FrameType]:
    """Return the current frame of each thread by its id, with garbage collection disabled during the call.

    Before Python 3.11.10, a collection during the call can deadlock the process: the call holds a lock of the
    interpreter that each thread needs to start (CPython issue 106883).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()  # noqa: SLF001 - documented for this purpose
    finally:
        if was_enabled:
            gc.enable()

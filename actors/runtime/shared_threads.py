"""Thread pool that many actors share, each for one turn at a time.

The actors of connectors and tasks handle a message in microseconds and then wait, so a thread for each would only cost
memory and wake-ups. Code that may block (a plugin's `start`, a config provider) runs inside `blocking`, so that
another thread runs other actors' turns meanwhile. Blocked threads do not count towards `size`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

SIZE = 2
"""Number of threads that run turns; more threads would only compete for the GIL."""

_thread_local = threading.local()
"""`threads`: the `SharedThreads` to which the current thread belongs."""


class SharedThreads:
    """Runs turns in FIFO order. Thread-safe."""

    def __init__(self, size: int = SIZE) -> None:
        """`size`: maximum number of threads outside `blocking`; threads start with the first turns."""
        self._size = size
        self._changed = threading.Condition()
        self._turns: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._idle = 0
        """Number of threads that wait for a turn."""
        self._blocked = 0
        """Number of threads inside `blocking`."""
        self._closed = False

    def submit(self, turn: Callable[[], None]) -> None:
        """Schedule a turn, which must not raise. Never blocks."""
        with self._changed:
            self._turns.append(turn)
            self._ensure_thread()

    def close(self) -> None:
        """Stop the threads after the scheduled turns. Never blocks."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @contextmanager
    def release_thread(self) -> Iterator[None]:
        """Let another thread take over while this one may block."""
        with self._changed:
            self._blocked += 1
            if self._turns:
                self._ensure_thread()
        try:
            yield
        finally:
            with self._changed:
                self._blocked -= 1

    def _ensure_thread(self) -> None:
        """Wake or start a thread for a turn unless all threads are busy. The caller holds the lock."""
        if self._idle:
            self._changed.notify()
        elif self._threads - self._blocked < self._size:
            self._threads += 1
            threading.Thread(target=self._run, name="kraal-actors", daemon=True).start()

    def _run(self) -> None:
        _thread_local.threads = self
        while (turn := self._take_turn()) is not None:
            try:
                turn()
            except BaseException:
                log.exception("Uncaught exception in an actor")

    def _take_turn(self) -> Callable[[], None] | None:
        """Wait for a turn; return None if the thread must exit."""
        with self._changed:
            while self._threads - self._blocked <= self._size:
                if self._turns:
                    return self._turns.popleft()
                if self._closed:
                    break
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            self._threads -= 1
            if self._turns:
                self._changed.notify()
            return None


@contextmanager
def blocking() -> Iterator[None]:
    """Mark code that may block, so that it does not delay other actors on a shared thread."""
    threads: SharedThreads | None = getattr(_thread_local, "threads", None)
    if threads is None:
        yield
        return
    with threads.release_thread():
        yield

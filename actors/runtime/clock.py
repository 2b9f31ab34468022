"""Clock for actors: the current time, and delayed messages.

`ThreadClock` is the real clock; `kraal.testing.VirtualClock` is its virtual counterpart.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from actors.runtime.mailbox import Address, Tell


class Timer(Protocol):
    """A scheduled message."""

    def cancel(self) -> None:
        """Cancel the message unless it was already sent. Receivers must drop outdated messages."""


class Clock(Protocol):
    """Time and timers. Thread-safe."""

    def now(self) -> float:
        """Return monotonic seconds."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""

    def after(self, delay_s: float, address: Address, message: Tell) -> Timer:
        """Send the message to `address` in `delay_s` seconds, unless the returned timer is cancelled."""


class MessageTimer:
    """Timer with which an actor sends itself one delayed message, for example to detect an overdue reply."""

    def __init__(self, clock: Clock, address: Address) -> None:
        self._clock = clock
        self._address = address
        self._timer: Timer | None = None

    def schedule(self, delay_s: float, message: Tell) -> None:
        """Schedule `message` in `delay_s` seconds; a message that is already scheduled is cancelled."""
        self.cancel()
        self._timer = self._clock.after(delay_s, self._address, message)

    def cancel(self) -> None:
        """Cancel the scheduled message."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Alarm:
    __slots__ = ("address", "cancelled", "message")

    def __init__(self, address: Address, message: Tell) -> None:
        self.address = address
        self.message = message
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ThreadClock:
    """The real clock: one daemon thread sleeps until the next message is due."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, _Alarm]] = []
        self._tie_breaker = itertools.count()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)
        self._thread.start()

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def after(self, delay_s: float, address: Address, message: Tell) -> Timer:
        """Send the message to `address` in `delay_s` seconds, unless the returned timer is cancelled."""
        alarm = _Alarm(address, message)
        with self._changed:
            entry = (self.now() + delay_s, next(self._tie_breaker), alarm)
            heapq.heappush(self._due, entry)
            if self._due[0] is entry:
                self._changed.notify()
        return alarm

    def close(self) -> None:
        """Stop sending messages, and wait for the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and not self._is_due():
                    self._changed.wait(self._due[0][0] - self.now() if self._due else None)
                if self._closed:
                    return
                _, _, alarm = heapq.heappop(self._due)
            if not alarm.cancelled:
                alarm.address.tell(alarm.message)

    def _is_due(self) -> bool:
        """Return whether the first message is due, after removing cancelled messages from the front of the queue."""
        while self._due and self._due[0][2].cancelled:
            heapq.heappop(self._due)
        return bool(self._due) and self._due[0][0] <= self.now()

"""Runs actors in one thread and virtual time, in an order determined by a seed.

The same seed produces the same interleaving, so a failure that depends on the order of messages is reproducible. Real
threads, such as those of a real Spark engine, may send messages; `run_until` waits for them.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.runtime.mailbox import Question
from actors.runtime.system import Begin, Crash

if TYPE_CHECKING:
    from actors.runtime.clock import Timer
    from actors.runtime.mailbox import Address, Behaviour, Tell
    from actors.runtime.system import Factory


@dataclass(slots=True, eq=False)
class _Actor:
    """One actor: a mailbox and, since its first message, a behaviour."""

    number: int
    """Sequence number of the actor."""
    address: Address
    factory: Factory
    died: Callable[[BaseException], None]
    inbox: deque[object] = field(default_factory=deque)
    behaviour: Behaviour | None = None
    alive: bool = True
    frozen: bool = False


@dataclass(slots=True, eq=False)
class _Alarm:
    address: Address
    message: Tell
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualClock:
    """A clock that is advanced only by a test."""

    def __init__(self, *, wall_ms: int = 1_700_000_000_000) -> None:
        self._now = 0.0
        self._wall_ms = wall_ms
        self._due: list[tuple[float, int, _Alarm]] = []
        self._tie = itertools.count()

    def now(self) -> float:
        """Return the virtual seconds since the clock was created."""
        return self._now

    def wall_ms(self) -> int:
        """Return the milliseconds since the epoch, as if the clock had been created at a fixed time."""
        return self._wall_ms + int(self._now * 1000)

    def after(self, delay_s: float, address: Address, message: Tell) -> Timer:
        """Send `address` the message after a virtual delay."""
        alarm = _Alarm(address, message)
        heapq.heappush(self._due, (self._now + delay_s, next(self._tie), alarm))
        return alarm

    def next_due(self) -> float | None:
        """Return the time of the next message in virtual seconds, if any."""
        while self._due and self._due[0][2].cancelled:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def advance_to(self, time_s: float) -> None:
        """Advance the time to `time_s`, and send due messages in order."""
        while (due := self.next_due()) is not None and due <= time_s:
            self._now, _, alarm = heapq.heappop(self._due)
            alarm.address.tell(alarm.message)
        self._now = max(self._now, time_s)


class Scheduler:
    """A `System` that handles one message at a time, for an actor that the seed determines."""

    def __init__(self, seed: int = 0, *, real_time: bool = False) -> None:
        """`real_time`: virtual time advances no faster than real time in `run_until`.

        Required with real threads, whose timeouts are in real time.
        """
        self._real_time = real_time
        self.clock = VirtualClock()
        self.trace: list[tuple[str, str]] = []
        """All handled messages: actor name and message type."""
        self.latest: Address | None = None
        """The actor that handled the latest message."""
        self._random = random.Random(seed)  # noqa: S311 - order, not secrets
        self._cells: dict[Address, _Actor] = {}
        self._sequence = itertools.count()
        self._ready: list[_Actor] = []
        """The actors with a message to handle, by number. Guarded by `_arrived`."""
        self._arrived = threading.Condition()

    # -- System --------------------------------------------------------------------------------------------

    def spawn(
        self,
        address: Address,
        factory: Factory,
        died: Callable[[BaseException], None],
        *,
        shares_thread: bool = False,
    ) -> None:
        """Start a new behaviour with a mailbox at `address`; all actors share the caller's thread."""
        del shares_thread
        previous = self._cells.get(address)
        number = next(self._sequence) if previous is None else previous.number
        cell = self._cells[address] = _Actor(number, address, factory, died)

        def deliver(message: object) -> bool:
            with self._arrived:
                if not cell.alive:
                    return False
                if not cell.inbox and not cell.frozen:
                    bisect.insort(self._ready, cell, key=_number)
                cell.inbox.append(message)
                self._arrived.notify_all()
            return True

        deliver(Begin())
        address.bind(deliver)

    def stop(self, address: Address) -> None:
        """Stop the actor at `address` and drop its mailbox."""
        cell = self._cells.pop(address, None)
        if cell is not None:
            self._end(cell)
            address.bind(None)
            address.fail_pending(f"{address.name} was stopped")

    def addresses(self) -> list[Address]:
        """Return the addresses of all running actors."""
        return [address for address, cell in self._cells.items() if cell.alive]

    def freeze(self, address: Address, *, frozen: bool = True) -> None:
        """Suspend the actor at `address`, like SIGSTOP, until this is called with `frozen=False`."""
        cell = self._cells[address]
        with self._arrived:
            if cell.frozen is frozen:
                return
            cell.frozen = frozen
            if frozen and cell.inbox:
                self._ready.remove(cell)
            elif cell.inbox:
                bisect.insort(self._ready, cell, key=_number)

    # -- running -------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Handle one message; return False if there is none."""
        with self._arrived:
            if not self._ready:
                return False
            cell = self._random.choice(self._ready)
            message = cell.inbox.popleft()
            if not cell.inbox:
                self._ready.remove(cell)
        self._handle(cell, message)
        return True

    def run(self, *, limit: int = 100_000) -> None:
        """Handle all messages without advancing the time."""
        for _ in range(limit):
            if not self.step():
                return
        text = f"still busy after {limit} messages; the last ones: {self.trace[-10:]}"
        raise AssertionError(text)

    def advance(self, seconds: float) -> None:
        """Advance the virtual time, and handle all messages that become due."""
        end = self.clock.now() + seconds
        self.run()
        while (due := self.clock.next_due()) is not None and due <= end:
            self.clock.advance_to(due)
            self.run()
        self.clock.advance_to(end)

    def run_until(self, done: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
        """Run until `done()`, in virtual time first, then wait for real threads.

        `timeout_s`: maximum real time without a message; with `real_time`, the total time.
        """
        deadline = time.monotonic() + timeout_s
        while not done():
            if self.step():
                continue
            due = self.clock.next_due()
            if due is not None and not self._real_time:
                self.clock.advance_to(due)
                continue
            remaining = deadline - time.monotonic() if self._real_time else timeout_s
            until_due = remaining if due is None else due - self.clock.now()
            with self._arrived:
                arrived = self._arrived.wait_for(self._busy, max(0.0, min(remaining, until_due)))
            if not arrived and due is not None and until_due < remaining:
                self.clock.advance_to(due)
            elif not arrived:
                text = f"nothing happened for {timeout_s} s; the last messages: {self.trace[-10:]}"
                raise AssertionError(text)

    def _busy(self) -> bool:
        return bool(self._ready)

    def _end(self, cell: _Actor) -> None:
        with self._arrived:
            cell.alive = False
            if cell.inbox and not cell.frozen:
                self._ready.remove(cell)
            cell.inbox.clear()

    def _handle(self, cell: _Actor, message: object) -> None:
        content = message.message if isinstance(message, Question) else message
        self.trace.append((cell.address.name, type(content).__name__))
        self.latest = cell.address
        try:
            if isinstance(message, Crash):
                raise RuntimeError(message.reason)
            if cell.behaviour is None:
                cell.behaviour = cell.factory()
            if isinstance(message, Question):
                message.reply_with(cell.behaviour)
            else:
                cell.behaviour.receive(message)
        except Exception as error:  # noqa: BLE001 - kills the actor, as in pykka
            self._end(cell)
            cell.died(error)


def _number(cell: _Actor) -> int:
    return cell.number

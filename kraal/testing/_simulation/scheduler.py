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
        self._tie_breaker = itertools.count()

    def now(self) -> float:
        """Return the virtual seconds since the clock was created."""
        return self._now

    def wall_ms(self) -> int:
        """Return the milliseconds since the epoch, as if the clock had been created at a fixed time."""
        return self._wall_ms + int(self._now * 1000)

    def after(self, delay_s: float, address: Address, message: Tell) -> Timer:
        """Send the message to `address` after a virtual delay."""
        alarm = _Alarm(address, message)
        heapq.heappush(self._due, (self._now + delay_s, next(self._tie_breaker), alarm))
        return alarm

    def next_due(self) -> float | None:
        """Return the time of the next message in virtual seconds; None if no message is scheduled."""
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
    """A `System` that handles one message at a time; the seed determines which actor is next."""

    def __init__(self, seed: int = 0, *, real_time: bool = False) -> None:
        """Create a scheduler. `real_time`: virtual time advances no faster than real time in `run_until`.

        Required with real threads, whose timeouts are in real time.
        """
        self._real_time = real_time
        self.clock = VirtualClock()
        self.trace: list[tuple[str, str]] = []
        """All handled messages: actor name and message type."""
        self.latest: Address | None = None
        """The actor that handled the latest message."""
        self._random = random.Random(seed)  # noqa: S311 - order, not secrets
        self._actors: dict[Address, _Actor] = {}
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
        previous_actor = self._actors.get(address)
        number = next(self._sequence) if previous_actor is None else previous_actor.number
        actor = self._actors[address] = _Actor(number, address, factory, died)

        def deliver(message: object) -> bool:
            with self._arrived:
                if not actor.alive:
                    return False
                if not actor.inbox and not actor.frozen:
                    bisect.insort(self._ready, actor, key=_number)
                actor.inbox.append(message)
                self._arrived.notify_all()
            return True

        deliver(Begin())
        address.bind(deliver)

    def stop(self, address: Address) -> None:
        """Stop the actor at `address` and drop its mailbox."""
        actor = self._actors.pop(address, None)
        if actor is not None:
            self._end(actor)
            address.bind(None)
            address.fail_pending(f"{address.name} was stopped")

    def addresses(self) -> list[Address]:
        """Return the addresses of all running actors."""
        return [address for address, actor in self._actors.items() if actor.alive]

    def freeze(self, address: Address, *, frozen: bool = True) -> None:
        """Suspend the actor at `address`, like SIGSTOP; with `frozen=False`, resume the actor."""
        actor = self._actors[address]
        with self._arrived:
            if actor.frozen is frozen:
                return
            actor.frozen = frozen
            if frozen and actor.inbox:
                self._ready.remove(actor)
            elif actor.inbox:
                bisect.insort(self._ready, actor, key=_number)

    # -- running -------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Handle one message; return False if there is none."""
        with self._arrived:
            if not self._ready:
                return False
            actor = self._random.choice(self._ready)
            message = actor.inbox.popleft()
            if not actor.inbox:
                self._ready.remove(actor)
        self._handle(actor, message)
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
        """Run until `done()` returns True, in virtual time first; then wait for real threads.

        `timeout_s`: maximum real time without a message; with `real_time`, the total time.
        """
        deadline = time.monotonic() + timeout_s
        while not done():
            if self.step():
                continue
            due_s = self.clock.next_due()
            if due_s is not None and not self._real_time:
                self.clock.advance_to(due_s)
                continue
            remaining_s = deadline - time.monotonic() if self._real_time else timeout_s
            until_due = remaining_s if due_s is None else due_s - self.clock.now()
            with self._arrived:
                has_message = self._arrived.wait_for(
                    self._has_ready_actor, max(0.0, min(remaining_s, until_due))
                )
            if not has_message and due_s is not None and until_due < remaining_s:
                self.clock.advance_to(due_s)
            elif not has_message:
                text = f"nothing happened for {timeout_s} s; the last messages: {self.trace[-10:]}"
                raise AssertionError(text)

    def _has_ready_actor(self) -> bool:
        return bool(self._ready)

    def _end(self, actor: _Actor) -> None:
        with self._arrived:
            actor.alive = False
            if actor.inbox and not actor.frozen:
                self._ready.remove(actor)
            actor.inbox.clear()

    def _handle(self, actor: _Actor, message: object) -> None:
        content = message.message if isinstance(message, Question) else message
        self.trace.append((actor.address.name, type(content).__name__))
        self.latest = actor.address
        try:
            if isinstance(message, Crash):
                raise RuntimeError(message.reason)
            if actor.behaviour is None:
                actor.behaviour = actor.factory()
            if isinstance(message, Question):
                message.reply_with(actor.behaviour)
            else:
                actor.behaviour.receive(message)
        except Exception as error:  # noqa: BLE001 - kills the actor, as in pykka
            self._end(actor)
            actor.died(error)


def _number(actor: _Actor) -> int:
    return actor.number

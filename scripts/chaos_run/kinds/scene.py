"""What a fault of this package needs: the cluster, the pipes, REST, and where to put what it finds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scripts.chaos_run.clients import Call
from scripts.chaos_run.kinds.orders import Orders
from scripts.chaos_run.members import Member, Members
from scripts.chaos_run.pipes import Pipe
from scripts.chaos_run.timeline import Timeline

_EVERY_S: Final = 0.1
_ACCEPTED: Final = frozenset({200, 201, 202, 204})
_NOT_FOUND: Final = 404

Undo = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where the faults happen. One thread, but for `stopped`."""

    members: Members
    slow: Pipe
    """Its sink appends to one file, and obeys orders."""
    once: Pipe
    """Its sink writes files of offsets, and obeys orders."""
    hanging: Orders
    """For the connector whose tasks do nothing but hang."""
    ask: Callable[[Member, Call], tuple[int, Any] | None]
    pipes: Sequence[Pipe]
    timeline: Timeline
    stopped: threading.Event
    """The run is being ended: waits end, and what was done is undone."""
    broken: list[str] = field(default_factory=list)
    """Promises that a fault has seen broken."""

    def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait until `done()`; return False when it was not in time, or the run is being ended."""
        deadline_s = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline_s or self.stopped.wait(_EVERY_S):
                return False
        return True

    def accepted(self, asked: Call, seconds: float) -> bool:
        """Ask one worker after the other until one accepts; return False when none did in time."""
        turn = iter(range(1_000_000))

        def tried() -> bool:
            up = self.members.up()
            answer = self.ask(up[next(turn) % len(up)], asked) if up else None
            gone = asked.method == "DELETE" and answer is not None and answer[0] == _NOT_FOUND
            return gone or (answer is not None and answer[0] in _ACCEPTED)

        return self.until(tried, seconds)

    def find_member(self, pid: int) -> Member | None:
        """Return the worker whose Python has this id."""
        return next((each for each in self.members.up() if each.process.pid == pid), None)

    def release(self) -> None:
        """Withdraw all orders, also those of a fault that could not be undone."""
        for orders in (self.slow.orders, self.once.orders, self.hanging):
            orders.release()

    def broke(self, what: str) -> None:
        """Note a promise that was not kept."""
        self.broken.append(f"+{self.timeline.now_s():.1f} s {what}")
        self.timeline.say(f"  NOT KEPT: {what}")

    def health(self) -> Mapping[str, tuple[int, Any] | None]:
        """Return what each worker says of its health."""
        return {str(each): self.ask(each, Call("GET", "/health")) for each in self.members.up()}

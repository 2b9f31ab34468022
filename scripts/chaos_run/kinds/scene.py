"""The environment of the faults in this package: the cluster, the pipes, the REST client, and the violations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scripts.chaos_run.clients import Call
from scripts.chaos_run.kinds.orders import Commands
from scripts.chaos_run.members import Member, Members
from scripts.chaos_run.pipes import Pipe
from scripts.chaos_run.timeline import Timeline

_POLL_INTERVAL_S: Final = 0.1
_SUCCESS_STATUSES: Final = frozenset({200, 201, 202, 204})
_NOT_FOUND: Final = 404

Undo = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The environment of faults. Not thread-safe except for `stopped`."""

    members: Members
    slow: Pipe
    """The pipe whose sink appends to one file and executes commands."""
    once: Pipe
    """The pipe whose sink writes files by offset range and executes commands."""
    hanging: Commands
    """Commands for the connector whose tasks only hang."""
    ask: Callable[[Member, Call], tuple[int, Any] | None]
    pipes: Sequence[Pipe]
    timeline: Timeline
    stopped: threading.Event
    """Set when the run ends. All waits then return early, and the faults are undone."""
    violations: list[str] = field(default_factory=list)
    """Violated guarantees, as reported by faults."""

    def wait_until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait until `done()`; return False on a timeout or if the run ends."""
        deadline_s = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline_s or self.stopped.wait(_POLL_INTERVAL_S):
                return False
        return True

    def send_until_accepted(self, request: Call, seconds: float) -> bool:
        """Send a request to the workers in turn until one accepts it; return False on a timeout."""
        attempts = iter(range(1_000_000))

        def try_once() -> bool:
            live_members = self.members.up()
            response = (
                self.ask(live_members[next(attempts) % len(live_members)], request) if live_members else None
            )
            is_deleted = request.method == "DELETE" and response is not None and response[0] == _NOT_FOUND
            return is_deleted or (response is not None and response[0] in _SUCCESS_STATUSES)

        return self.wait_until(try_once, seconds)

    def find_member(self, pid: int) -> Member | None:
        """Return the worker whose Python process has this id."""
        return next((member for member in self.members.up() if member.process.pid == pid), None)

    def release(self) -> None:
        """Withdraw all commands, including those of faults that could not be undone."""
        for commands in (self.slow.commands, self.once.commands, self.hanging):
            commands.release()

    def report_violation(self, message: str) -> None:
        """Record a violated guarantee."""
        self.violations.append(f"+{self.timeline.now_s():.1f} s {message}")
        self.timeline.say(f"  VIOLATION: {message}")

    def health(self) -> Mapping[str, tuple[int, Any] | None]:
        """Return the response of `GET /health` of each worker."""
        return {str(member): self.ask(member, Call("GET", "/health")) for member in self.members.up()}

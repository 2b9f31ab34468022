"""Recent events of one instance, in memory, for log lines about rejected or overdue transitions."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from kraal.core.printable import printable
from kraal.core.traces import root_cause

if TYPE_CHECKING:
    from actors.messages.herder import InstanceChanged
    from actors.runtime.clock import Clock

MAX_EVENTS: Final = 8
_MAX_LENGTH: Final = 200
"""Maximum length of an event, in characters."""


class RecentEvents:
    """Recent events of an instance. Used on its actor's thread only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: deque[tuple[float, str]] = deque(maxlen=MAX_EVENTS)

    def add(self, event: str) -> None:
        """Add an event with the current time."""
        self._events.append((self._clock.now(), printable(event)[:_MAX_LENGTH]))

    def add_state(self, fact: InstanceChanged) -> None:
        """Add a state that the instance reported, with the first line of its trace."""
        cause = f": {root_cause(fact.trace, _MAX_LENGTH)}" if fact.trace else ""
        self.add(f"{'stopped, ' if fact.stopped else ''}{fact.state}{cause}")

    def as_text(self) -> str:
        """Return the events with their ages, oldest first: `12.5 s ago: target state STARTED; 12 s ago: RUNNING`."""
        now_s = self._clock.now()
        texts = [f"{now_s - at_s:.3g} s ago: {event}" for at_s, event in self._events]
        return "; ".join(texts) or "none"

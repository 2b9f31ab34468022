"""Server-sent events, parsed from the pieces of a stream.

Source: HTML Living Standard, section 9.2 (Server-sent events).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kraal.core.errors import KraalError

_MAX_EVENT_BYTES: Final = 1_000_000
"""Maximum bytes of an event."""


class EventTooLong(KraalError):
    """An event exceeds the limit; nothing after it can be read."""


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event."""

    name: str
    data: str


class EventParser:
    """Joins the pieces of a stream and splits them into events. Comments and ids are dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Return the events that a piece completes. Raises EventTooLong."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _MAX_EVENT_BYTES or sum(map(len, self._data)) > _MAX_EVENT_BYTES:
            raise EventTooLong("The worker's stream of changes contains an event that is too long")
        for line in lines:
            event = self._line(line.rstrip(b"\r").decode("utf-8", "replace"))
            if event is not None:
                yield event

    def _line(self, line: str) -> Event | None:
        if not line:
            event_ = (
                Event(self._name or "message", "\n".join(self._data)) if self._data or self._name else None
            )
            self._name, self._data = "", []
            return event_
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        return None

"""Parser for a stream of server-sent events.

Source: HTML Living Standard, section 9.2 (Server-sent events).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kraal.core.errors import KraalError

_MAX_EVENT_BYTES: Final = 1_000_000
"""Maximum size of an event in bytes."""


class EventTooLong(KraalError):
    """An event exceeds the limit; the rest of the stream cannot be parsed."""


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event."""

    name: str
    data: str


class EventParser:
    """A parser of events from chunks of a stream. Ignores comments, and fields other than `event` and `data`."""

    def __init__(self) -> None:
        self._incomplete_line = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that a chunk completes. Raises EventTooLong."""
        lines = (self._incomplete_line + chunk).split(b"\n")
        self._incomplete_line = lines.pop()
        if len(self._incomplete_line) > _MAX_EVENT_BYTES or sum(map(len, self._data)) > _MAX_EVENT_BYTES:
            raise EventTooLong("The worker's event stream contains an event that is too long")
        for line in lines:
            event = self._parse_line(line.rstrip(b"\r").decode("utf-8", "replace"))
            if event is not None:
                yield event

    def _parse_line(self, line: str) -> Event | None:
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

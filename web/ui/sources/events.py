"""Server-sent events: parsed from the pieces of a stream, and read as changes."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from web.ui.sources.api import Away, Change, Word

_LONGEST: Final = 1_000_000
"""Maximum bytes of an event; a longer one ends the stream."""


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
        """Return the events that a piece completes. Raises Away if one is too long."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LONGEST or sum(map(len, self._data)) > _LONGEST:
            raise Away("The worker's stream of changes contains an event that is too long")
        for line in lines:
            event = self._line(line.rstrip(b"\r").decode("utf-8", "replace"))
            if event is not None:
                yield event

    def _line(self, line: str) -> Event | None:
        if not line:
            found = (
                Event(self._name or "message", "\n".join(self._data)) if self._data or self._name else None
            )
            self._name, self._data = "", []
            return found
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        return None


def change_of(event: Event) -> Change | None:
    """Return what an event of `GET /changes` says; None for events of other kinds."""
    try:
        found = json.loads(event.data) if event.data else {}
    except (ValueError, RecursionError):
        found = {}
    content: dict[str, Any] = found if isinstance(found, dict) else {}
    match event.name:
        case "hello":
            return Change(Word.HELLO, boot=str(content.get("boot", "")))
        case "reset":
            return Change(Word.CHANGED)
        case "changed":
            names, kinds = content.get("connectors"), content.get("kinds")
            return Change(
                Word.CHANGED,
                kinds=frozenset(map(str, kinds)) if isinstance(kinds, list) else frozenset(),
                names=tuple(map(str, names)) if isinstance(names, list) else None,
            )
        case "bye":
            return Change(Word.BYE)
        case _:
            return None


async def changes_from(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Change]:
    """Return the changes in the pieces of a stream."""
    parser = EventParser()
    async for chunk in chunks:
        for event in parser.feed(chunk):
            change = change_of(event)
            if change is not None:
                yield change

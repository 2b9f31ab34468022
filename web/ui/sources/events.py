"""The events of a worker's stream, read as changes."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from kraal.core.server_sent_events import Event, EventParser, EventTooLong
from web.ui.sources.api import Away, Change, Word


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
    """Return the changes in the pieces of a stream. Raises Away if an event is too long."""
    parser = EventParser()
    async for chunk in chunks:
        try:
            found = [*parser.feed(chunk)]
        except EventTooLong as exc:
            raise Away(str(exc)) from exc
        for change in map(change_of, found):
            if change is not None:
                yield change

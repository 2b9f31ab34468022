"""Parsing of the events of a worker's stream into changes."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from kraal.core.server_sent_events import Event, EventParser, EventTooLong
from web.ui.sources.api import Change, ChangeEvent, SourceUnavailable


def parse_change(event: Event) -> Change | None:
    """Parse an event of `GET /changes`; return None for an unknown kind of event."""
    try:
        data = json.loads(event.data) if event.data else {}
    except (ValueError, RecursionError):
        data = {}
    content: dict[str, Any] = data if isinstance(data, dict) else {}
    match event.name:
        case "hello":
            return Change(ChangeEvent.CONNECTED, boot=str(content.get("boot", "")))
        case "reset":
            return Change(ChangeEvent.CHANGED)
        case "changed":
            names, kinds = content.get("connectors"), content.get("kinds")
            return Change(
                ChangeEvent.CHANGED,
                kinds=frozenset(map(str, kinds)) if isinstance(kinds, list) else frozenset(),
                names=tuple(map(str, names)) if isinstance(names, list) else None,
            )
        case "bye":
            return Change(ChangeEvent.CLOSING)
        case _:
            return None


async def parse_changes(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Change]:
    """Parse the chunks of a stream into changes. Raises SourceUnavailable if an event is too long."""
    parser = EventParser()
    async for chunk in chunks:
        try:
            events = [*parser.feed(chunk)]
        except EventTooLong as exc:
            raise SourceUnavailable(str(exc)) from exc
        for change in map(parse_change, events):
            if change is not None:
                yield change

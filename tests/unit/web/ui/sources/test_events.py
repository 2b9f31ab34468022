"""Tests for the parsing of a worker's events as changes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kraal.core.server_sent_events import Event
from web.ui.sources.api import Change, ChangeEvent, SourceUnavailable
from web.ui.sources.events import parse_change, parse_changes


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Event("hello", '{"boot":"a"}'), Change(ChangeEvent.CONNECTED, boot="a")),
        (
            Event("changed", '{"connectors":null,"kinds":["numbers"]}'),
            Change(ChangeEvent.CHANGED, frozenset({"numbers"})),
        ),
        (
            Event("changed", '{"connectors":[],"kinds":["cluster"]}'),
            Change(ChangeEvent.CHANGED, frozenset({"cluster"}), ()),
        ),
        (Event("reset", "{}"), Change(ChangeEvent.CHANGED)),
        (Event("bye", ""), Change(ChangeEvent.CLOSING)),
        (Event("changed", "no JSON"), Change(ChangeEvent.CHANGED)),
        (Event("changed", "[1]"), Change(ChangeEvent.CHANGED)),
        (Event("later invention", "{}"), None),
    ],
)
def test_events_are_parsed_as_changes(event: Event, expected: Change | None) -> None:
    assert parse_change(event) == expected


async def test_oversized_event_ends_the_stream() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 100_000

    with pytest.raises(SourceUnavailable, match="too long"):
        _ = [change async for change in parse_changes(chunks())]

"""Tests for the parsing of server-sent events in chunks of any size."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.core.server_sent_events import Event, EventParser, EventTooLong

STREAM = (
    b'retry: 2000\n\nid: a-1\nevent: hello\ndata: {"boot":"a","seq":1}\n\n: ping\n\n'
    b'event: changed\r\ndata: {"connectors":["\xc3\xbc"],"kinds":["states"]}\r\n\r\n'
    b"data: one\ndata: two\n\nevent: bye\ndata: {}\n\nevent: unfinished\n"
)
EVENTS = [
    Event("hello", '{"boot":"a","seq":1}'),
    Event("changed", '{"connectors":["ü"],"kinds":["states"]}'),
    Event("message", "one\ntwo"),
    Event("bye", "{}"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_do_not_depend_on_chunk_sizes(cuts: list[int]) -> None:
    parser = EventParser()
    edges = sorted({0, len(STREAM), *cuts})
    chunks = [STREAM[start:end] for start, end in pairwise(edges)]
    assert [event for chunk in chunks for event in parser.feed(chunk)] == EVENTS


@pytest.mark.parametrize("chunk", [b"x" * 100_000, b"data: " + b"x" * 100_000 + b"\n"])
def test_event_above_limit_is_an_error(chunk: bytes) -> None:
    parser = EventParser()

    def feed_forever() -> None:
        for _ in range(100):
            list(parser.feed(chunk))

    with pytest.raises(EventTooLong, match="too long"):
        feed_forever()

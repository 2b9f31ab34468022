"""Tests for the events of the journal: sequence numbers, the size limit, and reads of later or latest events."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.secrets import secrets
from kraal.journal.events import TEXT_BYTES, EventKind, Events

NAME = ConnectorName("numbers")


@pytest.fixture(autouse=True)
def _clear_secrets() -> Iterator[None]:
    yield
    secrets.clear()


def event_numbers(events: Events, after: int | None, limit: int = 100) -> list[int]:
    return [event.seq for event in events.after(after, limit)]


def test_event_contains_its_connector_and_task() -> None:
    events = Events(10_000, lambda: 5)
    events.add(EventKind.WORKER, "started", None, "")
    events.add(EventKind.CONFIG, "config changed", NAME, "PUT from 10.0.0.7")
    events.add(EventKind.STATE, "FAILED", TaskId(NAME, 3), "")
    assert [event.to_json() for event in events.after(None, 10)] == [
        {"seq": 1, "ms": 5, "kind": "worker", "connector": None, "task": None, "text": "started", "by": ""},
        {"seq": 2, "ms": 5, "kind": "config", "connector": "numbers", "task": None, "text": "config changed",
         "by": "PUT from 10.0.0.7"},
        {"seq": 3, "ms": 5, "kind": "state", "connector": "numbers", "task": 3, "text": "FAILED", "by": ""},
    ]  # fmt: skip


def test_reader_resumes_at_its_position() -> None:
    events = Events(100_000, lambda: 0)
    for number in range(10):
        events.add(EventKind.WORKER, str(number), None, "")
    assert event_numbers(events, None, 3) == [8, 9, 10]
    assert event_numbers(events, 0, 3) == [1, 2, 3]
    assert event_numbers(events, 3, 3) == [4, 5, 6]
    assert event_numbers(events, 10) == event_numbers(events, 99) == event_numbers(events, None, 0) == []


def test_texts_are_truncated_and_scrubbed() -> None:
    secrets.add("hunter2-hunter2")
    events = Events(10_000, lambda: 0)
    events.add(EventKind.WORKER, "with hunter2-hunter2", None, "")
    events.add(EventKind.WORKER, "ü" * 5_000, None, "")
    first_event, second_event = events.after(None, 2)
    assert first_event.text == "with [hidden]"
    assert len(second_event.text.encode()) <= TEXT_BYTES


@given(st.lists(st.text(max_size=1_500), max_size=40), st.integers(0, 5_000))
def test_events_are_limited_in_bytes(texts: list[str], limit: int) -> None:
    events = Events(limit, lambda: 0)
    for text in texts:
        events.add(EventKind.WORKER, text, NAME, "")
    recorded_events = events.after(None, 1_000)
    assert sum(event.size for event in recorded_events) <= limit
    assert events.dropped + len(recorded_events) == len(texts)
    assert [event.seq for event in recorded_events] == sorted(event.seq for event in recorded_events)

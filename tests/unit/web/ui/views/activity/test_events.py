from __future__ import annotations

from typing import Any

import pytest

from web.ui.views.activity.events import PER_PAGE, parse_events


def event(seq: int, kind: str = "state", text: str = "", connector: str | None = "orders") -> Any:
    return {
        "seq": seq,
        "ms": seq * 10,
        "kind": kind,
        "connector": connector,
        "task": None,
        "text": text or f"event {seq}",
        "by": "PUT from 10.0.0.7",
    }


RESPONSE = {
    "events": [
        event(1, "rebalance", connector=None),
        event(2, "config"),
        event(3, "config", connector="other"),
        event(4, "odd"),
    ]
}


def test_newest_event_comes_first_with_its_author() -> None:
    events = parse_events(RESPONSE)
    assert [listed_event.text for listed_event in events.events] == [
        "event 4",
        "event 3",
        "event 2",
        "event 1",
    ]
    assert events.events[0].by == "PUT from 10.0.0.7"
    assert [listed_event.title for listed_event in events.events] == [
        "odd",
        "Configs",
        "Configs",
        "Rebalances",
    ]


def test_events_are_filtered_and_counted_by_kind() -> None:
    events = parse_events(RESPONSE, kind="config", connector="orders")
    assert [listed_event.seq for listed_event in events.events] == [2]
    assert events.kinds == [("config", "Configs", 1), ("odd", "odd", 1)]
    assert parse_events(RESPONSE).kinds == [
        ("rebalance", "Rebalances", 1),
        ("config", "Configs", 2),
        ("odd", "odd", 1),
    ]


def test_failures_are_urgent() -> None:
    texts = ("task orders-0 FAILED on w:1: full", "task orders-0 RUNNING on w:1: it FAILED on w:2", "")
    events = parse_events({"events": [event(9 - number, "state", text) for number, text in enumerate(texts)]})
    assert [listed_event.is_urgent for listed_event in events.events] == [True, False, False]
    assert parse_events({"events": [event(1, "given_up")]}).events[0].is_urgent


def test_events_are_paginated() -> None:
    response = {"events": [event(number) for number in range(1, PER_PAGE + 2)]}
    first, last = parse_events(response), parse_events(response, page=99)
    assert (len(first.events), first.page, first.pages, first.total) == (PER_PAGE, 1, 2, PER_PAGE + 1)
    assert ([listed_event.seq for listed_event in last.events], last.page) == ([1], 2)


@pytest.mark.parametrize("response", [None, [], {"events": {}}, {"events": [7]}])
def test_malformed_response_has_no_events(response: object) -> None:
    events = parse_events(response)
    assert (list(events.events), events.pages) == ([], 1)

"""Events of a worker, from `GET /events`: rebalances, states, configs, restarts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from web.ui.views.json_values import get_integer, mapping, maps, text

KINDS: Final = {
    "rebalance": "Rebalances",
    "state": "States",
    "config": "Configs",
    "target": "Pause, resume, stop",
    "restart": "Restarts",
    "auto_restart": "Automatic restarts",
    "given_up": "Restarts given up",
    "offsets": "Offsets",
    "schema": "Schemas of tables",
    "logger": "Log levels",
    "worker": "Worker",
}
"""Titles of the kinds; other kinds are shown by name."""
MAX_EVENTS: Final = 1_000
PER_PAGE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of the worker."""

    seq: int
    ms: int | None
    kind: str
    title: str
    connector: str
    """Empty if the event concerns no connector."""
    task: int | None
    text: str
    by: str
    is_urgent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Content of the events page, newest events first."""

    events: Sequence[Event]
    kinds: Sequence[tuple[str, str, int]]
    """Name, title and number of events of the existing kinds, before filtering by kind."""
    total: int
    page: int
    pages: int


def parse_events(response: object, *, kind: str = "", connector: str = "", page: int = 1) -> Events:
    """Return a page of the events, filtered by `kind` and `connector`; an empty filter matches all events."""
    events = [_parse_event(event) for event in maps(mapping(response).get("events"))]
    events.sort(key=lambda event: event.seq, reverse=True)
    connector_events = [event for event in events if not connector or event.connector == connector]
    counts = {name: sum(event.kind == name for event in connector_events) for name in dict.fromkeys(KINDS)}
    for event in connector_events:
        if event.kind not in KINDS:
            counts[event.kind] = counts.get(event.kind, 0) + 1
    matching_events = [event for event in connector_events if not kind or event.kind == kind]
    pages = max((len(matching_events) + PER_PAGE - 1) // PER_PAGE, 1)
    page = min(max(page, 1), pages)
    return Events(
        events=matching_events[(page - 1) * PER_PAGE : page * PER_PAGE],
        kinds=[(name, KINDS.get(name, name), count) for name, count in counts.items() if count],
        total=len(matching_events),
        page=page,
        pages=pages,
    )


def _parse_event(content: Mapping[str, Any]) -> Event:
    kind = text(content, "kind")
    message = text(content, "text")
    return Event(
        seq=get_integer(content, "seq") or 0,
        ms=get_integer(content, "ms"),
        kind=kind,
        title=KINDS.get(kind, kind),
        connector=text(content, "connector"),
        task=get_integer(content, "task"),
        text=message,
        by=text(content, "by"),
        is_urgent=kind == "given_up" or (kind == "state" and " FAILED on " in message.partition(": ")[0]),
    )

"""Why an instance is in its state, and what happens next: one glance instead of a search. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from web.ui.views.activity.timeline import REMOVED, Entry, Timeline
from web.ui.views.cluster import Waiting
from web.ui.views.connector import Restarts, TaskRow
from web.ui.views.states import MAY_STALL, Shown

_TITLES: Final = {
    Shown.FAILED: "Failed",
    Shown.STALLED: "No progress",
    Shown.RESTARTING: "Restarting",
    Shown.UNASSIGNED: "No worker runs it",
    Shown.UNKNOWN: "No worker has reported a state",
    Shown.PAUSED: "Paused",
    Shown.STOPPED: "Stopped",
    Shown.RUNNING: "Running",
}
_RESTART: Final = "A restart runs it again, once the cause is removed."


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer to "why does it not run?"."""

    state: Shown
    title: str
    since_ms: int | None
    """When the state began; None: not known."""
    why: str
    by: str
    """Who asked for it; empty if nobody did."""
    next: str
    """What happens next, or what to do, as a sentence; empty if nothing does."""
    next_ms: int | None
    """When that happens; None: not planned."""


def verdict_of(row: TaskRow, timeline: Timeline, waiting: Iterable[Waiting], connector: str) -> Verdict:
    """Return why an instance is in its state.

    `timeline`: that of the instance alone. `waiting`: what no worker has, and why, if the leader told it.
    """
    state = row.instance.state
    entry = next(iter(timeline.entries), None)
    if entry is not None and entry.state == REMOVED and state is Shown.UNKNOWN:
        return Verdict(
            state=state,
            title="Removed",
            since_ms=entry.ms,
            why=entry.cause,
            by=entry.by,
            next="",
            next_ms=None,
        )
    known = entry if entry is not None and _fits(entry, state) else None
    waits = next(
        (each for each in waiting if (each.connector, each.task) == (connector, row.instance.task)), None
    )
    what, when = _next(row, waits)
    return Verdict(
        state=state,
        title=_TITLES[state],
        since_ms=None if known is None else known.ms,
        why=_why(row, known, waits),
        by="" if known is None else known.by,
        next=what,
        next_ms=when,
    )


def _fits(entry: Entry, state: Shown) -> bool:
    """Whether the history's latest state is the one that the status shows."""
    return entry.state == state or (state is Shown.STALLED and entry.state in MAY_STALL)


def _why(row: TaskRow, known: Entry | None, waits: Waiting | None) -> str:
    told = "" if known is None else known.cause
    match row.instance.state:
        case Shown.FAILED:
            return row.instance.cause or told
        case Shown.STALLED:
            return row.instance.stall or told
        case Shown.UNASSIGNED | Shown.UNKNOWN if waits is not None and waits.reason:
            return waits.reason
        case _:
            return told


def _next(row: TaskRow, waits: Waiting | None) -> tuple[str, int | None]:
    match row.instance.state:
        case Shown.FAILED:
            return _after_failure(row.restarts)
        case Shown.UNASSIGNED | Shown.UNKNOWN if waits is None:
            return "A worker reports its state as soon as it has the task.", None
        case Shown.PAUSED:
            return "It continues when the connector is resumed.", None
        case Shown.STOPPED:
            return "It starts again when the connector is resumed.", None
        case _:
            return "", None


def _after_failure(restarts: Restarts | None) -> tuple[str, int | None]:
    if restarts is None:
        return _RESTART, None
    if restarts.next_ms is not None:
        return "It is restarted automatically", restarts.next_ms
    what = (
        "It is not restarted automatically any more."
        if restarts.given_up
        else "Nothing restarts it by itself."
    )
    return f"{what} {restarts.why or _RESTART}", None

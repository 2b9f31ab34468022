"""Summary of an instance: its state, the cause, and the next step. Pure."""

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
    """The state of an instance, its cause and the next step."""

    state: Shown
    title: str
    since_ms: int | None
    """Begin of the state; None: unknown."""
    why: str
    by: str
    """Author of the request that caused it; empty without a request."""
    next: str
    """The next step or advice, as a sentence; empty without one."""
    next_ms: int | None
    """Time of the next step; None: not planned."""


def summarize_instance(
    row: TaskRow, timeline: Timeline, waiting: Iterable[Waiting], connector: str
) -> Verdict:
    """Summarize the state of an instance.

    `timeline` is that of the instance alone. `waiting`: unassigned connectors and tasks, if the leader reported them.
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
    latest = entry if entry is not None and _matches(entry, state) else None
    unassigned = next(
        (each for each in waiting if (each.connector, each.task) == (connector, row.instance.task)), None
    )
    next_step, next_ms = _next(row, unassigned)
    return Verdict(
        state=state,
        title=_TITLES[state],
        since_ms=None if latest is None else latest.ms,
        why=_why(row, latest, unassigned),
        by="" if latest is None else latest.by,
        next=next_step,
        next_ms=next_ms,
    )


def _matches(entry: Entry, state: Shown) -> bool:
    """Whether the history's latest state matches the status."""
    return entry.state == state or (state is Shown.STALLED and entry.state in MAY_STALL)


def _why(row: TaskRow, latest: Entry | None, unassigned: Waiting | None) -> str:
    cause = "" if latest is None else latest.cause
    match row.instance.state:
        case Shown.FAILED:
            return row.instance.cause or cause
        case Shown.STALLED:
            return row.instance.stall or cause
        case Shown.UNASSIGNED | Shown.UNKNOWN if unassigned is not None and unassigned.reason:
            return unassigned.reason
        case _:
            return cause


def _next(row: TaskRow, unassigned: Waiting | None) -> tuple[str, int | None]:
    match row.instance.state:
        case Shown.FAILED:
            return _after_failure(row.restarts)
        case Shown.UNASSIGNED | Shown.UNKNOWN if unassigned is None:
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
    policy = (
        "It is not restarted automatically any more."
        if restarts.given_up
        else "Nothing restarts it by itself."
    )
    return f"{policy} {restarts.why or _RESTART}", None

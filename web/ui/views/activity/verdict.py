"""Summary of an instance: its state, the cause, and the next step. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from web.ui.views.activity.timeline import REMOVED, Entry, Timeline
from web.ui.views.cluster import UnassignedInstance
from web.ui.views.connector import Restarts, TaskRow
from web.ui.views.states import STALLABLE_STATES, DisplayState

_TITLES: Final = {
    DisplayState.FAILED: "Failed",
    DisplayState.STALLED: "No progress",
    DisplayState.RESTARTING: "Restarting",
    DisplayState.UNASSIGNED: "No worker runs it",
    DisplayState.UNKNOWN: "No worker has reported a state",
    DisplayState.PAUSED: "Paused",
    DisplayState.STOPPED: "Stopped",
    DisplayState.RUNNING: "Running",
}
_RESTART_ADVICE: Final = "Restart it after fixing the cause."


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """State of an instance, its cause and the next step."""

    state: DisplayState
    title: str
    since_ms: int | None
    """Start of the state; None if unknown."""
    why: str
    by: str
    """Author of the request that caused the state; empty if there was none."""
    next: str
    """Next step or advice, as a sentence; empty if there is none."""
    next_ms: int | None
    """Time of the next step; None if not planned."""


def summarize_instance(
    row: TaskRow, timeline: Timeline, unassigned_instances: Iterable[UnassignedInstance], connector: str
) -> Verdict:
    """Summarize the state of an instance.

    `timeline` covers only this instance. `unassigned_instances` is empty unless the leader reported it.
    """
    state = row.instance.state
    entry = next(iter(timeline.entries), None)
    if entry is not None and entry.state == REMOVED and state is DisplayState.UNKNOWN:
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
        (
            instance
            for instance in unassigned_instances
            if (instance.connector, instance.task) == (connector, row.instance.task)
        ),
        None,
    )
    next_step, next_ms = _next_step(row, unassigned)
    return Verdict(
        state=state,
        title=_TITLES[state],
        since_ms=None if latest is None else latest.ms,
        why=_describe_cause(row, latest, unassigned),
        by="" if latest is None else latest.by,
        next=next_step,
        next_ms=next_ms,
    )


def _matches(entry: Entry, state: DisplayState) -> bool:
    """Return whether the latest state in the history matches the status."""
    return entry.state == state or (state is DisplayState.STALLED and entry.state in STALLABLE_STATES)


def _describe_cause(row: TaskRow, latest: Entry | None, unassigned: UnassignedInstance | None) -> str:
    cause = "" if latest is None else latest.cause
    match row.instance.state:
        case DisplayState.FAILED:
            return row.instance.cause or cause
        case DisplayState.STALLED:
            return row.instance.stall or cause
        case DisplayState.UNASSIGNED | DisplayState.UNKNOWN if unassigned is not None and unassigned.reason:
            return unassigned.reason
        case _:
            return cause


def _next_step(row: TaskRow, unassigned: UnassignedInstance | None) -> tuple[str, int | None]:
    match row.instance.state:
        case DisplayState.FAILED:
            return _step_after_failure(row.restarts)
        case DisplayState.UNASSIGNED | DisplayState.UNKNOWN if unassigned is None:
            return "The state is reported once a worker has started the task.", None
        case DisplayState.PAUSED:
            return "It continues when the connector is resumed.", None
        case DisplayState.STOPPED:
            return "It starts again when the connector is resumed.", None
        case _:
            return "", None


def _step_after_failure(restarts: Restarts | None) -> tuple[str, int | None]:
    if restarts is None:
        return _RESTART_ADVICE, None
    if restarts.next_ms is not None:
        return "It is restarted automatically", restarts.next_ms
    policy = (
        "It is no longer restarted automatically."
        if restarts.given_up
        else "It is not restarted automatically."
    )
    return f"{policy} {restarts.why or _RESTART_ADVICE}", None

"""Timelines of a connector's instances: states with duration and cause, from `GET …/history`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from web.ui.views.json_values import get_integer, mapping, maps, text
from web.ui.views.states import DisplayState, display_state

REMOVED: Final = "removed"
"""State of an instance whose status was deleted; not a state of Connect."""
STRIP_WIDTH: Final = 600
_MIN_WIDTH: Final = 3
"""Minimum width of a state, so that short states remain visible."""
_MAX_SEGMENTS: Final = 100
_MAX_STRIP_MS: Final = 24 * 3_600_000
_STORED_CAUSE: Final = "as stored"
_STORED_TEXT: Final = "found when the worker started"
_REQUESTED_CAUSE: Final = "restarted"
_AUTOMATIC_CAUSE: Final = "automatic restart"
_RESTART_STATES: Final = (DisplayState.RESTARTING, DisplayState.UNASSIGNED)
"""States of an instance while it restarts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A past or current state of an instance."""

    ms: int
    """Start in milliseconds since the epoch, by the clock of the reporting worker."""
    task: int | None
    """Task number; None for the connector instance."""
    state: str
    """A value of `DisplayState`, or REMOVED."""
    lasted_ms: float | None
    """Duration of the state (until now for the current state); None if the instance is currently removed."""
    current: bool
    worker: str
    generation: int | None
    is_moved: bool
    """Whether the instance was on another worker before."""
    cause: str
    by: str
    """Author of the request that caused the state; empty if there was none."""
    trace: str
    restart: str
    """`automatic` or `requested` if a restart begins with this state, otherwise empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A restart and its outcome."""

    ms: int
    task: int | None
    is_automatic: bool
    by: str
    cause: str
    ran_ms: float | None
    """Duration of the run after the restart (until now if still running); None if the instance did not run."""
    next_state: str
    """Next state: a value of `DisplayState` or REMOVED; empty if there is none yet."""
    next_cause: str
    """Cause of the next state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Segment of the strip that shows states over time."""

    x: float
    width: float
    state: str
    ms: int
    lasted_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """History of one or more instances, with the newest entries first."""

    entries: Sequence[Entry]
    since_ms: int | None
    """Time at which the worker started recording; None if unknown."""
    worker: str
    """Worker that recorded the history."""
    dropped: int
    """Number of older entries of the connector that have been dropped."""

    @property
    def restarts(self) -> Sequence[Restart]:
        """Restarts with their outcomes, newest first."""
        return [
            _build_restart(entry, self.entries[:index])
            for index, entry in enumerate(self.entries)
            if entry.restart
        ]

    @property
    def automatic_count(self) -> int:
        """Number of automatic restarts."""
        return sum(entry.restart == "automatic" for entry in self.entries)

    @property
    def requested_count(self) -> int:
        """Number of requested restarts."""
        return sum(entry.restart == "requested" for entry in self.entries)

    @property
    def failure_count(self) -> int:
        """Number of failures."""
        return sum(entry.state == DisplayState.FAILED for entry in self.entries)


def build_timeline(history: object, now_ms: int) -> Timeline:
    """Return the timeline of all instances of a connector."""
    content = mapping(history)
    states = [state for state in maps(content.get("states")) if get_integer(state, "ms") is not None]
    by_instance: dict[int | None, list[tuple[int, Mapping[str, Any]]]] = {}
    for index, state in enumerate(states):
        by_instance.setdefault(get_integer(state, "task"), []).append((index, state))
    entries: dict[int, Entry] = {}
    for instance_states in by_instance.values():
        entries.update(
            zip(
                (index for index, _ in instance_states),
                _build_entries([state for _, state in instance_states], now_ms),
                strict=True,
            )
        )
    return Timeline(
        entries=[entries[index] for index in sorted(entries)],
        since_ms=get_integer(content, "since_ms"),
        worker=text(content, "worker_id"),
        dropped=get_integer(content, "dropped") or 0,
    )


def select_instance(timeline: Timeline, task: int | None) -> Timeline:
    """Return the timeline of a task, or of the connector instance if `task` is None."""
    return Timeline(
        entries=[entry for entry in timeline.entries if entry.task == task],
        since_ms=timeline.since_ms,
        worker=timeline.worker,
        dropped=timeline.dropped,
    )


def build_strip(entries: Sequence[Entry], now_ms: int) -> Sequence[Segment]:
    """Return the states of one instance during the last day, oldest first, scaled to STRIP_WIDTH."""
    begin_ms = max(now_ms - _MAX_STRIP_MS, min((entry.ms for entry in entries), default=now_ms))
    recent_entries = [
        entry for entry in reversed(entries) if entry.current or entry.ms + (entry.lasted_ms or 0) > begin_ms
    ][-_MAX_SEGMENTS:]
    if not recent_entries:
        return []
    begin_ms = max(begin_ms, min(entry.ms for entry in recent_entries))
    shares = [
        max(entry.ms + (entry.lasted_ms or 0) - max(entry.ms, begin_ms), 0.0) for entry in recent_entries
    ]
    total = sum(shares) or 1.0
    free_width = STRIP_WIDTH - _MIN_WIDTH * len(recent_entries)
    segments: list[Segment] = []
    x = 0.0
    for entry, share in zip(recent_entries, shares, strict=True):
        width = _MIN_WIDTH + share / total * free_width if sum(shares) else STRIP_WIDTH / len(recent_entries)
        segments.append(
            Segment(
                x=round(x, 1),
                width=round(width, 1),
                state=entry.state,
                ms=entry.ms,
                lasted_ms=entry.lasted_ms,
            )
        )
        x += width
    return segments


def _build_entries(states: Sequence[Mapping[str, Any]], now_ms: int) -> Iterator[Entry]:
    """Yield the entries of one instance, newest first."""
    end_ms = now_ms
    for index, (state, previous) in enumerate(zip(states, [*states[1:], None], strict=True)):
        begin_ms = state["ms"]
        state_name = REMOVED if text(state, "state") == "REMOVED" else display_state(state.get("state")).value
        worker = text(state, "worker_id")
        yield Entry(
            ms=begin_ms,
            task=get_integer(state, "task"),
            state=state_name,
            lasted_ms=None if state_name == REMOVED and index == 0 else max(end_ms - begin_ms, 0),
            current=index == 0,
            worker=worker,
            generation=get_integer(state, "generation"),
            is_moved=previous is not None and text(previous, "worker_id") not in ("", worker),
            cause=_STORED_TEXT if text(state, "cause") == _STORED_CAUSE else text(state, "cause"),
            by=text(state, "by"),
            trace=text(state, "trace"),
            restart=_new_restart_kind(state, previous),
        )
        end_ms = begin_ms


def _new_restart_kind(state: Mapping[str, Any], previous: Mapping[str, Any] | None) -> str:
    """Return the kind of restart that begins with a state; empty if no restart begins."""
    kind = _restart_kind(state)
    if not kind or previous is None or not _restart_kind(previous):
        return kind
    return "" if display_state(previous.get("state")) in _RESTART_STATES else kind


def _restart_kind(state: Mapping[str, Any]) -> str:
    cause = text(state, "cause")
    if cause.startswith(_AUTOMATIC_CAUSE):
        return "automatic"
    is_restart = display_state(state.get("state")) is DisplayState.RESTARTING or cause.startswith(
        _REQUESTED_CAUSE
    )
    return "requested" if is_restart else ""


def _build_restart(entry: Entry, newer_entries: Sequence[Entry]) -> Restart:
    """Return a restart with its outcome; `newer_entries` are the entries after the restart, newest first."""
    later_entries = [newer_entry for newer_entry in reversed(newer_entries) if newer_entry.task == entry.task]
    steps = [entry, *later_entries]
    index = next((index for index, step in enumerate(steps) if step.state not in _RESTART_STATES), None)
    run = steps[index] if index is not None and steps[index].state == DisplayState.RUNNING else None
    next_entry = (
        None
        if index is None
        else (steps[index + 1] if index + 1 < len(steps) else None)
        if run
        else steps[index]
    )
    return Restart(
        ms=entry.ms,
        task=entry.task,
        is_automatic=entry.restart == "automatic",
        by=entry.by,
        cause=entry.cause,
        ran_ms=None if run is None else run.lasted_ms,
        next_state="" if next_entry is None else next_entry.state,
        next_cause="" if next_entry is None else next_entry.cause,
    )

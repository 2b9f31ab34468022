"""Time lines of a connector's instances: each state with its duration and cause, from `GET …/history`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from web.ui.views.json_values import mapping, maps, text, whole
from web.ui.views.states import Shown, shown_state

REMOVED: Final = "removed"
"""Shown for an instance whose status was deleted, which is not a state of Connect."""
STRIP_WIDTH: Final = 600
_NARROWEST: Final = 3
"""Width of the shortest state, so that it stays visible."""
_MOST_SEGMENTS: Final = 100
_LONGEST_STRIP_MS: Final = 24 * 3_600_000
_STORED: Final = "as stored"
_FOUND: Final = "found when the worker started"
_ASKED: Final = "restarted"
_AUTOMATIC: Final = "automatic restart"
_BEGUN: Final = (Shown.RESTARTING, Shown.UNASSIGNED)
"""States through which an instance goes while it restarts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A state that an instance had, or has."""

    ms: int
    """Wall-clock time since the epoch when it began, by the clock of the worker that reported it."""
    task: int | None
    """None: the connector instance."""
    state: str
    """A value of `Shown`, or REMOVED."""
    lasted_ms: float | None
    """How long it lasted, or lasts so far; None for a removed instance."""
    current: bool
    worker: str
    generation: int | None
    moved: bool
    """Whether the instance was at another worker before."""
    cause: str
    by: str
    """Who asked for it; empty if nobody did."""
    trace: str
    restart: str
    """`automatic` or `requested` if a restart begins with it, else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A restart and what became of it."""

    ms: int
    task: int | None
    automatic: bool
    by: str
    cause: str
    ran_ms: float | None
    """How long the instance ran afterwards, or runs so far; None: it did not run."""
    ended: str
    """State that followed: a value of `Shown` or REMOVED; empty if nothing followed yet."""
    why: str
    """Cause of that state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A piece of the strip that shows states over time."""

    x: float
    width: float
    state: str
    ms: int
    lasted_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What is known of the past of one or several instances, the newest first."""

    entries: Sequence[Entry]
    since_ms: int | None
    """From when on the worker has recorded states; None: not known."""
    worker: str
    """The worker that recorded them."""
    dropped: int
    """Number of older entries of the connector that are no longer there."""

    @property
    def restarts(self) -> Sequence[Restart]:
        """The restarts with what became of them, the newest first."""
        return [_restart(entry, self.entries[:at]) for at, entry in enumerate(self.entries) if entry.restart]

    @property
    def automatic(self) -> int:
        """Number of automatic restarts."""
        return sum(entry.restart == "automatic" for entry in self.entries)

    @property
    def requested(self) -> int:
        """Number of restarts that somebody asked for."""
        return sum(entry.restart == "requested" for entry in self.entries)

    @property
    def failures(self) -> int:
        """Number of failures."""
        return sum(entry.state == Shown.FAILED for entry in self.entries)


def timeline_of(history: object, now_ms: int) -> Timeline:
    """Return the time line of all instances of a connector."""
    found = mapping(history)
    states = [state for state in maps(found.get("states")) if whole(state, "ms") is not None]
    by_instance: dict[int | None, list[tuple[int, Mapping[str, Any]]]] = {}
    for at, state in enumerate(states):
        by_instance.setdefault(whole(state, "task"), []).append((at, state))
    entries: dict[int, Entry] = {}
    for own in by_instance.values():
        entries.update(zip((at for at, _ in own), _entries([state for _, state in own], now_ms), strict=True))
    return Timeline(
        entries=[entries[at] for at in sorted(entries)],
        since_ms=whole(found, "since_ms"),
        worker=text(found, "worker_id"),
        dropped=whole(found, "dropped") or 0,
    )


def of_instance(timeline: Timeline, task: int | None) -> Timeline:
    """Return the part of a time line that is about one instance; None: the connector instance."""
    return Timeline(
        entries=[entry for entry in timeline.entries if entry.task == task],
        since_ms=timeline.since_ms,
        worker=timeline.worker,
        dropped=timeline.dropped,
    )


def strip_of(entries: Sequence[Entry], now_ms: int) -> Sequence[Segment]:
    """Return the states of one instance over time, the oldest first, in a width of STRIP_WIDTH; at most one day."""
    begin = max(now_ms - _LONGEST_STRIP_MS, min((entry.ms for entry in entries), default=now_ms))
    shown = [
        entry for entry in reversed(entries) if entry.current or entry.ms + (entry.lasted_ms or 0) > begin
    ][-_MOST_SEGMENTS:]
    if not shown:
        return []
    begin = max(begin, min(entry.ms for entry in shown))
    shares = [max(entry.ms + (entry.lasted_ms or 0) - max(entry.ms, begin), 0.0) for entry in shown]
    total = sum(shares) or 1.0
    free = STRIP_WIDTH - _NARROWEST * len(shown)
    found: list[Segment] = []
    x = 0.0
    for entry, share in zip(shown, shares, strict=True):
        width = _NARROWEST + share / total * free if sum(shares) else STRIP_WIDTH / len(shown)
        found.append(
            Segment(
                x=round(x, 1),
                width=round(width, 1),
                state=entry.state,
                ms=entry.ms,
                lasted_ms=entry.lasted_ms,
            )
        )
        x += width
    return found


def _entries(states: Sequence[Mapping[str, Any]], now_ms: int) -> Iterator[Entry]:
    """Return the entries of one instance, from its states, the newest first."""
    until = now_ms
    for at, (state, before) in enumerate(zip(states, [*states[1:], None], strict=True)):
        began = state["ms"]
        word = REMOVED if text(state, "state") == "REMOVED" else shown_state(state.get("state")).value
        worker = text(state, "worker_id")
        yield Entry(
            ms=began,
            task=whole(state, "task"),
            state=word,
            lasted_ms=None if word == REMOVED and at == 0 else max(until - began, 0),
            current=at == 0,
            worker=worker,
            generation=whole(state, "generation"),
            moved=before is not None and text(before, "worker_id") not in ("", worker),
            cause=_FOUND if text(state, "cause") == _STORED else text(state, "cause"),
            by=text(state, "by"),
            trace=text(state, "trace"),
            restart=_begins_restart(state, before),
        )
        until = began


def _begins_restart(state: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    """Return which kind of restart begins with a state; empty if it begins none, or continues one."""
    kind = _restart_kind(state)
    if not kind or before is None or not _restart_kind(before):
        return kind
    return "" if shown_state(before.get("state")) in _BEGUN else kind


def _restart_kind(state: Mapping[str, Any]) -> str:
    cause = text(state, "cause")
    if cause.startswith(_AUTOMATIC):
        return "automatic"
    is_restart = shown_state(state.get("state")) is Shown.RESTARTING or cause.startswith(_ASKED)
    return "requested" if is_restart else ""


def _restart(entry: Entry, newer: Sequence[Entry]) -> Restart:
    """Return what became of a restart; `newer` are the entries after it, the newest first."""
    following = [each for each in reversed(newer) if each.task == entry.task]
    steps = [entry, *following]
    at = next((at for at, each in enumerate(steps) if each.state not in _BEGUN), None)
    ran = steps[at] if at is not None and steps[at].state == Shown.RUNNING else None
    after = None if at is None else (steps[at + 1] if at + 1 < len(steps) else None) if ran else steps[at]
    return Restart(
        ms=entry.ms,
        task=entry.task,
        automatic=entry.restart == "automatic",
        by=entry.by,
        cause=entry.cause,
        ran_ms=None if ran is None else ran.lasted_ms,
        ended="" if after is None else after.state,
        why="" if after is None else after.cause,
    )

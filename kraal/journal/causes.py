"""Causes of states: why an instance is in a state, and who requested it. Pure.

A state of an instance follows from a *cause* that came before it: a request, an automatic restart, a rebalance. The
herder notes a cause for exactly those instances that it concerns; the next state that the cause explains gets its text.
States without a cause are explained by their change: the worker, the generation, the trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from kraal.core.ids import State
from kraal.core.printable import printable
from kraal.core.traces import root_cause
from kraal.protocol.status_records import Status

REMOVED: Final = "REMOVED"
"""The state of an instance whose status was deleted."""
STORED: Final = "as stored"
"""The cause of a state that was stored before the worker started."""
FRESH_MS: Final = 600_000
"""How long a cause explains states, in milliseconds: Spark may take minutes to start."""


class Kind(Enum):
    """Kinds of causes; the value is the text of the states that it explains."""

    CREATED = "created"
    CONFIG = "config changed"
    TASKS = "new task configs"
    DELETED = "deleted"
    PAUSED = "paused"
    RESUMED = "resumed"
    STOPPED = "stopped"
    RESTART = "restarted"
    AUTO_RESTART = "automatic restart"
    REVOKED = "given up for a rebalance"
    CLOSING = "its worker was shut down"
    ORPHANED = "its worker had ended without stopping it"


_ENDS: Final = frozenset({str(State.UNASSIGNED), REMOVED})
_LIVES: Final = frozenset({str(each) for each in State if each is not State.FAILED} | {REMOVED})
_EXPLAINS: Final[dict[Kind, frozenset[str]]] = {
    Kind.DELETED: _ENDS,
    Kind.PAUSED: _ENDS | {str(State.PAUSED)},
    Kind.STOPPED: _ENDS | {str(State.STOPPED)},
    Kind.RESUMED: frozenset({str(State.UNASSIGNED), str(State.RUNNING)}),
    Kind.REVOKED: _ENDS,
    Kind.CLOSING: _ENDS,
    Kind.ORPHANED: _ENDS,
}
"""States by kind; the other kinds explain every state except FAILED."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause, for one or several instances."""

    kind: Kind
    by: str
    """Who requested it: `PUT from 10.0.0.7`, `another worker`; empty without a request."""
    ms: int
    """Time of its record, or of the decision; wall-clock milliseconds since the epoch."""
    text: str = ""
    """Instead of the kind's text."""

    @property
    def shown(self) -> str:
        """The text of the states that it explains."""
        return self.text or self.kind.value

    def explains(self, state: str) -> bool:
        """Whether it leads to a state."""
        return state in _EXPLAINS.get(self.kind, _LIVES)


@dataclass(frozen=True, slots=True)
class Explained:
    """Why an instance is in a state."""

    cause: str
    by: str
    is_exact: bool
    """It is a noted cause, or a trace."""
    uses: bool = False
    """The noted cause is used up: it does not explain a later state."""


def explain(
    before: Status | None, after: Status | None, noted: Cause | None, *, now_ms: int, reason: str = ""
) -> Explained:
    """Return why an instance has come from one status to another; None: it has none.

    `noted` is its latest cause that explained no settled state yet; `reason` is that of the status's rebalance.
    """
    state = REMOVED if after is None else str(after.state)
    uses = is_settled(after)
    if after is not None and after.trace:
        return Explained(printable(root_cause(after.trace)), "", is_exact=True, uses=uses)
    if noted is not None and now_ms - noted.ms <= FRESH_MS and noted.explains(state):
        return Explained(noted.shown, noted.by, is_exact=True, uses=uses)
    return Explained(_without_cause(before, after, reason), "", is_exact=False)


def is_settled(status: Status | None) -> bool:
    """Whether a status is the last effect of its cause."""
    return status is None or status.state not in (State.UNASSIGNED, State.RESTARTING)


def _without_cause(before: Status | None, after: Status | None, reason: str) -> str:
    if after is None:
        return "no longer configured"
    moved = before is None or (before.worker_id, before.generation) != (after.worker_id, after.generation)
    if after.state in (State.RUNNING, State.PAUSED, State.STOPPED) and moved and after.generation > 0:
        return f"assigned in generation {after.generation}{f': {reason}' if reason else ''}"
    return (
        _TEXTS[after.state]
        if before is None or before.state is not State.FAILED
        else _AFTER_FAILURE[after.state]
    )


_TEXTS: Final[dict[State, str]] = {
    State.RUNNING: "started",
    State.PAUSED: "paused",
    State.STOPPED: "stopped",
    State.FAILED: "failed without a trace",
    State.RESTARTING: "restarted by its worker",
    State.UNASSIGNED: "stopped by its worker",
}
_AFTER_FAILURE: Final[dict[State, str]] = {**_TEXTS, State.RUNNING: "recovered without a restart"}

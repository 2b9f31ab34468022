"""Causes of states: why an instance is in a state, and who requested the state. Pure.

A state of an instance has a preceding *cause*: a request, an automatic restart or a rebalance. The herder records a
cause for exactly the affected instances. The states that the cause explains receive its text, up to the first settled
state. States without a recorded cause are explained by the change of the worker, the generation or the trace.
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
STORED_CAUSE: Final = "as stored"
"""The cause of a state that was stored before the worker started."""
MAX_CAUSE_AGE_MS: Final = 600_000
"""Maximum age in milliseconds of a cause that explains a state; Spark may take minutes to start."""


class Kind(Enum):
    """Kinds of causes; the value is the text of the states that the cause explains."""

    CREATED = "created"
    CONFIG = "config changed"
    TASKS = "new task configs"
    DELETED = "deleted"
    PAUSED = "paused"
    RESUMED = "resumed"
    STOPPED = "stopped"
    RESTART = "restarted"
    AUTO_RESTART = "automatic restart"
    REVOKED = "revoked in a rebalance"
    CLOSING = "its worker was shut down"
    ORPHANED = "its worker exited without stopping it"


_STOPPED_STATES: Final = frozenset({str(State.UNASSIGNED), REMOVED})
_NOT_FAILED_STATES: Final = frozenset(
    {str(state) for state in State if state is not State.FAILED} | {REMOVED}
)
_EXPLAINED_STATES: Final[dict[Kind, frozenset[str]]] = {
    Kind.DELETED: _STOPPED_STATES,
    Kind.PAUSED: _STOPPED_STATES | {str(State.PAUSED)},
    Kind.STOPPED: _STOPPED_STATES | {str(State.STOPPED)},
    Kind.RESUMED: frozenset({str(State.UNASSIGNED), str(State.RUNNING)}),
    Kind.REVOKED: _STOPPED_STATES,
    Kind.CLOSING: _STOPPED_STATES,
    Kind.ORPHANED: _STOPPED_STATES,
}
"""The states that each kind explains; kinds that are not listed explain every state except FAILED."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause, for one or several instances."""

    kind: Kind
    by: str
    """Author of the request, such as `PUT from 10.0.0.7` or `another worker`; empty without a request."""
    ms: int
    """Time of the request's record or of the decision, in wall-clock milliseconds since the epoch."""
    text: str = ""
    """Text that replaces the kind's text, if any."""

    @property
    def display_text(self) -> str:
        """The text of the states that this cause explains."""
        return self.text or self.kind.value

    def explains(self, state: str) -> bool:
        """Return whether this cause explains a state."""
        return state in _EXPLAINED_STATES.get(self.kind, _NOT_FAILED_STATES)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of a state."""

    cause: str
    by: str
    is_exact: bool
    """Whether the explanation is taken from a recorded cause or from a trace."""
    is_consumed: bool = False
    """Whether the recorded cause does not explain any later state."""


def explain(
    before: Status | None, after: Status | None, recorded: Cause | None, *, now_ms: int, reason: str = ""
) -> Explanation:
    """Explain the transition of an instance from one status to another; None stands for no status.

    `recorded`: latest cause that has not explained a settled state yet. `reason`: reason for the latest rebalance.
    """
    state = REMOVED if after is None else str(after.state)
    is_consumed = is_settled(after)
    if after is not None and after.trace:
        return Explanation(printable(root_cause(after.trace)), "", is_exact=True, is_consumed=is_consumed)
    if recorded is not None and now_ms - recorded.ms <= MAX_CAUSE_AGE_MS and recorded.explains(state):
        return Explanation(recorded.display_text, recorded.by, is_exact=True, is_consumed=is_consumed)
    return Explanation(_explain_without_cause(before, after, reason), "", is_exact=False)


def is_settled(status: Status | None) -> bool:
    """Return whether a status is the last effect of its cause."""
    return status is None or status.state not in (State.UNASSIGNED, State.RESTARTING)


def _explain_without_cause(before: Status | None, after: Status | None, reason: str) -> str:
    if after is None:
        return "no longer configured"
    has_moved = before is None or (before.worker_id, before.generation) != (after.worker_id, after.generation)
    if after.state in (State.RUNNING, State.PAUSED, State.STOPPED) and has_moved and after.generation > 0:
        return f"assigned in generation {after.generation}{f': {reason}' if reason else ''}"
    return (
        _TEXTS[after.state]
        if before is None or before.state is not State.FAILED
        else _TEXTS_AFTER_FAILURE[after.state]
    )


_TEXTS: Final[dict[State, str]] = {
    State.RUNNING: "started",
    State.PAUSED: "paused",
    State.STOPPED: "stopped",
    State.FAILED: "failed without a trace",
    State.RESTARTING: "restarted by its worker",
    State.UNASSIGNED: "stopped by its worker",
}
_TEXTS_AFTER_FAILURE: Final[dict[State, str]] = {**_TEXTS, State.RUNNING: "recovered without a restart"}

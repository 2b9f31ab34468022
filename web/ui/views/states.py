"""States of the dashboard: Connect's and `stalled`, the most urgent first. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final


class Shown(StrEnum):
    """State of a connector or task on a page, in the order of urgency."""

    FAILED = "failed"
    STALLED = "stalled"
    RESTARTING = "restarting"
    UNASSIGNED = "unassigned"
    UNKNOWN = "unknown"
    """No status yet, or an unknown state."""
    PAUSED = "paused"
    STOPPED = "stopped"
    RUNNING = "running"


RANK: Final = {state: rank for rank, state in enumerate(Shown)}
MAY_STALL: Final = frozenset({Shown.RUNNING, Shown.RESTARTING, Shown.UNASSIGNED, Shown.UNKNOWN})
_BY_NAME: Final = {state.name: state for state in Shown}


def shown_state(state: object, *, stalled: bool = False) -> Shown:
    """Map a state of Connect, such as `RUNNING`."""
    mapped = _BY_NAME.get(state, Shown.UNKNOWN) if isinstance(state, str) else Shown.UNKNOWN
    return Shown.STALLED if stalled and mapped in MAY_STALL else mapped


def most_urgent(states: Iterable[Shown]) -> Shown:
    """Return the most urgent state; `unknown` for none."""
    return min(states, key=RANK.__getitem__, default=Shown.UNKNOWN)

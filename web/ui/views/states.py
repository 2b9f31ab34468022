"""Display states: Connect's states and `stalled`, most urgent first. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final


class DisplayState(StrEnum):
    """State of a connector or task, in order of urgency."""

    FAILED = "failed"
    STALLED = "stalled"
    RESTARTING = "restarting"
    UNASSIGNED = "unassigned"
    UNKNOWN = "unknown"
    """No status yet, or an unknown state."""
    PAUSED = "paused"
    STOPPED = "stopped"
    RUNNING = "running"


RANK: Final = {state: rank for rank, state in enumerate(DisplayState)}
STALLABLE_STATES: Final = frozenset(
    {DisplayState.RUNNING, DisplayState.RESTARTING, DisplayState.UNASSIGNED, DisplayState.UNKNOWN}
)
_BY_NAME: Final = {state.name: state for state in DisplayState}


def display_state(state: object, *, stalled: bool = False) -> DisplayState:
    """Convert a Connect state, such as `RUNNING`; with `stalled`, states in `STALLABLE_STATES` become STALLED."""
    connect_state = (
        _BY_NAME.get(state, DisplayState.UNKNOWN) if isinstance(state, str) else DisplayState.UNKNOWN
    )
    return DisplayState.STALLED if stalled and connect_state in STALLABLE_STATES else connect_state


def most_urgent(states: Iterable[DisplayState]) -> DisplayState:
    """Return the most urgent state, `unknown` if there are none."""
    return min(states, key=RANK.__getitem__, default=DisplayState.UNKNOWN)

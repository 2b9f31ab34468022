"""Input and outcome of one rebalance.

A decision is a function of the round (the members' reports, the configured work, the time) and of the leader's state
after earlier rounds (`AssignorState`). The decision also returns the next state. A leader that loses its role drops the
state, and a new leader starts with an empty state.
Source: IncrementalCooperativeAssignor (Kafka 4.4.0), KIP-415.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto

from kraal.protocol.group import ConnectorOrTask

ConnectorsAndTasks = tuple[ConnectorOrTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A delay for members that may return and receive their work again."""

    candidates: tuple[str, ...] = ()
    """Members that joined or remained without work during the delay, in order of detection."""
    until_ms: int | None = None
    """End of the delay; None if there is no delay."""
    delay_ms: int = 0
    """Delay that was sent to the members; 0 if there is no delay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorState:
    """The leader's state between rounds."""

    assigned: frozenset[ConnectorOrTask] = frozenset()
    """All instances that should run after the last round, including lost instances."""
    revoked: frozenset[ConnectorOrTask] = frozenset()
    """Instances revoked in the last round."""
    generation: int = -1
    """Generation of the last round."""
    members: frozenset[str] = frozenset()
    """Members of the last round."""
    pause: Pause = field(default_factory=Pause)
    rebalancing: bool = False
    """Whether work was revoked to balance load; reset by a balanced round, during a delay, and when a delay expires."""
    revocations: int = 0
    """Number of consecutive rounds that needed revocations after a round with revocations."""
    lists: Mapping[str, frozenset[ConnectorOrTask]] = field(default_factory=dict)
    """Static assignments of the last round; see `Round.lists`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Input of one assignment by the leader."""

    members: Mapping[str, Sequence[ConnectorOrTask]]
    """Instances that each member reports, by member id. Contains at least the leader."""
    configured: frozenset[ConnectorOrTask]
    """All configured work."""
    last_completed_generation: int
    """The last generation whose assignment this worker received."""
    generation: int
    """Generation of this round."""
    now_ms: int
    """Time of a monotonic clock; only differences within this process are meaningful."""
    max_delay_ms: int
    """`scheduled.rebalance.max.delay.ms`."""
    lists: Mapping[str, frozenset[ConnectorOrTask]] = field(default_factory=dict)
    """Static assignments by member (KIP-987): all instances that each static member may run, configured or not."""


class LostHandling(StrEnum):
    """Decision about lost assignments (IncrementalCooperativeAssignor.handleLostAssignments)."""

    NONE = auto()
    """No assignments are lost."""
    UNDELIVERED = auto()
    """No worker has left, so a worker did not receive its assignment; reassigned like new submissions."""
    DELAYED = auto()
    """A worker has left and may return; its work is delayed."""
    CANDIDATES = auto()
    """The delay has expired; lost work is assigned to members that were idle during the delay."""
    REASSIGNED = auto()
    """The delay has expired without idle members, or is disabled; lost work is reassigned like new submissions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedSets:
    """Sets that determine a round, in the terms of IncrementalCooperativeAssignor.performTaskAssignment."""

    previous: frozenset[ConnectorOrTask] = frozenset()
    """Work that should run after the last round; equal to `active` if a revocation was not applied."""
    active: frozenset[ConnectorOrTask] = frozenset()
    """Work that the members report."""
    deleted: frozenset[ConnectorOrTask] = frozenset()
    duplicated: frozenset[ConnectorOrTask] = frozenset()
    """Instances on more than one member; all members stop them, and the next round assigns each instance once."""
    misplaced: frozenset[ConnectorOrTask] = frozenset()
    """Instances on members that are not allowed to run them (KIP-987)."""
    lost: frozenset[ConnectorOrTask] = frozenset()
    new_submissions: frozenset[ConnectorOrTask] = frozenset()
    """Instances that run on no member, including instances revoked in the last round."""
    surplus: frozenset[ConnectorOrTask] = frozenset()
    """Instances revoked to balance load."""
    lost_handling: LostHandling = LostHandling.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Assignments of all members; every mapping contains every member."""

    assigned: Mapping[str, ConnectorsAndTasks]
    """Instances to start; connectors first."""
    revoked: Mapping[str, ConnectorsAndTasks]
    """Instances to stop; a member with revocations rejoins immediately."""
    owned: Mapping[str, ConnectorsAndTasks]
    """Instances that each member runs afterwards."""
    delay_ms: int
    """Delay before the next rejoin, the same for all members; 0 if none is required."""
    state: AssignorState
    derived_sets: DerivedSets = field(default_factory=DerivedSets)

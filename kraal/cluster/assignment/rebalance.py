"""Input and outcome of one rebalance.

A decision is a function of the round (the members' reports, the configured work, the time) and of the leader's state
after earlier rounds. That state is `AssignorState`, an input and output value: a leader that loses its role drops it,
and a new leader starts with an empty one.
Source: IncrementalCooperativeAssignor (Kafka 4.4.0), KIP-415.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto

from kraal.protocol.group import Job

Jobs = tuple[Job, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A wait for members that may return and take their work back."""

    candidates: tuple[str, ...] = ()
    """Members that joined or stayed without any work meanwhile, in the order in which they were seen."""
    until_ms: int | None = None
    """End of the wait; None: no wait."""
    delay_ms: int = 0
    """Delay that was sent to the members; 0: no wait, load is balanced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorState:
    """The leader's memory between rounds."""

    assigned: frozenset[Job] = frozenset()
    """All jobs that should run after the last round, including lost ones."""
    revoked: frozenset[Job] = frozenset()
    """Jobs revoked in the last round."""
    generation: int = -1
    """Generation of the last round."""
    members: frozenset[str] = frozenset()
    """Members of the last round."""
    pause: Pause = field(default_factory=Pause)
    rebalancing: bool = False
    """Whether the last round revoked work to balance load, with no quiet round or full wait since."""
    revocations: int = 0
    """Number of consecutive rounds that needed to revoke although the round before did too."""
    lists: Mapping[str, frozenset[Job]] = field(default_factory=dict)
    """Static assignments of the last round; see `Round.lists`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Input of one assignment by the leader."""

    members: Mapping[str, Sequence[Job]]
    """Jobs that each member reports, by member id; at least the leader."""
    configured: frozenset[Job]
    """All work to run."""
    last_generation: int
    """The last generation whose assignment this worker received."""
    generation: int
    """Generation of this round."""
    now_ms: int
    """From a monotonic clock: only differences within this process are meaningful."""
    max_delay_ms: int
    """`scheduled.rebalance.max.delay.ms`."""
    lists: Mapping[str, frozenset[Job]] = field(default_factory=dict)
    """Static assignments of members that have any (KIP-987): all jobs that each may run, configured or not."""


class LostHandling(StrEnum):
    """Decision about lost assignments (IncrementalCooperativeAssignor.handleLostAssignments)."""

    NONE = auto()
    """Nothing is lost."""
    UNDELIVERED = auto()
    """No worker has left, so a worker did not receive its assignment: reassigned like new submissions."""
    DELAYED = auto()
    """A worker has left and may return: its work waits."""
    CANDIDATES = auto()
    """The delay has expired: assigned to members that were idle meanwhile."""
    REASSIGNED = auto()
    """The delay has expired without such members, or is disabled: reassigned like new submissions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedSets:
    """Sets that a round is decided from, in the terms of IncrementalCooperativeAssignor.performTaskAssignment."""

    previous: frozenset[Job] = frozenset()
    """Work that should run after the last round; `active` if a revocation was not followed."""
    active: frozenset[Job] = frozenset()
    """Work that the members report."""
    deleted: frozenset[Job] = frozenset()
    duplicated: frozenset[Job] = frozenset()
    """Jobs on more than one member: all of them stop it, and the next round assigns it once."""
    misplaced: frozenset[Job] = frozenset()
    """Jobs on members that may not run them (KIP-987)."""
    lost: frozenset[Job] = frozenset()
    new_submissions: frozenset[Job] = frozenset()
    """Jobs that ran on no member, including those revoked in the last round."""
    surplus: frozenset[Job] = frozenset()
    """Jobs revoked to balance load."""
    lost_handling: LostHandling = LostHandling.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Assignments of all members; every mapping contains every member."""

    assigned: Mapping[str, Jobs]
    """Jobs to start; connectors first."""
    revoked: Mapping[str, Jobs]
    """Jobs to stop; a member with any rejoins at once."""
    owned: Mapping[str, Jobs]
    """Jobs that the member runs afterwards."""
    delay_ms: int
    """Delay before the next rejoin, the same for all members; 0: none needed."""
    state: AssignorState
    derived: DerivedSets = field(default_factory=DerivedSets)

"""What one rebalance is decided from, and what comes out of it.

A decision is a function of the round (what members report, what is configured, the time) and of what the leader
remembers of earlier rounds. That memory is `AssignorState`, a value that goes in and comes out: a leader that
loses its place just drops it, and a new leader starts with an empty one.
Source: IncrementalCooperativeAssignor (Kafka 4.3.0), KIP-415; contract 4.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kraal.protocol.group import Job

Jobs = tuple[Job, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A wait for members that may come back with, or for, their work."""

    candidates: tuple[str, ...] = ()
    """Members that came, or stayed, without any work meanwhile, in the order in which they were seen."""
    until_ms: int | None = None
    """When the wait ends; None = there is none."""
    delay_ms: int = 0
    """What members were told to wait; 0 = no wait, then load is balanced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorState:
    """What the leader remembers from one round to the next."""

    assigned: frozenset[Job] = frozenset()
    """What ought to run after the last round, lost work included."""
    revoked: frozenset[Job] = frozenset()
    """What the last round took from members."""
    generation: int = -1
    """Of the last round."""
    members: frozenset[str] = frozenset()
    """Of the last round."""
    pause: Pause = field(default_factory=Pause)
    rebalancing: bool = False
    """Whether the last round revoked work to balance load, and no quiet round or full wait came since."""
    revocations: int = 0
    """How many rounds in a row wanted to revoke although the one before them did."""
    lists: Mapping[str, frozenset[Job]] = field(default_factory=dict)
    """The static assignments of the last round; see `Round.lists`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What the leader knows when it has to assign."""

    members: Mapping[str, Sequence[Job]]
    """What each member reports to run, by member id; at least the leader."""
    configured: frozenset[Job]
    """All there is to run."""
    last_generation: int
    """The last generation whose assignment this worker received."""
    generation: int
    """The generation of this round."""
    now_ms: int
    """From a monotonic clock: only differences count, and only within this process."""
    max_delay_ms: int
    """`scheduled.rebalance.max.delay.ms`."""
    lists: Mapping[str, frozenset[Job]] = field(default_factory=dict)
    """The static assignments of members that have any (KIP-987): all that each may run, known jobs or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What every member is told; all mappings hold every member."""

    assigned: Mapping[str, Jobs]
    """What it is to start; connectors first."""
    revoked: Mapping[str, Jobs]
    """What it is to stop; a member that finds something here rejoins at once."""
    owned: Mapping[str, Jobs]
    """What it runs when it has done both."""
    delay_ms: int
    """The same for all: when to rejoin; 0 = no need to."""
    state: AssignorState

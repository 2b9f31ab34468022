"""State, events and decisions of one cluster member.

The flow itself is in `kraal.cluster.membership.flow`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kraal.cluster.assignment.leader import GroupPlan
from kraal.cluster.state.wanted_work import Assignment
from kraal.protocol.group import GroupAssignment, GroupProtocol

REPEAT_S = 0.5
"""Pause of a member that requests a round again, which only the leader can start."""
RETRIES = 5
"""Number of waits of a cooperative worker for an unreadable config before it gives up its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """Timeouts and delays. Defaults are Connect's."""

    sync_timeout_s: float = 3.0
    """`worker.sync.timeout.ms`"""
    unsync_backoff_s: float = 300.0
    """`worker.unsync.backoff.ms`"""
    max_delay_s: float = 300.0
    """`scheduled.rebalance.max.delay.ms`"""
    session_timeout_s: float = 10.0
    """`session.timeout.ms`"""
    rebalance_timeout_s: float = 60.0
    """`rebalance.timeout.ms`; a herder that is silent for longer counts as dead."""

    @property
    def tick_s(self) -> float:
        """How often the herder is asked for a sign of life."""
        return min(5.0, self.rebalance_timeout_s / 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """Position of one member in the flow. Times are monotonic seconds."""

    begun: bool = False
    """The herder has been live: this worker is, or wants to be, in the group."""
    assignment: GroupAssignment | None = None
    """Owned work, as reported at the next join; None: nothing."""
    running: Assignment = field(default_factory=Assignment)
    """Work that the herder was last told it may run."""
    protocol: GroupProtocol | None = None
    """The last elected protocol."""
    generation: int = -1
    repeated: bool = False
    """The last assignment has the generation of the one before: the broker saw no need for a round."""
    member_id: str = ""
    plan: GroupPlan | None = None
    """Plan of this generation, if this worker leads it."""
    unresolved: bool = False
    """The last assignment has neither been delivered nor answered with a rejoin."""
    needed_offset: int = 0
    """Config offset that the last assignment requires."""
    joining: bool = False
    """Between `Prepare` and `Told`."""
    held: bool = False
    """The group waits for `Proceed`."""
    revoking: int | None = None
    """Number of the revocation that the herder has not yet confirmed."""
    numbers: int = 0
    """Number of revocations so far."""
    catch_up_by_s: float | None = None
    """Deadline for reading the config as far as the assignment requires."""
    unreadable: bool = False
    """This worker left because it could not read the config, and returns when it can."""
    pause_until_s: float | None = None
    """Time of the next attempt to read the config."""
    retries: int = RETRIES
    rejoin_at_s: float | None = None
    """Time to request another round: the end of the leader's delay, or of a pause between requests."""
    hung: bool = False
    """This worker left because the herder did not answer, and returns when it does."""
    asked_s: float | None = None
    """Time since which a heartbeat of the herder is overdue."""
    ticked_s: float | None = None
    """Time of the last check."""

    @property
    def leads(self) -> bool:
        """Whether this worker leads the last generation."""
        return self.assignment is not None and self.assignment.leader == self.member_id

    @property
    def out(self) -> bool:
        """Whether this worker stays out of the group for now."""
        return self.unreadable or self.hung

    def wake_s(self, settings: MemberSettings) -> float | None:
        """Time at which `Tick` is due unless another event comes first."""
        times = [self.pause_until_s]
        if self.ticked_s is not None:
            times.append(self.ticked_s + settings.tick_s)
        if self.unreadable or self.revoking is None:
            times.append(self.catch_up_by_s)
        if not self.unresolved:
            times.append(self.rejoin_at_s)
        return min((t for t in times if t is not None), default=None)


# -- events --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HerderLive:
    """The herder has read its logs and knows what runs, for the first time or after a restart."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Connectors or tasks changed, and instances that had to stop first have stopped."""


@dataclass(frozen=True, slots=True)
class Read:
    """More of the config was read."""


@dataclass(frozen=True, slots=True)
class Done:
    """The revocation with this number is carried out."""

    number: int


@dataclass(frozen=True, slots=True)
class Alive:
    """The herder answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """The group is about to join: see `GroupHooks.prepare`."""

    expelled: bool = False
    away_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A join is complete, with the leader's assignment."""

    protocol: GroupProtocol
    generation: int
    member_id: str
    assignment: GroupAssignment
    plan: GroupPlan | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The coordinator is unknown."""

    reason: str


@dataclass(frozen=True, slots=True)
class Reborn:
    """The actor that carries out decisions was restarted and lost what it was processing."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = HerderLive | Changed | Read | Done | Alive | Prepare | Told | Lost | Reborn | Tick


# -- decisions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Join:
    """Join the group, for the first time or after `Leave`."""


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Request another round from the group."""

    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the group until `Join`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Proceed:
    """Let the group join: all work that had to stop has stopped."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """Have the herder stop all work that is not in `keep`; `Done` confirms it."""

    number: int
    keep: Assignment


@dataclass(frozen=True, slots=True)
class Deliver:
    """Have the herder run the owned work in the state."""


@dataclass(frozen=True, slots=True)
class TellLost:
    """Tell the herder that no leader is known."""

    reason: str


@dataclass(frozen=True, slots=True)
class AskAlive:
    """Ask the herder for a sign of life."""


Decision = Join | Rejoin | Leave | Proceed | Revoke | Deliver | TellLost | AskAlive

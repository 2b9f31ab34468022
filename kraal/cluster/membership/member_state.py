"""State, events and decisions of one cluster member.

The flow itself is in `kraal.cluster.membership.flow`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kraal.cluster.assignment.leader import GroupPlan
from kraal.cluster.state.wanted_work import Assignment
from kraal.protocol.group import GroupAssignment, GroupProtocol

REJOIN_DELAY_S = 0.5
"""Delay before a member repeats a rejoin request, because only the leader can start a rebalance."""
MAX_BACKOFFS = 5
"""Number of times a cooperative worker backs off from an unreadable config before it revokes its work."""


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
    """`rebalance.timeout.ms`; a herder that does not respond for longer is considered dead."""

    @property
    def tick_s(self) -> float:
        """Interval of the herder's liveness check."""
        return min(5.0, self.rebalance_timeout_s / 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """State of one member. Times are monotonic seconds."""

    has_begun: bool = False
    """Whether the herder has been live, so that this worker may join the group."""
    assignment: GroupAssignment | None = None
    """Owned work as reported at the next join, if any."""
    running: Assignment = field(default_factory=Assignment)
    """Work that the herder may run, according to the last decision."""
    protocol: GroupProtocol | None = None
    """The last elected protocol."""
    generation: int = -1
    is_repeated: bool = False
    """Whether the last two assignments have the same generation, because the broker started no rebalance."""
    member_id: str = ""
    plan: GroupPlan | None = None
    """Plan of this generation if this worker is the leader."""
    is_unresolved: bool = False
    """Whether the last assignment has been neither delivered nor rejected by a rejoin request."""
    needed_offset: int = 0
    """Config offset that the last assignment requires."""
    is_joining: bool = False
    """Whether a join is in progress, between `PrepareJoin` and `AssignmentReceived`."""
    is_join_pending: bool = False
    """Whether the group's join waits for `AllowJoin`."""
    pending_revocation: int | None = None
    """Number of the revocation that the herder has not yet confirmed."""
    revocations: int = 0
    """Number of revocations so far."""
    catch_up_by_s: float | None = None
    """Deadline for reading the config up to the offset of the assignment."""
    is_config_unreadable: bool = False
    """Whether this worker left because it could not read the config. The worker returns once it has caught up."""
    pause_until_s: float | None = None
    """Time of the next attempt to read the config."""
    retries: int = MAX_BACKOFFS
    rejoin_at_s: float | None = None
    """Time of the next rejoin request: the end of the rebalance delay, or of the delay between requests."""
    is_herder_hung: bool = False
    """Whether this worker left because the herder did not respond. The worker returns when the herder responds."""
    unanswered_since_s: float | None = None
    """Time of the first `PingHerder` without a response."""
    last_check_s: float | None = None
    """Time of the last liveness check of the herder."""

    @property
    def is_leader(self) -> bool:
        """Whether this worker is the leader of the last generation."""
        return self.assignment is not None and self.assignment.leader == self.member_id

    @property
    def is_staying_out(self) -> bool:
        """Whether this worker stays out of the group for now."""
        return self.is_config_unreadable or self.is_herder_hung

    def wake_s(self, settings: MemberSettings) -> float | None:
        """Return the time at which `Tick` is due unless another event comes first; None if no deadline is pending."""
        times = [self.pause_until_s]
        if self.last_check_s is not None:
            times.append(self.last_check_s + settings.tick_s)
        if self.is_config_unreadable or self.pending_revocation is None:
            times.append(self.catch_up_by_s)
        if not self.is_unresolved:
            times.append(self.rejoin_at_s)
        return min((t for t in times if t is not None), default=None)


# -- events --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HerderLive:
    """The herder has read the logs and received the worker's report, after a start or a restart."""


@dataclass(frozen=True, slots=True)
class WorkChanged:
    """Connectors or tasks changed, and instances that had to stop first have stopped."""


@dataclass(frozen=True, slots=True)
class ConfigRead:
    """The worker has read more of the config topic."""


@dataclass(frozen=True, slots=True)
class RevocationDone:
    """All work of the revocation with this number has stopped."""

    number: int


@dataclass(frozen=True, slots=True)
class HerderAlive:
    """The herder responded to `PingHerder`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareJoin:
    """The group is about to join: see `GroupHooks.prepare`."""

    expelled: bool = False
    away_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentReceived:
    """A join is complete, with the leader's assignment."""

    protocol: GroupProtocol
    generation: int
    member_id: str
    assignment: GroupAssignment
    plan: GroupPlan | None = None


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """The coordinator is unreachable or unknown."""

    reason: str


@dataclass(frozen=True, slots=True)
class MembershipRestarted:
    """The membership actor was restarted and lost the message that it was processing."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = (
    HerderLive
    | WorkChanged
    | ConfigRead
    | RevocationDone
    | HerderAlive
    | PrepareJoin
    | AssignmentReceived
    | CoordinatorLost
    | MembershipRestarted
    | Tick
)


# -- decisions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Join:
    """Join the group, for the first time or after `Leave`."""


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Request another rebalance from the group."""

    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the group until `Join`."""

    reason: str


@dataclass(frozen=True, slots=True)
class AllowJoin:
    """Let the pending join continue, because all revoked work has stopped."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """Stop all work that is not in `keep`; the herder confirms with `RevocationDone`."""

    number: int
    keep: Assignment


@dataclass(frozen=True, slots=True)
class Deliver:
    """Deliver the owned work in the state to the herder."""


@dataclass(frozen=True, slots=True)
class NotifyLost:
    """Notify the herder that this worker has no leader."""

    reason: str


@dataclass(frozen=True, slots=True)
class PingHerder:
    """Send the herder a liveness check."""


Decision = Join | Rejoin | Leave | AllowJoin | Revoke | Deliver | NotifyLost | PingHerder

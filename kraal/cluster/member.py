"""One member of a cluster: where it is in the flow, what may happen to it, and what it may have to do.

The flow itself is in `kraal.cluster.member_flow`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kraal.cluster.assign import GroupPlan
from kraal.cluster.work import Assignment
from kraal.protocol.group import GroupAssignment, GroupProtocol

REPEAT_S = 0.5
"""Pause of a member that asks for a round, again, which only the leader can begin."""
RETRIES = 5
"""How often a cooperative worker waits for a config that it cannot read before it gives up its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """How long things may take. Defaults are Connect's."""

    sync_timeout_s: float = 3.0
    """`worker.sync.timeout.ms`"""
    unsync_backoff_s: float = 300.0
    """`worker.unsync.backoff.ms`"""
    max_delay_s: float = 300.0
    """`scheduled.rebalance.max.delay.ms`"""
    session_timeout_s: float = 10.0
    """`session.timeout.ms`"""
    rebalance_timeout_s: float = 60.0
    """`rebalance.timeout.ms`; a herder that is silent for so long does not work any more."""

    @property
    def tick_s(self) -> float:
        """How often the herder is asked whether it is alive."""
        return min(5.0, self.rebalance_timeout_s / 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """Where one member is in the flow. Times are monotonic seconds."""

    begun: bool = False
    """The herder was live once: we are, or want to be, in the group."""
    assignment: GroupAssignment | None = None
    """What we own, as we report it when we join; None = nothing."""
    running: Assignment = field(default_factory=Assignment)
    """What the herder was last told that it may run."""
    protocol: GroupProtocol | None = None
    """The last one that was elected."""
    generation: int = -1
    repeated: bool = False
    """The last assignment was of the same generation as the one before: the broker saw no need for a round."""
    member_id: str = ""
    plan: GroupPlan | None = None
    """Of this generation, when we lead it."""
    unresolved: bool = False
    """The last assignment has neither been delivered nor answered with a rejoin."""
    needed_offset: int = 0
    """How far the last assignment wants the config to be read."""
    joining: bool = False
    """Between `Prepare` and `Told`."""
    held: bool = False
    """The group waits for `Proceed`."""
    revoking: int | None = None
    """The number of the revocation that the herder has not yet confirmed."""
    numbers: int = 0
    """How many revocations there were."""
    catch_up_by_s: float | None = None
    """Until when the config has to be read as far as the assignment says."""
    unreadable: bool = False
    """We left because the config could not be read, and come back when it is."""
    pause_until_s: float | None = None
    """When to try to read the config again."""
    retries: int = RETRIES
    rejoin_at_s: float | None = None
    """When to ask for another round: the delay that the leader announced is over, or we pause in between."""
    hung: bool = False
    """We left because the herder did not answer, and come back when it does."""
    asked_s: float | None = None
    """Since when the herder owes us a sign of life."""
    ticked_s: float | None = None
    """When we last looked."""

    @property
    def leads(self) -> bool:
        """Whether we are the leader of the last generation."""
        return self.assignment is not None and self.assignment.leader == self.member_id

    @property
    def out(self) -> bool:
        """Whether we stay out of the group for the time being."""
        return self.unreadable or self.hung

    def wake_s(self, settings: MemberSettings) -> float | None:
        """When `Tick` has to come, if nothing else comes before."""
        times = [self.pause_until_s]
        if self.ticked_s is not None:
            times.append(self.ticked_s + settings.tick_s)
        if self.unreadable or self.revoking is None:
            times.append(self.catch_up_by_s)
        if not self.unresolved:
            times.append(self.rejoin_at_s)
        return min((t for t in times if t is not None), default=None)


# -- what happens ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HerderLive:
    """The herder has read its logs and knows what runs, for the first time or again."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Connectors or tasks changed, and what had to stop first has stopped."""


@dataclass(frozen=True, slots=True)
class Read:
    """More of the config was read."""


@dataclass(frozen=True, slots=True)
class Done:
    """The revocation of this number is carried out."""

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
    """A join is complete, and this is what the leader says."""

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
    """Whoever carries out decisions was restarted: what it had in hand is lost."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = HerderLive | Changed | Read | Done | Alive | Prepare | Told | Lost | Reborn | Tick


# -- what to do --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Join:
    """Join the group: for the first time, or after `Leave`."""


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Ask the group for another round."""

    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the group until `Join`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Proceed:
    """Let the group join: all that had to stop has stopped."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """Have the herder stop what is not in `keep`; `Done` says that it did."""

    number: int
    keep: Assignment


@dataclass(frozen=True, slots=True)
class Deliver:
    """Have the herder run what the state says that we own."""


@dataclass(frozen=True, slots=True)
class TellLost:
    """Tell the herder that nobody is known to lead."""

    reason: str


@dataclass(frozen=True, slots=True)
class AskAlive:
    """Ask the herder for a sign of life."""


Decision = Join | Rejoin | Leave | Proceed | Revoke | Deliver | TellLost | AskAlive

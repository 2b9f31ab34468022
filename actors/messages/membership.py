"""Messages that the membership actor receives from the herder, the group (on the group's thread) and the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.runtime.mailbox import Ask, Tell
from actors.runtime.system import Begin

if TYPE_CHECKING:
    from kraal.cluster.assignment.leader import GroupPlan
    from kraal.protocol.group import GroupAssignment, GroupProtocol


# -- sent by the herder -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HerderBegan(Tell):
    """The herder is live, possibly after a restart: see `Membership.begin`."""


@dataclass(frozen=True, slots=True)
class WorkChanged(Tell):
    """Connectors or tasks have changed, and the instances that had to stop first have stopped."""


@dataclass(frozen=True, slots=True)
class ConfigRead(Tell):
    """The published snapshot covers more of the config log."""


@dataclass(frozen=True, slots=True)
class WorkStopped(Tell):
    """The herder has executed the `WorkRevoked` with this number."""

    number: int


@dataclass(frozen=True, slots=True)
class HerderAlive(Tell):
    """The herder has received the `HerderTick` with this number."""

    number: int


# -- sent by the group --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareJoin(Ask[None]):
    """Prepare a join; replies when the group may join. See `GroupHooks.prepare`."""

    expelled: bool
    away_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJoined(Tell):
    """A join is complete; `plan` is set if this worker is the leader."""

    protocol: GroupProtocol
    generation: int
    member_id: str
    assignment: GroupAssignment
    plan: GroupPlan | None


@dataclass(frozen=True, slots=True)
class CoordinatorLost(Tell):
    """The coordinator is unreachable or rejects this worker."""

    reason: str


# -- sent by the clock --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MembershipTick(Tell):
    """Check deadlines."""


MembershipMessage = (
    Begin
    | HerderBegan
    | WorkChanged
    | ConfigRead
    | WorkStopped
    | HerderAlive
    | PrepareJoin
    | GroupJoined
    | CoordinatorLost
    | MembershipTick
)

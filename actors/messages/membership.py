"""What the Membership actor receives. The group's messages come from its own thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.mailbox import Ask, Tell
from actors.system import Begin

if TYPE_CHECKING:
    from kraal.cluster.assign import GroupPlan
    from kraal.protocol.group import GroupAssignment, GroupProtocol


# -- told by the herder ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HerderBegan(Tell):
    """The herder is live, perhaps again: see `Membership.begin`."""


@dataclass(frozen=True, slots=True)
class WorkChanged(Tell):
    """Connectors or tasks changed, and what had to stop first has stopped."""


@dataclass(frozen=True, slots=True)
class ConfigRead(Tell):
    """The published snapshot has read more of the config."""


@dataclass(frozen=True, slots=True)
class WorkStopped(Tell):
    """`WorkRevoked` of this number is carried out."""

    number: int


@dataclass(frozen=True, slots=True)
class HerderAlive(Tell):
    """The herder answered `HerderTick` of this number."""

    number: int


# -- asked and told by the group ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareJoin(Ask[None]):
    """Answered when the group may join: see `GroupHooks.prepare`."""

    expelled: bool
    away_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJoined(Tell):
    """A join is complete; `plan` is what we assigned if we lead."""

    protocol: GroupProtocol
    generation: int
    member_id: str
    assignment: GroupAssignment
    plan: GroupPlan | None


@dataclass(frozen=True, slots=True)
class CoordinatorLost(Tell):
    """The group is out of reach, or refuses us."""

    reason: str


# -- told by the clock -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MembershipTick(Tell):
    """Something may be due."""


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

"""What membership needs of a group of workers, whoever coordinates it: Kafka, or a fake in one thread.

A group calls its hooks on a thread of its own, one at a time, and in this order: `prepare` and `offers` before
each join, `plan` on the leader, `joined` at the end. `lost` may come at any time. Hooks return at once; the only
thing that a group waits for is the future that `prepare` returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from kraal.protocol.group import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """How a member behaves, whatever the group. Defaults are Connect's."""

    group_id: str
    session_timeout_s: float = 10.0
    """`session.timeout.ms`: who is silent for longer is put out of the group."""
    rebalance_timeout_s: float = 60.0
    """`rebalance.timeout.ms`: how long the others wait for us in a rebalance."""
    heartbeat_interval_s: float = 3.0
    """`heartbeat.interval.ms`: at least so often; also how long the coordinator may be unknown (M8)."""


class GroupHooks(Protocol):
    """What a group asks and tells its member. Called on the group's thread."""

    def prepare(self, *, expelled: bool, away_s: float) -> Future[None]:
        """Get ready to join; the join waits for the future.

        Args:
            expelled: the group has put us out: our work may be somebody else's already.
            away_s: how long ago the group last confirmed that we belong to it; infinite before the first time.
        """

    def offers(self) -> Sequence[Offer]:
        """Return what to send with the join, the preferred protocol first."""

    def plan(
        self,
        *,
        protocol: str,
        leader: str,
        members: Mapping[str, bytes],
        generation: int,
        last_generation: int,
    ) -> Mapping[str, bytes]:
        """Assign, as the leader: what each member is told, by member id.

        Args:
            protocol: the one that was elected.
            leader: our member id.
            members: what each sent with its join, by member id; we are among them.
            generation: of this rebalance.
            last_generation: the last one whose assignment we received; -1 before any.
        """

    def joined(self, *, protocol: str, generation: int, member_id: str, assignment: bytes) -> None:
        """We are a member of this generation, and this is what the leader told us."""

    def lost(self, reason: str) -> None:
        """The coordinator could not be found for longer than the heartbeat interval, or refuses us."""


class Group(Protocol):
    """One membership. Any thread; everything but `close` returns at once."""

    def start(self, hooks: GroupHooks) -> None:
        """Join, and stay until told otherwise. Called once."""

    def rejoin(self, reason: str) -> None:
        """Have a rebalance: join once more. Nothing happens while we are out."""

    def leave(self, reason: str) -> None:
        """Leave the group, also in the middle of a join, and stay out until `resume`."""

    def resume(self) -> None:
        """Join again after `leave`."""

    def close(self, timeout_s: float) -> None:
        """Leave for good; blocks at most about `timeout_s`."""

    def heartbeat_age_s(self) -> float:
        """Seconds since the broker last confirmed our membership; infinite while we have none.

        Counted from when the question was sent, so it is never younger than the broker's own count: work may be
        done for the group as long as this is below the session timeout.
        """

"""The interface between membership and a group of workers, which is coordinated by Kafka or simulated.

A group calls its hooks on its own thread, one at a time and in this order: `prepare` and `offers` before
each join, `plan` on the leader, and `on_joined` at the end. `on_lost` may be called at any time. Hooks must not block;
a group waits only for the future that `prepare` returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from kraal.protocol.group import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """The settings of a member. Defaults are Connect's."""

    group_id: str
    session_timeout_s: float = 10.0
    """`session.timeout.ms`: the time without a heartbeat after which the group expels a member."""
    rebalance_timeout_s: float = 60.0
    """`rebalance.timeout.ms`: maximum time that a rebalance waits for this member."""
    heartbeat_interval_s: float = 3.0
    """`heartbeat.interval.ms`: maximum interval of heartbeats; also the maximum time without a known coordinator."""


class GroupHooks(Protocol):
    """The member's callbacks, called on the group's thread."""

    def prepare(self, *, expelled: bool, away_s: float) -> Future[None]:
        """Prepare for a join, which waits for the returned future.

        Args:
            expelled: whether the group has expelled this member and may have reassigned its work.
            away_s: seconds since the group last confirmed the membership; infinite before the first join.
        """

    def offers(self) -> Sequence[Offer]:
        """Return the protocols to offer in the join, the preferred one first."""

    def plan(
        self,
        *,
        protocol: str,
        leader: str,
        members: Mapping[str, bytes],
        generation: int,
        last_completed_generation: int,
    ) -> Mapping[str, bytes]:
        """Compute the assignments as the leader, by member id.

        Args:
            protocol: the elected protocol.
            leader: this member's id.
            members: the metadata of all members, including this one, by member id.
            generation: the generation of this rebalance.
            last_completed_generation: the last generation whose assignment this member received; -1 before the first.
        """

    def on_joined(self, *, protocol: str, generation: int, member_id: str, assignment: bytes) -> None:
        """Receive this member's assignment in a new generation."""

    def on_lost(self, reason: str) -> None:
        """Handle a coordinator that rejects this member, or has been unknown for longer than the heartbeat interval."""


class Group(Protocol):
    """The membership in a group. Thread-safe. Only `close` blocks."""

    def start(self, hooks: GroupHooks) -> None:
        """Join the group, and stay until `leave` or `close`. Called once."""

    def rejoin(self, reason: str) -> None:
        """Trigger a rebalance by joining again. No-op if the member has left."""

    def leave(self, reason: str) -> None:
        """Leave the group, also during a join, until `resume`."""

    def resume(self) -> None:
        """Join the group again after `leave`."""

    def close(self, timeout_s: float) -> None:
        """Leave the group permanently; block for at most about `timeout_s`."""

    def heartbeat_age_s(self) -> float:
        """Return the seconds since the broker last confirmed the membership; infinite if this worker is not a member.

        The age is measured from the time when the request was sent, so it is never less than the broker's measurement.
        The member may work for the group while the age is below the session timeout.
        """

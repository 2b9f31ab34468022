"""The interface between membership and a group of workers, coordinated by Kafka or by a fake in one thread.

A group calls its hooks on a thread of its own, one at a time, and in this order: `prepare` and `offers` before
each join, `plan` on the leader, `on_joined` at the end. `on_lost` may come at any time. Hooks return at once; a group
waits only for the future that `prepare` returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from kraal.protocol.group import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """A member's settings, for any group. Defaults are Connect's."""

    group_id: str
    session_timeout_s: float = 10.0
    """`session.timeout.ms`: the group expels a member without heartbeats for longer."""
    rebalance_timeout_s: float = 60.0
    """`rebalance.timeout.ms`: how long the others wait for this member in a rebalance."""
    heartbeat_interval_s: float = 3.0
    """`heartbeat.interval.ms`: maximum interval; also how long the coordinator may be unknown."""


class GroupHooks(Protocol):
    """The member's callbacks, called on the group's thread."""

    def prepare(self, *, expelled: bool, away_s: float) -> Future[None]:
        """Prepare for a join, which waits for the future.

        Args:
            expelled: the group has expelled this member and may have reassigned its work.
            away_s: seconds since the group last confirmed the membership; infinite before the first time.
        """

    def offers(self) -> Sequence[Offer]:
        """Return the offers to send with the join, the preferred protocol first."""

    def plan(
        self,
        *,
        protocol: str,
        leader: str,
        members: Mapping[str, bytes],
        generation: int,
        last_generation: int,
    ) -> Mapping[str, bytes]:
        """Compute the assignments as the leader, by member id.

        Args:
            protocol: the elected protocol.
            leader: this member's id.
            members: the metadata of all members, including this one, by member id.
            generation: of this rebalance.
            last_generation: the last one whose assignment this member received; -1 before any.
        """

    def on_joined(self, *, protocol: str, generation: int, member_id: str, assignment: bytes) -> None:
        """Receive this member's assignment in a new generation."""

    def on_lost(self, reason: str) -> None:
        """Handle a coordinator that refuses this member, or was unknown for longer than the heartbeat interval."""


class Group(Protocol):
    """One membership. Any thread; all methods but `close` return at once."""

    def start(self, hooks: GroupHooks) -> None:
        """Join, and stay until `leave` or `close`. Called once."""

    def rejoin(self, reason: str) -> None:
        """Trigger a rebalance by joining again. Does nothing while the member is out of the group."""

    def leave(self, reason: str) -> None:
        """Leave the group, also in the middle of a join, and stay out until `resume`."""

    def resume(self) -> None:
        """Join again after `leave`."""

    def close(self, timeout_s: float) -> None:
        """Leave permanently; blocks at most about `timeout_s`."""

    def heartbeat_age_s(self) -> float:
        """Seconds since the broker last confirmed the membership; infinite without one.

        Counted from when the request was sent, so it is never less than the broker's own count: the member may work for
        the group as long as this is below the session timeout.
        """

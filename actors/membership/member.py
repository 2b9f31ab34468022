"""This worker's membership in its group: executes the decisions of `kraal.cluster.membership.flow`.

The actor runs the flow, one message at a time. The membership state (`actors.membership.state`) outlives the actor and
handles the group's callbacks. `ClusterMembership` is the herder's interface, in place of `SingleNode`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from actors.membership.state import MembershipState
from actors.messages.herder import AssignmentReceived, GroupLost, HerderTick, WorkRevoked
from actors.messages.membership import (
    ConfigRead,
    CoordinatorLost,
    GroupJoined,
    HerderAlive,
    HerderBegan,
    MembershipMessage,
    MembershipTick,
    PrepareJoin,
    WorkChanged,
    WorkStopped,
)
from actors.runtime.mailbox import Reply
from actors.runtime.system import Begin
from kraal.cluster.assignment.leader import to_assignment
from kraal.cluster.membership import member_state as flow
from kraal.cluster.membership.flow import HERDER_HUNG
from kraal.core.ids import Generation
from kraal.protocol.group import (
    CONNECTOR,
    ConnectorOrTask,
    GroupAssignment,
)

if TYPE_CHECKING:
    from actors.runtime.clock import Clock, Timer
    from actors.runtime.mailbox import Address

log = logging.getLogger(__name__)

JOIN_CHECK_INTERVAL_S = 0.2
"""Interval of the checks whether this worker may join."""


class ClusterMembership:
    """The herder's `Membership` in a cluster: each call sends a message."""

    def __init__(self, membership_state: MembershipState) -> None:
        self._membership_state = membership_state
        self._address = membership_state.address

    def begin(self) -> None:
        """Join the group, or redeliver the current assignment."""
        self._membership_state.has_herder_begun = True
        self._address.tell(HerderBegan())

    def on_work_changed(self) -> None:
        """Request a rebalance."""
        self._address.tell(WorkChanged())

    def on_config_read(self, offset: int) -> None:  # noqa: ARG002 - the published snapshot contains it
        """Deliver an assignment that waits for the config."""
        self._address.tell(ConfigRead())

    def on_stopped(self, number: int) -> None:
        """Report that revoked work has stopped."""
        self._address.tell(WorkStopped(number))

    def on_alive(self, number: int) -> None:
        """Report that the herder is alive."""
        self._address.tell(HerderAlive(number))


class GroupMember:
    """The membership actor. A restarted actor resends a pending revocation to the herder and requests a rebalance."""

    def __init__(self, *, membership_state: MembershipState, herder: Address, clock: Clock) -> None:
        self._membership_state = membership_state
        self._herder = herder
        self._clock = clock
        self._waiting: list[Reply[None]] = []
        """Joins that wait until revoked work has stopped."""
        self._timer: tuple[float, Timer] | None = None
        self._join_check: Timer | None = None
        """The next check whether this worker may join."""
        self._ticks = 0

    def receive(self, message: MembershipMessage) -> Reply[None] | None:
        """Handle one message."""
        reply: Reply[None] | None = None
        match message:
            case Begin():
                self._begin()
            case HerderBegan():
                self._step(flow.HerderLive())
            case WorkChanged():
                self._step(flow.WorkChanged())
            case ConfigRead():
                self._membership_state.warm_up()
                self._step(flow.ConfigRead())
            case WorkStopped():
                self._step(flow.RevocationDone(message.number))
            case HerderAlive():
                self._step(flow.HerderAlive())
            case PrepareJoin():
                reply = Reply()
                self._waiting.append(reply)
                self._step(flow.PrepareJoin(expelled=message.expelled, away_s=message.away_s))
            case GroupJoined():
                self._on_joined(message)
            case CoordinatorLost():
                self._step(flow.CoordinatorLost(message.reason))
            case MembershipTick():
                self._tick()
            case _:
                assert_never(message)
        return reply

    def _begin(self) -> None:
        membership_state = self._membership_state
        if membership_state.state.has_begun:
            self._step(flow.MembershipRestarted())
        elif membership_state.has_herder_begun:
            self._step(flow.HerderLive())

    def _on_joined(self, message: GroupJoined) -> None:
        before = self._membership_state.state.protocol
        log.info(
            "Joined group at generation %d with protocol version %d and got assignment: %s with rebalance delay: %d",
            message.generation,
            message.protocol.version,
            _format_assignment(message.assignment),
            message.assignment.delay_ms,
        )
        if before is not None and before.is_signed and not message.protocol.is_signed:
            log.warning(
                "The protocol of this Connect cluster has been downgraded from '%s' to '%s' and internal requests"
                " are not validated any more; a worker with another connect.protocol has joined (KIP-507)",
                before,
                message.protocol,
            )
        elif before is not None and message.protocol.is_signed and not before.is_signed:
            log.info("Internal request validation has been re-enabled")
        self._step(
            flow.AssignmentReceived(
                protocol=message.protocol,
                generation=message.generation,
                member_id=message.member_id,
                assignment=message.assignment,
                plan=message.plan,
            )
        )

    def _step(self, event: flow.Event) -> None:
        if isinstance(event, flow.PrepareJoin):
            self._membership_state.on_rebalance_began()
        elif isinstance(event, flow.CoordinatorLost):
            self._membership_state.on_coordinator_lost()
        for decision in self._membership_state.step(event):
            self._carry_out(decision)
        self._membership_state.publish_work()
        self._set_timer()

    def _carry_out(self, decision: flow.Decision) -> None:
        group = self._membership_state.group
        match decision:
            case flow.Join():
                self._join()
            case flow.Rejoin():
                log.info("Requesting a rebalance: %s", decision.reason)
                group.rejoin(decision.reason)
            case flow.Leave():
                self._log_leave(decision.reason)
                group.leave(decision.reason)
            case flow.AllowJoin():
                replies, self._waiting = self._waiting, []
                for reply in replies:
                    reply.set(None)
            case flow.Revoke():
                self._herder.tell(WorkRevoked(number=decision.number, keep=decision.keep))
            case flow.Deliver():
                self._deliver()
            case flow.NotifyLost():
                self._herder.tell(GroupLost(decision.reason))
            case flow.PingHerder():
                self._ticks += 1
                self._herder.tell(HerderTick(self._ticks))
            case _:
                assert_never(decision)

    def _join(self) -> None:
        membership_state = self._membership_state
        if membership_state.is_group_started:
            membership_state.group.resume()
        elif membership_state.may_join():
            membership_state.is_group_started = True
            membership_state.group.start(membership_state)
        else:
            if self._join_check is not None:
                self._join_check.cancel()
            self._join_check = self._clock.after(
                JOIN_CHECK_INTERVAL_S, membership_state.address, MembershipTick()
            )

    def _tick(self) -> None:
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
        self._step(flow.Tick())
        if self._membership_state.state.has_begun and not self._membership_state.is_group_started:
            self._join()

    def _deliver(self) -> None:
        state = self._membership_state.state
        assignment = state.assignment
        if assignment is None:
            return
        self._membership_state.on_rebalance_ended()
        self._herder.tell(
            AssignmentReceived(
                generation=Generation(state.generation),
                assignment=to_assignment(assignment),
                leader_url=assignment.leader_url,
                is_leader=state.is_leader,
                config_offset=assignment.config_offset,
                protocol=state.protocol,
                plan=state.plan,
            )
        )

    def _log_leave(self, reason: str) -> None:
        if reason == HERDER_HUNG:
            log.warning(
                "worker poll timeout has expired. The last known action being performed by the worker is : %s and"
                " may contribute to the timeout. One of the ways of addressing this can be increasing"
                " rebalance.timeout.ms, which is also the maximum time that a rebalance waits for this worker.",
                self._membership_state.current_stage(),
            )
        else:
            log.warning("Leaving the group: %s", reason)

    def _set_timer(self) -> None:
        wake_s = self._membership_state.state.wake_s(self._membership_state.settings)
        if self._timer is not None:
            if self._timer[0] == wake_s:
                return
            self._timer[1].cancel()
            self._timer = None
        if wake_s is not None:
            delay_s = max(0.0, wake_s - self._clock.now())
            self._timer = (
                wake_s,
                self._clock.after(delay_s, self._membership_state.address, MembershipTick()),
            )


def _format_assignment(assignment: GroupAssignment) -> str:
    """Format an assignment as in Connect's log."""
    assigned_ids, revoked_ids = _format_ids(assignment.assigned), _format_ids(assignment.revoked)
    return (
        f"Assignment{{error={assignment.error}, leader='{assignment.leader}', leaderUrl='{assignment.leader_url}',"
        f" offset={assignment.config_offset}, connectorIds={assigned_ids[0]}, taskIds={assigned_ids[1]},"
        f" revokedConnectorIds={revoked_ids[0]}, revokedTaskIds={revoked_ids[1]}, delay={assignment.delay_ms}}}"
    )


def _format_ids(connectors_and_tasks: Sequence[ConnectorOrTask]) -> tuple[str, str]:
    connectors = ", ".join(connector for connector, task in connectors_and_tasks if task == CONNECTOR)
    tasks = ", ".join(f"{connector}-{task}" for connector, task in connectors_and_tasks if task != CONNECTOR)
    return f"[{connectors}]", f"[{tasks}]"

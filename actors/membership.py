"""This worker's membership in its group: carries out what `kraal.cluster.member_flow` decides.

Between the group's thread and the herder stand three things. The *seat* outlives everybody: it is what the group
talks to, it answers for the member from what is published (a join must not wait for an actor's mailbox), and as
leader it assigns. The *actor* goes through the flow, one message after another. `ClusterMembership` is what the
herder holds in place of `Alone`.

What the group is told about our work is what the flow's state says when a join begins. That cannot be outdated:
each join first asks the actor (`PrepareJoin`), behind whatever the group told it before.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, assert_never

from actors.mailbox import Reply
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
from actors.system import Begin
from kraal.cluster import member as flow
from kraal.cluster.assign import GroupPlan, Joined, latest_offset, plan_group, work_of
from kraal.cluster.member import MemberSettings, MemberState
from kraal.cluster.member_flow import HUNG, step
from kraal.cluster.rebalance import AssignorState
from kraal.ids import Generation
from kraal.protocol.group import (
    CONNECTOR,
    ConnectProtocol,
    GroupAssignment,
    GroupProtocol,
    Job,
    Offer,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    offers,
)

if TYPE_CHECKING:
    from actors.clock import Clock, Timer
    from actors.mailbox import Address
    from kraal.cluster.snapshot import Published
    from kraal.stores.group import Group

log = logging.getLogger(__name__)

PATIENCE_S = 0.2
"""How long the leader waits for its own reader, which may be a moment behind another worker's."""
GLANCE_S = 0.01


class Seat:
    """What outlives the membership actor: the state of the flow, and what the leader remembers.

    The group calls it on the group's thread; `state` is written by the actor alone.
    """

    def __init__(
        self,
        *,
        address: Address,
        published: Published,
        clock: Clock,
        group: Group,
        protocol: ConnectProtocol,
        url: str,
        settings: MemberSettings,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Describe one worker's place in its group; nothing is sent before the herder begins.

        Args:
            address: of the membership actor.
            published: where the herder publishes the config.
            clock: the worker's.
            group: joined when the herder begins, and closed by whoever made it.
            protocol: `connect.protocol`.
            url: where the others reach this worker: `rest.advertised.…`.
            settings: how long things may take.
            patience_s: how long the leader may wait for its own reader; blocks the group's thread.
        """
        self.address = address
        self.group = group
        self.settings = settings
        self.state = MemberState()
        self.herder_began = False
        """The herder was live once; kept here, for the actor may die before it hears of it."""
        self.started = False
        """The group was asked to start."""
        self._published = published
        self._clock = clock
        self._protocol = protocol
        self._url = url
        self._patience_s = patience_s
        self._assignor = AssignorState()
        self._planned: tuple[int, GroupPlan] | None = None

    def lease(self) -> bool:
        """Whether work may be done for the group now: any thread; goes into `TaskSpec.lease`."""
        return self.group.heartbeat_age_s() < self.settings.session_timeout_s

    def step(self, event: flow.Event) -> tuple[flow.Decision, ...]:
        """Go one step of the flow. The actor only."""
        self.state, decisions = step(
            self.state,
            event,
            now_s=self._clock.now(),
            offset=self._published.latest.config.offset,
            settings=self.settings,
        )
        return decisions

    def doing(self) -> str:
        """Return what the herder is doing, as Connect's texts have it."""
        stage = self._published.latest.stage
        return "not known" if stage is None or stage.completed_ms is not None else stage.what

    # -- GroupHooks ----------------------------------------------------------------------------------------

    def prepare(self, *, expelled: bool, away_s: float) -> Future[None]:
        """Ask the actor; its death answers as well."""
        log.info("Rebalance started")
        return self.address.question(PrepareJoin(expelled=expelled, away_s=away_s))

    def offers(self) -> Sequence[Offer]:
        """Return what we have read and what we own, as of now."""
        offset = self._published.latest.config.offset
        return offers(self._protocol, self._url, offset, self.state.assignment)

    def plan(
        self,
        *,
        protocol: str,
        leader: str,
        members: Mapping[str, bytes],
        generation: int,
        last_generation: int,
    ) -> Mapping[str, bytes]:
        """Assign everything to everybody. Raises ProtocolError for metadata that cannot be read."""
        joined = Joined(
            protocol=GroupProtocol(protocol),
            leader=leader,
            members={member: decode_metadata(data) for member, data in members.items()},
            generation=generation,
            last_generation=last_generation,
        )
        self._await_config(latest_offset(joined.members))
        plan = plan_group(
            joined,
            self._published.latest.config,
            self._assignor,
            now_ms=int(self._clock.now() * 1000),
            max_delay_ms=round(self.settings.max_delay_s * 1000),
        )
        self._assignor, self._planned = plan.state, (generation, plan)
        return {member: encode_assignment(told) for member, told in plan.assignments.items()}

    def joined(self, *, protocol: str, generation: int, member_id: str, assignment: bytes) -> None:
        """Pass the assignment on, with the plan that it is from if we made it."""
        told = decode_assignment(assignment)
        planned = self._planned
        plan = planned[1] if planned is not None and planned[0] == generation else None
        self.address.tell(
            GroupJoined(
                protocol=GroupProtocol(protocol),
                generation=generation,
                member_id=member_id,
                assignment=told,
                plan=plan if told.leader == member_id else None,
            )
        )

    def lost(self, reason: str) -> None:
        """Pass it on."""
        self.address.tell(CoordinatorLost(reason))

    def _await_config(self, offset: int) -> None:
        """Give our own reader a moment to read what some other worker has read already."""
        deadline = self._clock.now() + self._patience_s
        nothing = threading.Event()
        while self._published.latest.config.offset < offset and self._clock.now() < deadline:
            nothing.wait(GLANCE_S)


class ClusterMembership:
    """The herder's `Membership` in a cluster: each call is a message."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._address = seat.address

    def begin(self) -> None:
        """Join the group, or have our work told again."""
        self._seat.herder_began = True
        self._address.tell(HerderBegan())

    def work_changed(self) -> None:
        """Ask for a rebalance."""
        self._address.tell(WorkChanged())

    def config_read(self, offset: int) -> None:  # noqa: ARG002 - the published snapshot has it
        """An assignment may wait for it."""
        self._address.tell(ConfigRead())

    def stopped(self, number: int) -> None:
        """What was revoked has stopped."""
        self._address.tell(WorkStopped(number))

    def alive(self, number: int) -> None:
        """The herder answered."""
        self._address.tell(HerderAlive(number))


class Membership:
    """The actor. Started again, it tells the herder what was under way, and rejoins under its member id."""

    def __init__(self, *, seat: Seat, herder: Address, clock: Clock) -> None:
        self._seat = seat
        self._herder = herder
        self._clock = clock
        self._waiting: list[Reply[None]] = []
        """Joins that wait for what has to stop first."""
        self._timer: tuple[float, Timer] | None = None
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
                self._step(flow.Changed())
            case ConfigRead():
                self._step(flow.Read())
            case WorkStopped():
                self._step(flow.Done(message.number))
            case HerderAlive():
                self._step(flow.Alive())
            case PrepareJoin():
                reply = Reply()
                self._waiting.append(reply)
                self._step(flow.Prepare(expelled=message.expelled, away_s=message.away_s))
            case GroupJoined():
                self._joined(message)
            case CoordinatorLost():
                self._step(flow.Lost(message.reason))
            case MembershipTick():
                self._timer = None
                self._step(flow.Tick())
            case _:
                assert_never(message)
        return reply

    def _begin(self) -> None:
        seat = self._seat
        if seat.state.begun:
            self._step(flow.Reborn())
        elif seat.herder_began:
            self._step(flow.HerderLive())

    def _joined(self, message: GroupJoined) -> None:
        before = self._seat.state.protocol
        log.info(
            "Joined group at generation %d with protocol version %d and got assignment: %s with rebalance delay: %d",
            message.generation,
            message.protocol.version,
            _text(message.assignment),
            message.assignment.delay_ms,
        )
        if before is not None and before.signed and not message.protocol.signed:
            log.warning(
                "The protocol of this Connect cluster has been downgraded from '%s' to '%s' and internal requests"
                " are not validated any more; a worker with another connect.protocol has joined (KIP-507)",
                before,
                message.protocol,
            )
        elif before is not None and message.protocol.signed and not before.signed:
            log.info("Internal request validation has been re-enabled")
        self._step(
            flow.Told(
                protocol=message.protocol,
                generation=message.generation,
                member_id=message.member_id,
                assignment=message.assignment,
                plan=message.plan,
            )
        )

    def _step(self, event: flow.Event) -> None:
        for decision in self._seat.step(event):
            self._carry_out(decision)
        self._set_timer()

    def _carry_out(self, decision: flow.Decision) -> None:
        group = self._seat.group
        match decision:
            case flow.Join():
                self._join()
            case flow.Rejoin():
                log.info("Rebalance wanted: %s", decision.reason)
                group.rejoin(decision.reason)
            case flow.Leave():
                self._log_leave(decision.reason)
                group.leave(decision.reason)
            case flow.Proceed():
                waiting, self._waiting = self._waiting, []
                for reply in waiting:
                    reply.set(None)
            case flow.Revoke():
                self._herder.tell(WorkRevoked(number=decision.number, keep=decision.keep))
            case flow.Deliver():
                self._deliver()
            case flow.TellLost():
                self._herder.tell(GroupLost(decision.reason))
            case flow.AskAlive():
                self._ticks += 1
                self._herder.tell(HerderTick(self._ticks))
            case _:
                assert_never(decision)

    def _join(self) -> None:
        if self._seat.started:
            self._seat.group.resume()
        else:
            self._seat.started = True
            self._seat.group.start(self._seat)

    def _deliver(self) -> None:
        state = self._seat.state
        owned = state.assignment
        if owned is None:
            return
        self._herder.tell(
            AssignmentReceived(
                generation=Generation(state.generation),
                assignment=work_of(owned),
                leader_url=owned.leader_url,
                is_leader=state.leads,
                config_offset=owned.config_offset,
                protocol=state.protocol,
                plan=state.plan,
            )
        )

    def _log_leave(self, reason: str) -> None:
        if reason == HUNG:
            log.warning(
                "worker poll timeout has expired. The last known action being performed by the worker is : %s and"
                " may contribute to the timeout. One of the ways of addressing this can be increasing"
                " rebalance.timeout.ms, which also says how long the others wait for this worker in a rebalance.",
                self._seat.doing(),
            )
        else:
            log.warning("Leaving the group: %s", reason)

    def _set_timer(self) -> None:
        wake_s = self._seat.state.wake_s(self._seat.settings)
        if self._timer is not None:
            if self._timer[0] == wake_s:
                return
            self._timer[1].cancel()
            self._timer = None
        if wake_s is not None:
            delay_s = max(0.0, wake_s - self._clock.now())
            self._timer = (wake_s, self._clock.after(delay_s, self._seat.address, MembershipTick()))


def _text(told: GroupAssignment) -> str:
    """Write an assignment as Connect's log has it."""
    new, revoked = _names(told.assigned), _names(told.revoked)
    return (
        f"Assignment{{error={told.error}, leader='{told.leader}', leaderUrl='{told.leader_url}',"
        f" offset={told.config_offset}, connectorIds={new[0]}, taskIds={new[1]},"
        f" revokedConnectorIds={revoked[0]}, revokedTaskIds={revoked[1]}, delay={told.delay_ms}}}"
    )


def _names(jobs: Sequence[Job]) -> tuple[str, str]:
    connectors = ", ".join(job.connector for job in jobs if job.task == CONNECTOR)
    tasks = ", ".join(f"{job.connector}-{job.task}" for job in jobs if job.task != CONNECTOR)
    return f"[{connectors}]", f"[{tasks}]"

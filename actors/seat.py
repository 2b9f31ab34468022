"""This worker's seat in its group: what outlives the membership actor, and what the group talks to.

The group asks on its own thread and cannot wait for an actor's mailbox, so the seat answers from what is published
and from the state of the flow, and as leader it assigns. What it tells the group about our work cannot be outdated:
each join first asks the actor (`PrepareJoin`), behind whatever the group told it before.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.messages.membership import CoordinatorLost, GroupJoined, PrepareJoin
from kraal.cluster.assign import GroupPlan, Joined, latest_offset, plan_group, work_of
from kraal.cluster.member import Decision, Event, MemberSettings, MemberState
from kraal.cluster.member_flow import step
from kraal.cluster.rebalance import AssignorState
from kraal.cluster.work import Assignment
from kraal.metrics.board import Board
from kraal.metrics.windows import Windows
from kraal.protocol.group import (
    ConnectProtocol,
    GroupProtocol,
    Offer,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    offers,
)

if TYPE_CHECKING:
    from actors.clock import Clock
    from actors.mailbox import Address
    from kraal.cluster.snapshot import Published
    from kraal.metrics.group import GroupNumbers
    from kraal.protocol.group import GroupAssignment, Job
    from kraal.stores.group import Group

log = logging.getLogger(__name__)

PATIENCE_S = 0.2
"""How long the leader waits for its own reader, which may be a moment behind another worker's."""
GLANCE_S = 0.01
LEASE = 0.9
"""Of the session timeout; the rest is for what is done just after a look at the lease."""


WARM_UP_S = 180.0
"""How long a worker stays out of the group, at its start, for an engine that is not up."""


def _always() -> bool:
    return True


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
        ready: Callable[[], bool] = _always,
        board: Board | None = None,
        static: tuple[Job, ...] | None = None,
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
            ready: whether tasks can run here now; any thread.
            board: hears of rebalances and of what the group gave us; None: nobody does.
            static: what this worker is kept for: `static.connectors`, `static.tasks`; None: for anything.
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
        self._static = static
        self._url = url
        self._patience_s = patience_s
        self._ready = ready
        self._board = board or Board(clock, Windows(), in_group=True)
        self._published_work: GroupAssignment | None = None
        self._made_s = clock.now()
        self._assignor = AssignorState()
        self._planned: tuple[int, GroupPlan] | None = None

    def lease(self) -> bool:
        """Whether work may be done for the group now: any thread; goes into `TaskSpec.lease`."""
        return self.group.heartbeat_age_s() < LEASE * self.settings.session_timeout_s

    def may_join(self) -> bool:
        """Whether to join for the first time now.

        A member is given work at once, taken from those that run it. So who cannot run it yet stays out, unless
        there is no work, or what is missing does not come.
        """
        waited_s = self._clock.now() - self._made_s
        return self._ready() or waited_s >= WARM_UP_S or not self._published.latest.config.connectors

    def step(self, event: Event) -> tuple[Decision, ...]:
        """Go one step of the flow. The actor only."""
        self.state, decisions = step(
            self.state,
            event,
            now_s=self._clock.now(),
            offset=self._published.latest.config.offset,
            settings=self.settings,
        )
        return decisions

    # -- numbers; the actor only ---------------------------------------------------------------------------

    def rebalance_began(self) -> None:
        """The group is about to join."""
        self._publish(lambda numbers: numbers.rebalance_began(self._clock.now()))

    def rebalance_ended(self) -> None:
        """What the group said is being carried out."""
        self._publish(lambda numbers: numbers.rebalance_ended(self._clock.now()))

    def publish_work(self) -> None:
        """Publish how much the group gave us, if that is news."""
        owned = self.state.assignment
        if owned is not self._published_work:
            self._published_work = owned
            work = Assignment() if owned is None else work_of(owned)
            self._publish(
                lambda numbers: replace(numbers, connectors=len(work.connectors), tasks=len(work.tasks))
            )

    def _publish(self, change: Callable[[GroupNumbers], GroupNumbers]) -> None:
        if self._board.group is not None:
            self._board.group = change(self._board.group)

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
        return offers(self._protocol, self._url, offset, self.state.assignment, self._static)

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
            former=self._planned[1] if self._planned is not None else None,
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

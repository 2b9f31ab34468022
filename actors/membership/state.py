"""Membership state: outlives the membership actor and handles the group's callbacks.

The callbacks run on the group's thread and cannot wait for an actor's mailbox. They therefore use published data and
the state of the flow. The leader computes the assignments in a callback. The work that a join reports is current,
because the actor handles `PrepareJoin` before each join, after all earlier messages of the group.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.membership.decision_log import log_plan, log_step
from actors.messages.membership import CoordinatorLost, GroupJoined, PrepareJoin
from kraal.cluster.assignment.leader import GroupPlan, JoinResult, latest_offset, plan_group, to_assignment
from kraal.cluster.assignment.rebalance import AssignorState
from kraal.cluster.membership.flow import step
from kraal.cluster.membership.member_state import Decision, Event, MemberSettings, MemberState
from kraal.cluster.state.wanted_work import Assignment
from kraal.core.lease import Lease
from kraal.metrics.registry import MetricsRegistry
from kraal.metrics.windows import Windows
from kraal.protocol.group import (
    ConnectProtocol,
    GroupProtocol,
    Offer,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    make_offers,
)

if TYPE_CHECKING:
    from actors.runtime.clock import Clock
    from actors.runtime.mailbox import Address
    from kraal.cluster.views.snapshot import Published
    from kraal.metrics.group import GroupMetrics
    from kraal.protocol.group import ConnectorOrTask, GroupAssignment
    from kraal.stores.group_api import Group

log = logging.getLogger(__name__)

CONFIG_WAIT_TIMEOUT_S = 0.2
"""Maximum time that the leader waits for its config reader, which may lag behind that of another worker."""
CONFIG_POLL_INTERVAL_S = 0.01


WARM_UP_TIMEOUT_S = 180.0
"""Maximum time that a starting worker stays out of the group while its engine is not ready."""


def _always() -> bool:
    return True


class MembershipState:
    """State that outlives the membership actor: the state of the flow and the leader's assignor memory.

    The group calls its `GroupHooks` methods on the group's thread; only the actor writes `state`.
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
        config_wait_timeout_s: float = CONFIG_WAIT_TIMEOUT_S,
        ready: Callable[[], bool] = _always,
        metrics: MetricsRegistry | None = None,
        static_assignment: tuple[ConnectorOrTask, ...] | None = None,
    ) -> None:
        """Create the state of one worker; nothing is sent to the group before the herder begins.

        Args:
            address: address of the membership actor.
            published: holder of the config that the herder publishes.
            clock: clock of the worker.
            group: the group to join when the herder begins; closed by its creator.
            protocol: `connect.protocol`.
            url: URL of this worker for other workers: `rest.advertised.…`.
            settings: timeouts and delays.
            config_wait_timeout_s: maximum time that the leader waits for its config reader; blocks the group's thread.
            ready: starts the engine for the group's connectors; returns whether the engine is ready. Thread-safe.
            metrics: registry of rebalances and assigned work; by default, a new registry that is not exported.
            static_assignment: `static.connectors` and `static.tasks` of this worker, if set.
        """
        self.address = address
        self.group = group
        self.settings = settings
        self.lease = Lease(group.heartbeat_age_s, settings.session_timeout_s)
        """Returns whether this worker may act for the group now. Thread-safe; used as `TaskSpec.lease`."""
        self.state = MemberState()
        self.has_herder_begun = False
        """Whether the herder has ever been live. Stored here, because the flag must outlive the membership actor."""
        self.is_group_started = False
        """Whether the group was started."""
        self._published = published
        self._clock = clock
        self._protocol = protocol
        self._static_assignment = static_assignment
        self._url = url
        self._config_wait_timeout_s = config_wait_timeout_s
        self._ready = ready
        self._metrics = metrics or MetricsRegistry(clock, Windows(), in_group=True)
        self._published_work: GroupAssignment | None = None
        self._created_s = clock.now()
        self._assignor = AssignorState()
        self._latest_plan: tuple[int, GroupPlan] | None = None
        """Generation and plan of the last rebalance that this worker led."""

    def may_join(self) -> bool:
        """Return whether this worker may join for the first time.

        A new member receives work at once, which is revoked from other workers. A worker that cannot run tasks yet
        therefore stays out, unless there are no connectors or the engine is not ready after `WARM_UP_TIMEOUT_S`.
        """
        waited_s = self._clock.now() - self._created_s
        return self._ready() or waited_s >= WARM_UP_TIMEOUT_S or not self._published.latest.config.connectors

    def warm_up(self) -> None:
        """Start the engine for the group's connectors, which may be assigned to this worker soon."""
        if self.is_group_started:
            self._ready()

    def step(self, event: Event) -> tuple[Decision, ...]:
        """Execute one step of the flow; return the decisions. Called by the actor only."""
        before, offset = self.state, self._published.latest.config.offset
        self.state, decisions = step(
            before, event, now_s=self._clock.now(), offset=offset, settings=self.settings
        )
        log_step(before, self.state, decisions, offset=offset)
        return decisions

    # -- metrics, called by the actor only -----------------------------------------------------------------

    def on_rebalance_began(self) -> None:
        """Record the start of a rebalance."""
        self._publish(lambda metrics: metrics.on_rebalance_began(self._clock.now()))

    def on_coordinator_lost(self) -> None:
        """Record that the worker waits for the group's coordinator."""
        self._publish(lambda metrics: metrics.on_waiting(self._clock.now()))

    def on_rebalance_ended(self) -> None:
        """Record the end of a rebalance, when the assignment is delivered."""
        self._publish(lambda metrics: metrics.on_rebalance_ended(self._clock.now()))

    def publish_work(self) -> None:
        """Publish the number of assigned connectors and tasks if it changed."""
        assignment = self.state.assignment
        if assignment is not self._published_work:
            self._published_work = assignment
            work = Assignment() if assignment is None else to_assignment(assignment)
            self._publish(
                lambda metrics: replace(metrics, connectors=len(work.connectors), tasks=len(work.tasks))
            )

    def _publish(self, change: Callable[[GroupMetrics], GroupMetrics]) -> None:
        if self._metrics.group is not None:
            self._metrics.group = change(self._metrics.group)

    def current_stage(self) -> str:
        """Return the herder's current stage in Connect's wording."""
        stage = self._published.latest.stage
        return "not known" if stage is None or stage.completed_ms is not None else stage.what

    # -- GroupHooks ----------------------------------------------------------------------------------------

    def prepare(self, *, expelled: bool, away_s: float) -> Future[None]:
        """Ask the actor to prepare the join; the returned future fails if the actor dies."""
        log.info("Rebalance started")
        return self.address.question(PrepareJoin(expelled=expelled, away_s=away_s))

    def offers(self) -> Sequence[Offer]:
        """Return the metadata for a join: the config offset that this worker has read and the work that it owns."""
        offset = self._published.latest.config.offset
        return make_offers(self._protocol, self._url, offset, self.state.assignment, self._static_assignment)

    def plan(
        self,
        *,
        protocol: str,
        leader: str,
        members: Mapping[str, bytes],
        generation: int,
        last_completed_generation: int,
    ) -> Mapping[str, bytes]:
        """Return the encoded assignments of all members, by member id. Raises ProtocolError for malformed metadata."""
        join_result = JoinResult(
            protocol=GroupProtocol(protocol),
            leader=leader,
            members={member: decode_metadata(data) for member, data in members.items()},
            generation=generation,
            last_completed_generation=last_completed_generation,
        )
        self._await_config(latest_offset(join_result.members))
        plan = plan_group(
            join_result,
            self._published.latest.config,
            self._assignor,
            now_ms=int(self._clock.now() * 1000),
            max_delay_ms=round(self.settings.max_delay_s * 1000),
            previous=self._latest_plan[1] if self._latest_plan is not None else None,
        )
        self._assignor, self._latest_plan = plan.state, (generation, plan)
        log_plan(plan, generation)
        return {member: encode_assignment(assignment) for member, assignment in plan.assignments.items()}

    def on_joined(self, *, protocol: str, generation: int, member_id: str, assignment: bytes) -> None:
        """Pass the assignment to the actor, with its plan if this worker is the leader."""
        decoded_assignment = decode_assignment(assignment)
        latest_plan = self._latest_plan
        plan = latest_plan[1] if latest_plan is not None and latest_plan[0] == generation else None
        self.address.tell(
            GroupJoined(
                protocol=GroupProtocol(protocol),
                generation=generation,
                member_id=member_id,
                assignment=decoded_assignment,
                plan=plan if decoded_assignment.leader == member_id else None,
            )
        )

    def on_lost(self, reason: str) -> None:
        """Pass the loss of the coordinator to the actor."""
        self.address.tell(CoordinatorLost(reason))

    def _await_config(self, offset: int) -> None:
        """Wait briefly until this worker's reader reaches the offset that another worker has read."""
        deadline = self._clock.now() + self._config_wait_timeout_s
        never_set = threading.Event()
        while self._published.latest.config.offset < offset and self._clock.now() < deadline:
            never_set.wait(CONFIG_POLL_INTERVAL_S)

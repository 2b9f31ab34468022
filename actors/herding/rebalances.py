"""Rebalances of the group: stop instances before a rejoin, and start the instances of an assignment.

Part of the herder; runs on its thread only. Three rules keep an instance from running twice:

1. Tasks whose configs were replaced stop before a rebalance is requested, because the new tasks divide the work
   differently.
2. Revoked instances have stopped, and their statuses are written, before the revocation is confirmed to the group.
3. The work of an assignment starts only with the config that the leader based the assignment on; membership delivers
   no other assignment.

Source: DistributedHerder.tick, processTaskConfigUpdatesWithIncrementalCooperative (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kraal.cluster.state.wanted_work import Assignment
from kraal.cluster.views.rebalances import describe_rebalance, with_latest
from kraal.core.errors import NotLeader, NotOwner, RetryableConflict
from kraal.core.printable import join_first

if TYPE_CHECKING:
    from collections.abc import Collection

    from actors.herding.state import HerderState
    from actors.membership.api import Membership
    from actors.messages.herder import AssignmentReceived, WorkRevoked
    from kraal.cluster.assignment.leader import GroupPlan
    from kraal.cluster.views.rebalances import Rebalance
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.core.ids import ConnectorName, Instance

log = logging.getLogger(__name__)

_MAX_INSTANCES = 20
"""Maximum number of connectors and tasks that a log line names."""

STALE_CONFIG = (
    "Cannot complete request momentarily due to stale configuration "
    "(typically caused by a concurrent config change)"
)


class Rebalances:
    """Carries out the group's assignments, and requests rebalances from the group."""

    def __init__(self, state: HerderState, membership: Membership) -> None:
        self._state = state
        self._membership = membership
        self._plan: GroupPlan | None = None
        """Owners of all work; set on the leader only."""
        self._is_rebalance_due = False
        """Whether a rebalance will be requested once some instances have stopped."""
        self._revocations: list[int] = []
        """Numbers of the revocations to confirm when all their instances have stopped."""
        self._is_rebalance_requested = True
        """Whether a rebalance was requested or is in progress."""
        self._loss_reason = ""
        """Reason for the loss of membership; empty after the next assignment."""

    @property
    def is_rebalancing(self) -> bool:
        """Whether a rebalance was requested or is in progress, so that restarts wait for the next assignment."""
        return self._is_rebalance_requested

    @property
    def may_run_removed_tasks(self) -> bool:
        """Whether removed tasks may still run: a rebalance is due or in progress, or members still stop revoked work.

        Only the leader detects revoked work that still runs. Java's leader does not wait for it to stop.
        """
        return self._is_assignment_changing or (self._plan is not None and self._plan.revokes)

    @property
    def _is_assignment_changing(self) -> bool:
        return self._is_rebalance_due or self._is_rebalance_requested

    def is_reassigning(self, name: ConnectorName) -> bool:
        """Return whether a connector's work is about to be reassigned; False while the group is unreachable."""
        has_leader = self._state.snapshot.leader_url is not None
        return has_leader and (self._is_assignment_changing or self._state.work.is_suspended(name))

    def begin(self) -> None:
        """Request this worker's assignment once the herder is live."""
        self._membership.begin()

    def on_configs_changed(self, names: Collection[ConnectorName]) -> None:
        """Stop the tasks of connectors that were added, removed or reconfigured, then request a rebalance."""
        for name in names:
            entry = self._state.snapshot.config.connectors.get(name)
            if entry is not None:
                self._state.work.suspend(entry)
            self._state.work.apply([name])
        self._is_rebalance_due = True
        log.debug(
            "Requesting a rebalance once removed tasks have stopped; changed connectors: %s",
            join_first(sorted(names), _MAX_INSTANCES),
        )
        self.confirm_stopped()

    def on_revoked(self, message: WorkRevoked) -> None:
        """Stop revoked work, and confirm the revocation once the work has stopped."""
        self._is_rebalance_requested = True
        self._revocations.append(message.number)
        before = self._state.work.assignment
        log.info("Stopping revoked connectors and tasks: %s", _format_difference(before, message.keep))
        self._state.history.record_revocation(self._state.work.assignment, message.keep)
        self._state.work.apply(self._state.work.assign(message.keep))
        self.confirm_stopped()

    def on_assigned(self, message: AssignmentReceived, *, is_first: bool) -> None:
        """Start assigned work.

        `is_first`: whether this is the herder's first assignment; if so, all instances are compared, not only those
        whose assignment changed.
        """
        state = self._state
        self._loss_reason = ""
        state.history.record_rebalance(message)
        self._log_assignment(message)
        names = state.work.assign(message.assignment) | state.work.resume(message.config_offset)
        self._plan = message.plan
        self._is_rebalance_requested = self._is_rebalance_due
        state.update(
            generation=message.generation,
            leader_url=message.leader_url,
            is_leader=message.is_leader,
            protocol=message.protocol,
            plan=message.plan,
            rebalances=self._latest_rebalances(message),
        )
        state.ledger.on_assigned(state.snapshot)
        if is_first:
            names = state.work.announced_connectors() | set(state.snapshot.config.connectors)
        state.work.apply(names)

    def _log_assignment(self, message: AssignmentReceived) -> None:
        before, after = self._state.work.assignment, message.assignment
        if before == after:
            log.debug("Assignment of generation %d repeats the current one", message.generation)
            return
        log.info(
            "Starting connectors and tasks of generation %d using config offset %d: to start: %s; to stop: %s",
            message.generation,
            message.config_offset,
            _format_difference(after, before),
            _format_difference(before, after),
        )

    def _latest_rebalances(self, message: AssignmentReceived) -> tuple[Rebalance, ...]:
        """Return the latest rebalances; unchanged in standalone mode or for a repeated assignment."""
        snapshot = self._state.snapshot
        if self._state.settings.standalone or _is_repeated(message, snapshot):
            return snapshot.rebalances
        latest = describe_rebalance(
            message.plan,
            generation=message.generation,
            leader_url=message.leader_url,
            now_ms=self._state.clock.wall_ms(),
        )
        return with_latest(snapshot.rebalances, latest)

    def on_group_lost(self, reason: str) -> None:
        """Handle the loss of membership or a failed join. A repeated reason is not logged."""
        if reason != self._loss_reason:
            log.warning("Lost membership of the group: %s", reason)
            self._state.history.record_group_loss(reason)
        self._loss_reason = reason
        self._is_rebalance_requested = True
        self._plan = None
        self._state.update(leader_url=None, is_leader=False, plan=None)

    def on_config_read(self) -> None:
        """Notify membership that more of the config log has been read; an assignment may wait for an offset."""
        self._membership.on_config_read(self._state.snapshot.config.offset)

    def on_tick(self, number: int) -> None:
        """Confirm to membership that the herder is alive."""
        self._membership.on_alive(number)

    def confirm_stopped(self) -> None:
        """Confirm revocations and request a due rebalance.

        Has no effect before all revoked and removed instances have stopped and all statuses are written.
        """
        state = self._state
        if (
            not (self._is_rebalance_due or self._revocations)
            or state.work.is_stopping
            or state.writes.has_pending_statuses
        ):
            return
        revocations, self._revocations = self._revocations, []
        for number in revocations:
            self._membership.on_stopped(number)
        if self._is_rebalance_due:
            self._is_rebalance_due, self._is_rebalance_requested = False, True
            self._membership.on_work_changed()

    # -- permissions ---------------------------------------------------------------------------------------

    def check_leader(self) -> None:
        """Raise NotLeader unless this worker is the leader."""
        if not self._state.snapshot.is_leader:
            raise NotLeader(self._state.snapshot.leader_url)

    def check_offsets_may_change(self) -> None:
        """Raise RetryableConflict while a config change waits for its rebalance."""
        if self._is_rebalance_due:
            raise RetryableConflict(STALE_CONFIG)

    def check_owner(self, instance: Instance) -> None:
        """Raise NotOwner, or NotLeader on a follower, unless `instance` is assigned to this worker."""
        if self._state.work.assignment.owns(instance):
            return
        self.check_leader()
        raise NotOwner(
            None if self._plan is None or self._is_rebalance_requested else self._plan.owner_url(instance)
        )

    def release_all(self) -> None:
        """Release all work at shutdown."""
        self._state.history.record_closing(self._state.work.announced_instances)
        self._state.work.release()


def _format_difference(before: Assignment, after: Assignment) -> str:
    """Format the instances that are in `before` only."""
    instances = [*(before.connectors - after.connectors), *(before.tasks - after.tasks)]
    return join_first(sorted(map(str, instances)), _MAX_INSTANCES) or "none"


def _is_repeated(message: AssignmentReceived, snapshot: Snapshot) -> bool:
    """Return whether an assignment repeats the latest one, as requested by a restarted herder."""
    if not snapshot.rebalances:
        return False
    latest = snapshot.rebalances[0]
    is_same_rebalance = (latest.generation, latest.leader_url) == (message.generation, message.leader_url)
    return is_same_rebalance and snapshot.plan is message.plan

"""Work that comes and goes with the group: what stops before a rejoin, and what an assignment starts.

Part of the herder; its thread only. Three rules keep an instance from running twice. Tasks whose configs were
replaced stop before a rebalance is asked for, for the new ones divide the work otherwise. What is revoked has
stopped, and its statuses are written, before the group is told so. What is assigned starts only by the very
config that the leader assigned by: membership hands over no other assignment.
Source: DistributedHerder.tick, processTaskConfigUpdatesWithIncrementalCooperative (Kafka 4.3.0); contract 4.4, 4.5.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kraal.cluster.work import Assignment
from kraal.errors import Momentary, NotLeader, NotOwner
from kraal.ids import connector_of

if TYPE_CHECKING:
    from actors.alone import Membership
    from actors.herd import Herd
    from actors.messages.herder import AssignmentReceived, WorkRevoked
    from kraal.cluster.assign import GroupPlan
    from kraal.ids import ConnectorName, Instance

log = logging.getLogger(__name__)

STALE = (
    "Cannot complete request momentarily due to stale configuration "
    "(typically caused by a concurrent config change)"
)


class Rebalances:
    """What the group wants of this worker, and this worker of the group."""

    def __init__(self, herd: Herd, membership: Membership) -> None:
        self._herd = herd
        self._membership = membership
        self._plan: GroupPlan | None = None
        """Who owns what, as the leader knows it."""
        self._to_ask = False
        """The config needs a rebalance, and something has to stop before it is asked for."""
        self._revocations: list[int] = []
        """Revocations that are to be confirmed when everything has stopped."""
        self._asked = True
        """A rebalance is wanted or under way: assignments are about to change."""

    @property
    def under_way(self) -> bool:
        """Whether restarts have to wait, for the assignment that is to come."""
        return self._asked

    @property
    def unsettled(self) -> bool:
        """Whether tasks may still run that the config does not have any more: a rebalance is due, or under way."""
        return self._to_ask or self._asked

    def begin(self) -> None:
        """The herder is live: have the group say what is ours."""
        self._membership.begin()

    def changed(self, names: Iterable[ConnectorName]) -> None:
        """These connectors came or went, or have other task configs: stop their tasks, then ask for a rebalance."""
        for name in names:
            entry = self._herd.snapshot.config.connectors.get(name)
            if entry is not None:
                self._herd.suspended[name] = entry.tasks_version
            self._herd.apply_wanted([name])
        self._to_ask = True
        self.go_on()

    def revoked(self, message: WorkRevoked) -> None:
        """Stop what is not ours any more; said to the group when it has stopped."""
        self._asked = True
        self._revocations.append(message.number)
        self._herd.apply_wanted(self._herd.assign(message.keep))
        self.go_on()

    def assigned(self, message: AssignmentReceived, *, everything: bool) -> None:
        """Start what is ours; `everything`: it is the first time, compare all that there is."""
        herd = self._herd
        names = herd.assign(message.assignment)
        done = [n for n, version in herd.suspended.items() if version < message.config_offset]
        for name in done:
            del herd.suspended[name]
        names |= set(done)
        self._plan = message.plan
        self._asked = self._to_ask
        herd.update(
            generation=message.generation,
            leader_url=message.leader_url,
            is_leader=message.is_leader,
            protocol=message.protocol,
            plan=message.plan,
            planned_ms=herd.clock.wall_ms(),
        )
        if everything:
            names = herd.told_names() | set(herd.snapshot.config.connectors)
        herd.apply_wanted(names)

    def lost(self, reason: str) -> None:
        """The group is out of reach: nobody is known to lead it."""
        log.warning("this worker has lost its group: %s", reason)
        self._asked = True
        self._plan = None
        self._herd.update(leader_url=None, is_leader=False, plan=None)

    def config_read(self) -> None:
        """More of the config was read: membership may wait for it."""
        self._membership.config_read(self._herd.snapshot.config.offset)

    def alive(self, number: int) -> None:
        """Tell the group that the herder still works."""
        self._membership.alive(number)

    def go_on(self) -> None:
        """Something has stopped, or a status was written: perhaps it was the last."""
        herd = self._herd
        if not (self._to_ask or self._revocations) or herd.leaving() or herd.statuses_owed:
            return
        revocations, self._revocations = self._revocations, []
        for number in revocations:
            self._membership.stopped(number)
        if self._to_ask:
            self._to_ask, self._asked = False, True
            self._membership.work_changed()

    # -- who may do what -----------------------------------------------------------------------------------

    def lead(self) -> None:
        """Raise NotLeader unless this worker leads the group."""
        if not self._herd.snapshot.is_leader:
            raise NotLeader(self._herd.snapshot.leader_url)

    def fresh(self) -> None:
        """Raise Momentary while a config change waits for its rebalance (contract F3)."""
        if self._to_ask:
            raise Momentary(STALE)

    def owner(self, instance: Instance) -> None:
        """Raise NotOwner, or NotLeader for the one who knows, unless `instance` is assigned to this worker."""
        if self._herd.assignment.owns(instance):
            return
        self.lead()
        raise NotOwner(None if self._plan is None or self._asked else self._plan.owner_url(instance))

    def give_up_all(self) -> None:
        """Own nothing any more: the worker shuts down."""
        self._herd.assignment = Assignment()
        self._herd.apply_wanted({connector_of(i) for i in self._herd.told})

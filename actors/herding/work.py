"""Work of this worker: its assignment, and the instances that were assigned to the worker actor.

Part of the herder; runs on its thread only. Other parts change this state only through the methods here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.worker import Assign
from kraal.cluster.state.wanted_work import (
    AdoptedInstance,
    Assignment,
    WantedInstance,
    derive_wanted,
    diff_wanted,
)
from kraal.core.ids import TaskId, get_connector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from actors.messages.herder import InstanceChanged
    from actors.runtime.mailbox import Address
    from kraal.cluster.state.cluster_state import ConnectorEntry
    from kraal.cluster.state.wanted_work import Incarnation
    from kraal.core.ids import ConnectorName, Instance


class Work:
    """The assignment of this worker, and the instances that the worker actor must run."""

    def __init__(
        self,
        *,
        worker: Address,
        connectors: Callable[[], Mapping[ConnectorName, ConnectorEntry]],
        is_live: Callable[[], bool],
        restart_counts: dict[Instance, int],
    ) -> None:
        """Create work without an assignment.

        Args:
            worker: the worker actor.
            connectors: returns the connectors as read from the config log.
            is_live: returns whether messages may be sent to the worker actor; see `HerderState.live`.
            restart_counts: number of restarts of each instance, for any reason; outlives the herder.
        """
        self._worker = worker
        self._connectors = connectors
        self._is_live = is_live
        self._restart_counts = restart_counts
        self._assignment = Assignment()
        self._announced_instances: set[Instance] = set()
        """Instances that were assigned to the worker actor, which has not reported them as stopped."""
        self._leaving_instances: set[Instance] = set()
        """Announced instances that are no longer wanted."""
        self._suspended_versions: dict[ConnectorName, int] = {}
        """Connectors whose tasks stay stopped until an assignment covers this version of their task configs."""
        self._wanted: dict[ConnectorName, dict[Instance, WantedInstance | AdoptedInstance]] = {}

    @property
    def assignment(self) -> Assignment:
        """The current assignment."""
        return self._assignment

    @property
    def announced_instances(self) -> frozenset[Instance]:
        """Instances that were assigned to the worker actor, which has not reported them as stopped."""
        return frozenset(self._announced_instances)

    @property
    def is_stopping(self) -> bool:
        """Whether an instance that is no longer wanted still runs."""
        return bool(self._leaving_instances)

    def wanted_instances(self, name: ConnectorName) -> Mapping[Instance, WantedInstance | AdoptedInstance]:
        """Return the instances of a connector that this or an earlier herder assigned to the worker actor."""
        return self._wanted.get(name, {})

    def assign(self, assignment: Assignment) -> set[ConnectorName]:
        """Set a new assignment; return the connectors with added or removed instances."""
        before, self._assignment = self._assignment, assignment
        tasks = before.tasks ^ assignment.tasks
        return {t.connector for t in tasks} | (before.connectors ^ assignment.connectors)

    def apply(
        self,
        names: Iterable[ConnectorName],
        *,
        restarted: Iterable[Instance] = (),
        restart_group: frozenset[Instance] = frozenset(),
    ) -> None:
        """Send the worker the instances of these connectors that it must run.

        `restarted`: instances to start in a new incarnation. `restart_group`: instances that start only after all of
        them have stopped.
        """
        for instance in restarted:
            self._restart_counts[instance] = self._restart_counts.get(instance, 0) + 1
        if not self._is_live():
            return
        connectors = self._connectors()
        delta: dict[Instance, WantedInstance | None] = {}
        for name in sorted(names):  # the order of a set of names differs in each process
            entry = connectors.get(name)
            wanted_instances = (
                {} if entry is None else derive_wanted(entry, self._assignment, self._restart_counts)
            )
            if name in self._suspended_versions:
                wanted_instances = {i: w for i, w in wanted_instances.items() if not isinstance(i, TaskId)}
            delta.update(diff_wanted(self._wanted.get(name, {}), wanted_instances))
            if wanted_instances:
                self._wanted[name] = {**wanted_instances}
            else:
                self._wanted.pop(name, None)
        if delta:
            self._announced_instances.update(delta)
            for instance, wanted in delta.items():
                (self._leaving_instances.add if wanted is None else self._leaving_instances.discard)(instance)
            self._worker.tell(Assign(delta, restart_group))

    def release(self) -> None:
        """Stop all instances."""
        self._assignment = Assignment()
        self.apply(self.announced_connectors())

    def adopt(self, running: Mapping[Instance, Incarnation], wanted: Mapping[Instance, Incarnation]) -> None:
        """Adopt running instances as the assignment, with which the group's next assignment is compared.

        `wanted`: the incarnations that the worker starts after stopping the current ones.
        """
        self._assignment = Assignment(
            connectors=frozenset(i for i in running if not isinstance(i, TaskId)),
            tasks=frozenset(i for i in running if isinstance(i, TaskId)),
        )
        for instance, incarnation in running.items():
            adopted_instance = AdoptedInstance(incarnation, wanted.get(instance))
            self._wanted.setdefault(get_connector(instance), {})[instance] = adopted_instance
            self._announced_instances.add(instance)

    def resend(self, running: Mapping[Instance, InstanceChanged]) -> None:
        """Resend all wanted instances, because the worker may have died with a message in its mailbox.

        Adopted instances are not sent before they have been compared with an assignment.
        """
        current = {i: w for instances in self._wanted.values() for i, w in instances.items()}
        delta: dict[Instance, WantedInstance | None] = {
            i: None for i in running if i in self._announced_instances and i not in current
        }
        delta.update((i, w) for i, w in current.items() if isinstance(w, WantedInstance))
        self._worker.tell(Assign(delta))

    def announced_connectors(self) -> set[ConnectorName]:
        """Return the connectors with instances that the worker may still run."""
        return {get_connector(i) for i in self._announced_instances}

    def on_instance_stopped(self, instance: Instance) -> None:
        """Handle the stop of an instance; remove it unless it is wanted again."""
        name = get_connector(instance)
        instances = self._wanted.get(name, {})
        stopped_instance = instances.get(instance)
        if isinstance(stopped_instance, AdoptedInstance):
            if stopped_instance.next_incarnation is None:
                del instances[instance]
            else:  # the worker starts the incarnation that an earlier herder requested
                instances[instance] = AdoptedInstance(
                    stopped_instance.next_incarnation, stopped_instance.next_incarnation
                )
        if instance not in self.wanted_instances(name):
            self._announced_instances.discard(instance)
            self._leaving_instances.discard(instance)

    # -- tasks stopping before a rebalance -----------------------------------------------------------------

    def suspend(self, entry: ConnectorEntry) -> None:
        """Stop a connector's tasks until an assignment is based on its current task configs; see `apply`."""
        self._suspended_versions[entry.name] = entry.tasks_version

    def is_suspended(self, name: ConnectorName) -> bool:
        """Return whether a connector's tasks are suspended."""
        return name in self._suspended_versions

    def resume(self, config_offset: int) -> set[ConnectorName]:
        """End the suspensions that an assignment based on this config offset covers; return their connectors."""
        names = {n for n, version in self._suspended_versions.items() if version < config_offset}
        for name in names:
            del self._suspended_versions[name]
        return names

    # -- restarts ------------------------------------------------------------------------------------------

    def restore_restarts(self, instance: Instance, count: int) -> None:
        """Raise the restart count of a running instance to at least `count`."""
        self._restart_counts[instance] = max(count, self._restart_counts.get(instance, 0))

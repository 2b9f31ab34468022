"""Work of this worker: its assignment, and the instances that were assigned to the worker actor.

Part of the herder; runs on its thread only. The other parts change these fields through the verbs here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.worker import Assign
from kraal.cluster.state.wanted_work import Adopted, Assignment, Wanted, changes, derive_wanted
from kraal.core.ids import TaskId, get_connector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from actors.messages.herder import InstanceChanged
    from actors.runtime.mailbox import Address
    from kraal.cluster.state.cluster_state import ConnectorEntry
    from kraal.cluster.state.wanted_work import Incarnation
    from kraal.core.ids import ConnectorName, Instance


class Work:
    """The assignment of this worker, and what follows from it for the worker actor."""

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
            connectors: returns the config that was read.
            is_live: whether messages may be sent to the worker actor; see `HerderState.live`.
            restart_counts: number of restarts of each instance, for whatever reason; outlives the herder.
        """
        self._worker = worker
        self._connectors = connectors
        self._is_live = is_live
        self._restart_counts = restart_counts
        self._assignment = Assignment()
        self._announced: set[Instance] = set()
        """Instances that were assigned to the worker actor, which has not reported them as stopped."""
        self._leaving: set[Instance] = set()
        """Those of them that are no longer wanted."""
        self._suspended: dict[ConnectorName, int] = {}
        """Connectors whose tasks stop until an assignment is based on these task configs or newer ones."""
        self._wanted: dict[ConnectorName, dict[Instance, Wanted | Adopted]] = {}

    @property
    def assignment(self) -> Assignment:
        """The current assignment."""
        return self._assignment

    @property
    def announced(self) -> frozenset[Instance]:
        """Instances that were assigned to the worker actor, which has not reported them as stopped."""
        return frozenset(self._announced)

    @property
    def is_stopping(self) -> bool:
        """Whether an instance that is no longer wanted still runs."""
        return bool(self._leaving)

    def wanted_instances(self, name: ConnectorName) -> Mapping[Instance, Wanted | Adopted]:
        """Return the instances of a connector that this herder, or an earlier one, assigned to the worker actor."""
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
        together: frozenset[Instance] = frozenset(),
    ) -> None:
        """Tell the worker which instances of these connectors to run from now on.

        `restarted`: a new incarnation of these starts. `together`: none of these starts before all have stopped.
        """
        for instance in restarted:
            self._restart_counts[instance] = self._restart_counts.get(instance, 0) + 1
        if not self._is_live():
            return
        connectors = self._connectors()
        delta: dict[Instance, Wanted | None] = {}
        for name in sorted(names):  # the order of a set of names differs in each process
            entry = connectors.get(name)
            after = {} if entry is None else derive_wanted(entry, self._assignment, self._restart_counts)
            if name in self._suspended:
                after = {i: w for i, w in after.items() if not isinstance(i, TaskId)}
            delta.update(changes(self._wanted.get(name, {}), after))
            if after:
                self._wanted[name] = {**after}
            else:
                self._wanted.pop(name, None)
        if delta:
            self._announced.update(delta)
            for instance, wanted in delta.items():
                (self._leaving.add if wanted is None else self._leaving.discard)(instance)
            self._worker.tell(Assign(delta, together))

    def release(self) -> None:
        """Have the worker stop everything."""
        self._assignment = Assignment()
        self.apply(self.announced_connectors())

    def adopt(self, running: Mapping[Instance, Incarnation], wanted: Mapping[Instance, Incarnation]) -> None:
        """Adopt running instances as the assignment until the real one arrives, so that they are compared with it.

        `wanted`: the incarnations that the worker starts when instances that are stopping have stopped.
        """
        self._assignment = Assignment(
            connectors=frozenset(i for i in running if not isinstance(i, TaskId)),
            tasks=frozenset(i for i in running if isinstance(i, TaskId)),
        )
        for instance, incarnation in running.items():
            adopted = Adopted(incarnation, wanted.get(instance))
            self._wanted.setdefault(get_connector(instance), {})[instance] = adopted
            self._announced.add(instance)

    def resend(self, running: Mapping[Instance, InstanceChanged]) -> None:
        """Repeat all wanted instances: the worker may have died with a message in its mailbox.

        Adopted instances stay as they are until they are compared with an assignment.
        """
        current = {i: w for instances in self._wanted.values() for i, w in instances.items()}
        delta: dict[Instance, Wanted | None] = {
            i: None for i in running if i in self._announced and i not in current
        }
        delta.update((i, w) for i, w in current.items() if isinstance(w, Wanted))
        self._worker.tell(Assign(delta))

    def announced_connectors(self) -> set[ConnectorName]:
        """Return the connectors that the worker may still run instances of."""
        return {get_connector(i) for i in self._announced}

    def on_instance_stopped(self, instance: Instance) -> None:
        """Note that the worker has stopped an instance, and forget it unless it is wanted again."""
        name = get_connector(instance)
        instances = self._wanted.get(name, {})
        adopted = instances.get(instance)
        if isinstance(adopted, Adopted):
            if adopted.next is None:
                del instances[instance]
            else:  # an earlier herder restarted it: the worker starts it now
                instances[instance] = Adopted(adopted.next, adopted.next)
        if instance not in self.wanted_instances(name):
            self._announced.discard(instance)
            self._leaving.discard(instance)

    # -- tasks that stop before a rebalance ----------------------------------------------------------------

    def suspend(self, entry: ConnectorEntry) -> None:
        """Have a connector's tasks stop until an assignment is based on its task configs; see `apply`."""
        self._suspended[entry.name] = entry.tasks_version

    def is_suspended(self, name: ConnectorName) -> bool:
        """Whether the tasks of a connector are suspended."""
        return name in self._suspended

    def resume(self, config_offset: int) -> set[ConnectorName]:
        """End suspensions for an assignment that is based on this config offset; return their connectors."""
        names = {n for n, version in self._suspended.items() if version < config_offset}
        for name in names:
            del self._suspended[name]
        return names

    # -- restarts ------------------------------------------------------------------------------------------

    def restore_restarts(self, instance: Instance, count: int) -> None:
        """Set the number of restarts of a running instance, unless more were counted."""
        self._restart_counts[instance] = max(count, self._restart_counts.get(instance, 0))

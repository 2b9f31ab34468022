"""Wanted work of a worker: assignments, incarnations, and the instances derived from them. Pure.

The herder compares the wanted instances with the instances last sent to the worker, and sends the difference. An
instance is restarted only when its incarnation changes: its config (a connector), its committed task configs (a task),
or its restart count. A changed target state alone is sent to the running instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.core.ids import Config, ConnectorName, Instance, TargetState, TaskId, get_connector


@dataclass(frozen=True, slots=True, order=True)
class Incarnation:
    """One incarnation of an instance; later incarnations compare greater."""

    version: int
    """Log offset of the config record of a connector, or of the commit record of a task."""
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Work that one worker owns."""

    connectors: frozenset[ConnectorName] = frozenset()
    tasks: frozenset[TaskId] = frozenset()

    def owns(self, instance: Instance) -> bool:
        """Return whether this worker owns `instance`."""
        return instance in self.tasks if isinstance(instance, TaskId) else instance in self.connectors


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedInstance:
    """Wanted state of one instance. `task_config` is None for a connector instance."""

    incarnation: Incarnation
    target: TargetState
    connector_config: Config
    task_config: Config | None = None


@dataclass(frozen=True, slots=True)
class AdoptedInstance:
    """A running instance that an earlier herder assigned; its target state is stored only by the worker."""

    incarnation: Incarnation
    next_incarnation: Incarnation | None = None
    """Incarnation that the worker starts when this one has stopped, if any."""


@dataclass(frozen=True, slots=True)
class AllWork:
    """All work in a cluster state, as the assignment of a standalone worker."""

    state: ClusterState = field(default_factory=ClusterState)
    assignment: Assignment = field(default_factory=Assignment)


def assign_all_work(state: ClusterState, before: AllWork) -> AllWork:
    """Assign all work to a standalone worker.

    `before` is the result for an earlier state; only connectors that changed since are processed.
    """
    connectors = before.state.connectors
    changed_names = [name for name, entry in state.connectors.items() if connectors.get(name) is not entry]
    removed_names = connectors.keys() - state.connectors.keys()
    old_tasks = [
        task
        for names in (removed_names, changed_names)
        for name in names
        for task in before.state.task_ids(name)
    ]
    new_tasks = [task for name in changed_names for task in state.task_ids(name)]
    assignment = Assignment(
        connectors=frozenset(state.connectors),
        tasks=before.assignment.tasks.difference(old_tasks).union(new_tasks),
    )
    return AllWork(state, assignment)


def derive_wanted(
    entry: ConnectorEntry, assignment: Assignment, restarts: Mapping[Instance, int]
) -> dict[Instance, WantedInstance]:
    """Return the wanted instances of one connector. A STOPPED connector has a connector instance, but no tasks."""
    wanted_instances: dict[Instance, WantedInstance] = {}
    if entry.name in assignment.connectors:
        wanted_instances[entry.name] = WantedInstance(
            incarnation=Incarnation(entry.version, restarts.get(entry.name, 0)),
            target=entry.target,
            connector_config=entry.config,
        )
    if entry.target is TargetState.STOPPED:
        return wanted_instances
    for number, config in enumerate(entry.tasks):
        task = TaskId(entry.name, number)
        if task in assignment.tasks:
            wanted_instances[task] = WantedInstance(
                incarnation=Incarnation(entry.tasks_version, restarts.get(task, 0)),
                target=entry.target,
                connector_config=entry.config,
                task_config=config,
            )
    return wanted_instances


def diff_wanted(
    before: Mapping[Instance, WantedInstance | AdoptedInstance], after: Mapping[Instance, WantedInstance]
) -> dict[Instance, WantedInstance | None]:
    """Return the wanted state of each new or changed instance, and None for each that is no longer wanted.

    Instances are compared by target state and incarnation, so a changed connector config does not change its tasks
    until new task configs are committed. An adopted instance always counts as changed.
    """
    changes: dict[Instance, WantedInstance | None] = {i: None for i in before if i not in after}
    for instance, wanted in after.items():
        previous_instance = before.get(instance)
        has_same_target = (
            isinstance(previous_instance, WantedInstance) and previous_instance.target is wanted.target
        )
        if (
            previous_instance is None
            or not has_same_target
            or previous_instance.incarnation != wanted.incarnation
        ):
            changes[instance] = wanted
    return changes


def adopted_restarts(running: Mapping[Instance, Incarnation], state: ClusterState) -> dict[Instance, int]:
    """Return the restart counts of instances whose config has not changed, so that they need not be restarted."""
    return {i: inc.restarts for i, inc in running.items() if _config_version(i, state) == inc.version}


def _config_version(instance: Instance, state: ClusterState) -> int | None:
    entry = state.connectors.get(get_connector(instance))
    if entry is None:
        return None
    return entry.tasks_version if isinstance(instance, TaskId) else entry.version

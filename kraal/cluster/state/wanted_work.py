"""Wanted work of a worker: assignments, incarnations, and the instances that follow from them. Pure.

The herder compares wanted instances with those it sent to the worker before, and sends the difference. An instance is
restarted exactly when its incarnation changes: its config (a connector), its committed task configs (a task), or its
restart count. A changed target state alone is sent to the running instance.
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
    """Log offset of the record that the instance runs from: its config, or its tasks' commit."""
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Work that one worker owns."""

    connectors: frozenset[ConnectorName] = frozenset()
    tasks: frozenset[TaskId] = frozenset()

    def owns(self, instance: Instance) -> bool:
        """Whether this worker owns `instance`."""
        return instance in self.tasks if isinstance(instance, TaskId) else instance in self.connectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Wanted state of one instance. `task_config` is None for a connector instance."""

    incarnation: Incarnation
    target: TargetState
    connector_config: Config
    task_config: Config | None = None


@dataclass(frozen=True, slots=True)
class Adopted:
    """A running instance that an earlier herder assigned; only the worker has its target state."""

    incarnation: Incarnation
    next: Incarnation | None = None
    """Incarnation that the worker starts when this one has stopped; None: it starts none."""


@dataclass(frozen=True, slots=True)
class Everything:
    """All work of a cluster state, for the one worker of a standalone group."""

    state: ClusterState = field(default_factory=ClusterState)
    assignment: Assignment = field(default_factory=Assignment)


def everything(state: ClusterState, before: Everything) -> Everything:
    """Assign all work to the one worker of a standalone group.

    `before` is the result for an earlier state: only connectors that have changed since are processed.
    """
    connectors = before.state.connectors
    changed = [name for name, entry in state.connectors.items() if connectors.get(name) is not entry]
    removed = connectors.keys() - state.connectors.keys()
    old = [task for names in (removed, changed) for name in names for task in before.state.task_ids(name)]
    new = [task for name in changed for task in state.task_ids(name)]
    assignment = Assignment(
        connectors=frozenset(state.connectors),
        tasks=before.assignment.tasks.difference(old).union(new),
    )
    return Everything(state, assignment)


def derive_wanted(
    entry: ConnectorEntry, assignment: Assignment, restarts: Mapping[Instance, int]
) -> dict[Instance, Wanted]:
    """Return the wanted instances of one connector. A STOPPED connector has an instance, but no tasks."""
    wanted: dict[Instance, Wanted] = {}
    if entry.name in assignment.connectors:
        wanted[entry.name] = Wanted(
            incarnation=Incarnation(entry.version, restarts.get(entry.name, 0)),
            target=entry.target,
            connector_config=entry.config,
        )
    if entry.target is TargetState.STOPPED:
        return wanted
    for number, config in enumerate(entry.tasks):
        task = TaskId(entry.name, number)
        if task in assignment.tasks:
            wanted[task] = Wanted(
                incarnation=Incarnation(entry.tasks_version, restarts.get(task, 0)),
                target=entry.target,
                connector_config=entry.config,
                task_config=config,
            )
    return wanted


def changes(
    before: Mapping[Instance, Wanted | Adopted], after: Mapping[Instance, Wanted]
) -> dict[Instance, Wanted | None]:
    """Return the differences: None for instances no longer wanted. A changed config alone does not affect a task.

    An adopted instance always differs.
    """
    changed: dict[Instance, Wanted | None] = {i: None for i in before if i not in after}
    for instance, wanted in after.items():
        old = before.get(instance)
        same = isinstance(old, Wanted) and old.target is wanted.target
        if old is None or not same or old.incarnation != wanted.incarnation:
            changed[instance] = wanted
    return changed


def adopted_restarts(running: Mapping[Instance, Incarnation], state: ClusterState) -> dict[Instance, int]:
    """Return the restart counts that let a restarted herder adopt running instances unchanged."""
    return {i: inc.restarts for i, inc in running.items() if _config_version(i, state) == inc.version}


def _config_version(instance: Instance, state: ClusterState) -> int | None:
    entry = state.connectors.get(get_connector(instance))
    if entry is None:
        return None
    return entry.tasks_version if isinstance(instance, TaskId) else entry.version

"""Fencing plans: the older producers to fence before newer exactly-once tasks may write (KIP-618). Pure.

A task's transactional id contains its number, so a new task with the same number fences the old producer. If the
connector had more tasks before, their producers would remain unfenced. The leader therefore fences them once for each
new set of task configs, and records the number of tasks.
Source: DistributedHerder.doFenceZombieSourceTasks, ConfigBackingStore (Kafka 4.4.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraal.core.records import Entry
from kraal.protocol.records import TaskCountRecord, encode

if TYPE_CHECKING:
    from kraal.cluster.state.cluster_state import ClusterState
    from kraal.core.ids import ConnectorName

NEWER_CONFIGS = "Fencing failed because new task configurations were generated for the connector"


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingPlan:
    """One fencing round for the task configs committed at `tasks_version`."""

    name: ConnectorName
    tasks_version: int
    transactional_ids: tuple[str, ...] = ()
    """Producers to fence before the record is written."""
    record: Entry | None = None
    """Task-count record; None if this set of task configs has already been fenced."""


def plan_fencing(state: ClusterState, name: ConnectorName, group_id: str) -> FencingPlan:
    """Plan a fencing round for an existing connector.

    A connector that had one task and still has one needs no fencing, because both producers have the same id.
    """
    entry, fenced_count = state.connectors[name], state.fenced_counts.get(name)
    if not entry.pending_fencing:
        return FencingPlan(name=name, tasks_version=entry.tasks_version)
    record = Entry(*encode(TaskCountRecord(name, entry.task_count)))
    count = 0 if fenced_count is None or (fenced_count, entry.task_count) == (1, 1) else fenced_count
    return FencingPlan(
        name=name,
        tasks_version=entry.tasks_version,
        transactional_ids=_transactional_ids(group_id, name, count),
        record=record,
    )


def previous_producers(state: ClusterState, name: ConnectorName, group_id: str) -> tuple[str, ...]:
    """Return the transactional ids that tasks of a deleted connector of this name may still use.

    The task-count record outlives the connector. Without it, no connector of that name had exactly-once tasks.
    """
    return _transactional_ids(group_id, name, state.fenced_counts.get(name, 0))


def _transactional_ids(group_id: str, name: ConnectorName, count: int) -> tuple[str, ...]:
    return tuple(f"{group_id}-{name}-{number}" for number in range(count))


def is_outdated(plan: FencingPlan, state: ClusterState) -> bool:
    """Return whether the connector has newer task configs or was deleted."""
    entry = state.connectors.get(plan.name)
    return entry is None or entry.tasks_version != plan.tasks_version

"""Which producers of older tasks have to be fenced before newer tasks may write exactly once (KIP-618). Pure.

A task's producer has a transactional id of its own, so a new task of the same number fences the old one by itself.
But a connector that had more tasks before left producers that nobody would fence: the leader does it, once for each
new set of task configs, and writes down how many tasks it has seen to.
Source: DistributedHerder.doFenceZombieSourceTasks, ConfigBackingStore (Kafka 4.3.0); contract 6.7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraal.protocol.records import TaskCountRecord, encode
from kraal.records import Entry

if TYPE_CHECKING:
    from kraal.cluster.state import ClusterState
    from kraal.ids import ConnectorName

NEWER_CONFIGS = "Fencing failed because new task configurations were generated for the connector"


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingPlan:
    """One round, for the task configs that were committed at `tasks_version`."""

    name: ConnectorName
    tasks_version: int
    transactional_ids: tuple[str, ...] = ()
    """Whose producers are to be fenced, before the record is written."""
    record: Entry | None = None
    """None: this set of task configs was seen to already."""


def plan_fencing(state: ClusterState, name: ConnectorName, group_id: str) -> FencingPlan:
    """Say what is to be done for a connector that exists.

    Tasks that were one and stay one need no fencing: the new producer has the old one's id.
    """
    entry, fenced = state.connectors[name], state.fenced_counts.get(name)
    if not entry.pending_fencing:
        return FencingPlan(name=name, tasks_version=entry.tasks_version)
    record = Entry(*encode(TaskCountRecord(name, entry.task_count)))
    count = 0 if fenced is None or (fenced, entry.task_count) == (1, 1) else fenced
    return FencingPlan(
        name=name,
        tasks_version=entry.tasks_version,
        transactional_ids=tuple(f"{group_id}-{name}-{number}" for number in range(count)),
        record=record,
    )


def is_outdated(plan: FencingPlan, state: ClusterState) -> bool:
    """Say whether the connector has other task configs by now, or is gone."""
    entry = state.connectors.get(plan.name)
    return entry is None or entry.tasks_version != plan.tasks_version

"""Reasons why sink tasks have no partitions: no existing topic matches, or all partitions belong to other members.

Pure; the caller passes the names of the cluster's topics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kraal.config import java_regex
from kraal.core.errors import PatternTooSlow
from kraal.core.ids import Config, ConnectorName, State, TaskId
from kraal.core.printable import join_first

if TYPE_CHECKING:
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.metrics.registry import CurrentMetrics

_TOPICS: Final = "topics"
_PATTERN: Final = "topics.regex"
_OTHER_CLUSTER: Final = "consumer.override.bootstrap.servers"
_INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that patterns never match. Source: Topic.isInternal, ConsumerCoordinator.onUpdateSubscription."""
_VARIABLE: Final = "${"
_MAX_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class EmptySink:
    """The tasks of a sink connector on this worker, which all run without partitions."""

    name: ConnectorName
    config: Config
    tasks: tuple[TaskId, ...]
    is_complete: bool
    """Whether these are all tasks of the connector."""


def empty_sinks(snapshot: Snapshot, current: CurrentMetrics) -> list[EmptySink]:
    """Return the sinks whose tasks on this worker all run without partitions.

    If a task has a partition, the subscription matches a topic, and the other tasks are spare members of the group.
    """
    tasks: dict[ConnectorName, list[TaskId]] = {}
    for task, metrics in current.tasks.items():
        instance_state = current.instance_states.get(task)
        if not metrics.is_source and instance_state is not None and instance_state.state is State.RUNNING:
            tasks.setdefault(task.connector, []).append(task)
    sinks: list[EmptySink] = []
    for name, task_ids in sorted(tasks.items()):
        entry = snapshot.config.connectors.get(name)
        if entry is not None and not any(current.partitions.get(task) for task in task_ids):
            is_complete = len(task_ids) == len(entry.tasks)
            sinks.append(EmptySink(name, entry.config, tuple(sorted(task_ids)), is_complete))
    return sinks


def find_no_partitions_reasons(sinks: Iterable[EmptySink], topics: Collection[str]) -> Mapping[TaskId, str]:
    """Return the known reasons why tasks have no partitions. Other tasks may be spare members of their group."""
    reasons = ((sink, _reason(sink, topics)) for sink in sinks)
    return {task: reason for sink, reason in reasons if reason is not None for task in sink.tasks}


def _reason(sink: EmptySink, topics: Collection[str]) -> str | None:
    names, pattern = sink.config.get(_TOPICS) or "", sink.config.get(_PATTERN) or ""
    if sink.config.get(_OTHER_CLUSTER) or _VARIABLE in names or _VARIABLE in pattern:
        return None  # `topics` are those of the worker's cluster, and variables in the config are unresolved
    if pattern:
        has_match = _matches(pattern, topics)
        mismatch = f"topics.regex '{pattern}' matches none of the cluster's {len(topics)} topics"
    else:
        topic_names = [name.strip() for name in names.split(",") if name.strip()]
        has_match = any(name in topics for name in topic_names)
        mismatch = f"None of its topics exists: {join_first(topic_names, _MAX_NAMES)}"
    if not has_match:
        return mismatch
    if sink.is_complete:
        return "No task has a partition, although the connector's topics exist; the consumers may not be in the group"
    return None


def _matches(pattern: str, topics: Iterable[str]) -> bool:
    try:
        regex = java_regex.compile_pattern(pattern)
        return any(regex.fullmatch(topic) for topic in topics if topic not in _INTERNAL_TOPICS)
    except (ValueError, PatternTooSlow):
        return True  # the task itself reports the error

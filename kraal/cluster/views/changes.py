"""Changes between two snapshots by kind and connector, from which clients derive the resources to reload. Pure.

Parts of a snapshot are immutable, so identical objects are equal. A part replaced by an equal object counts as changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from kraal.cluster.views.snapshot import Snapshot
from kraal.core.ids import ConnectorName, get_connector

MAX_NAMES: Final = 100
"""Maximum number of connectors that a change names."""
MAX_CHARACTERS: Final = 16_384
"""Maximum total length of the names in a change, in characters."""

V = TypeVar("V")

Names = frozenset[ConnectorName] | None
"""Connectors that a change affects; None if it may affect any connector."""
Changes = Mapping[str, Names]
"""Connectors by the kind of change."""


class Kind(StrEnum):
    """Kinds of changes between snapshots."""

    STATES = "states"
    CONFIGS = "configs"
    TOPICS = "topics"
    CLUSTER = "cluster"


_CLUSTER_FIELDS: Final = (
    "ready",
    "live",
    "worker_id",
    "leader_url",
    "is_leader",
    "protocol",
    "kafka_cluster_id",
    "generation",
)


def changes(before: Snapshot, after: Snapshot) -> Changes:
    """Return the differences between two snapshots of one worker."""
    names_by_kind: dict[str, Names] = {}
    if before is after:
        return names_by_kind
    configs = _changed_keys(before.config.connectors, after.config.connectors)
    states = _changed_keys(before.status.statuses, after.status.statuses)
    states |= {get_connector(instance) for instance in _changed_keys(before.watched, after.watched)}
    states |= {get_connector(instance) for instance in before.restarting ^ after.restarting}
    topics = _changed_keys(before.status.topics, after.status.topics)
    for kind, names in ((Kind.CONFIGS, configs), (Kind.STATES, states), (Kind.TOPICS, topics)):
        if names:
            add(names_by_kind, kind, frozenset(names))
    if before.plan is not after.plan or any(
        getattr(before, field_name) != getattr(after, field_name) for field_name in _CLUSTER_FIELDS
    ):
        names_by_kind[Kind.CLUSTER] = frozenset()
    return names_by_kind


def add(names_by_kind: dict[str, Names], kind: str, names: Names) -> None:
    """Add a change to `names_by_kind`. Names beyond the limits are replaced by None, which stands for any connector."""
    names_before = names_by_kind.get(kind, frozenset())
    if names_before is None or names is None:
        names_by_kind[kind] = None
    else:
        names_by_kind[kind] = _limit(names_before | names)


def _limit(names: frozenset[ConnectorName]) -> Names:
    exceeds_limit = len(names) > MAX_NAMES or sum(map(len, names)) > MAX_CHARACTERS
    return None if exceeds_limit else names


def _changed_keys(before: Mapping[V, Any], after: Mapping[V, Any]) -> set[V]:
    """Return the keys whose values are different objects."""
    if before is after:
        return set()
    keys = {key for key, value in after.items() if before.get(key) is not value}
    return keys | (before.keys() - after.keys())

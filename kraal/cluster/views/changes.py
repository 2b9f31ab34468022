"""Changes between two snapshots, by kind and connector: what a client has to ask for again. Pure.

Parts of a snapshot are replaced and never changed, so parts that are the same object are equal. A part that was
replaced by an equal one counts as changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from kraal.cluster.views.snapshot import Snapshot
from kraal.core.ids import ConnectorName, connector_of

MOST_NAMES: Final = 100
"""Maximum number of connectors that a change names."""
MOST_CHARACTERS: Final = 16_384
"""Maximum total length of their names."""

V = TypeVar("V")

Names = frozenset[ConnectorName] | None
"""Connectors that a change concerns; None: any may be concerned."""
Changes = Mapping[str, Names]
"""Connectors by the kind of change."""


class Kind(StrEnum):
    """Kinds of changes that snapshots show."""

    STATES = "states"
    CONFIGS = "configs"
    TOPICS = "topics"
    CLUSTER = "cluster"


_OF_CLUSTER: Final = (
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
    """Return what differs between two snapshots of one worker."""
    found: dict[str, Names] = {}
    if before is after:
        return found
    configs = _changed(before.config.connectors, after.config.connectors)
    states = _changed(before.status.statuses, after.status.statuses)
    states |= {connector_of(each) for each in _changed(before.watched, after.watched)}
    states |= {connector_of(each) for each in before.restarting ^ after.restarting}
    topics = _changed(before.status.topics, after.status.topics)
    for kind, names in ((Kind.CONFIGS, configs), (Kind.STATES, states), (Kind.TOPICS, topics)):
        if names:
            add(found, kind, frozenset(names))
    if before.plan is not after.plan or any(
        getattr(before, each) != getattr(after, each) for each in _OF_CLUSTER
    ):
        found[Kind.CLUSTER] = frozenset()
    return found


def add(found: dict[str, Names], kind: str, names: Names) -> None:
    """Add a change to `found`; too many names become None."""
    known = found.get(kind, frozenset())
    if known is None or names is None:
        found[kind] = None
    else:
        found[kind] = _bounded(known | names)


def _bounded(names: frozenset[ConnectorName]) -> Names:
    too_many = len(names) > MOST_NAMES or sum(map(len, names)) > MOST_CHARACTERS
    return None if too_many else names


def _changed(before: Mapping[V, Any], after: Mapping[V, Any]) -> set[V]:
    """Return the keys whose values are not the same object."""
    if before is after:
        return set()
    found = {key for key, value in after.items() if before.get(key) is not value}
    return found | (before.keys() - after.keys())

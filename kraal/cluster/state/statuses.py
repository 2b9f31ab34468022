"""Contents of the status topic: statuses of instances, and the topics that each connector has used (KIP-558)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kraal.core.ids import ConnectorName, Json, TopicName
from kraal.protocol.status_records import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorStatuses:
    """The statuses of one connector and its tasks; either part may be missing."""

    connector: Status | None = None
    tasks: Mapping[int, Status] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusState:
    """Contents of the status topic after applying records up to `offset` (-1 without records)."""

    offset: int = -1
    statuses: Mapping[ConnectorName, ConnectorStatuses] = field(default_factory=dict)
    topics: Mapping[ConnectorName, frozenset[TopicName]] = field(default_factory=dict)


def status_fields(status: Status) -> dict[str, Json]:
    """Return the REST fields of a status, in Connect's order. Source: ConnectorStateInfo.AbstractState."""
    fields: dict[str, Json] = {
        "state": status.state,
        "worker_id": status.worker_id,
        "version": status.version,
    }
    if status.trace:
        fields["trace"] = status.trace
    return fields

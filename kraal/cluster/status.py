"""What the status topic says: statuses of instances, and the topics each connector has used (KIP-558)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kraal.ids import ConnectorName, Generation, State, TopicName, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One status record's value. `trace` is root cause first; `version` is the plugin's (KIP-891)."""

    state: State
    worker_id: WorkerId
    generation: Generation
    trace: str | None = None
    version: str | None = None
    written_ms: int = field(default=-1, compare=False)
    """When its record was written, by the wall clock of its writer; -1 is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorStatuses:
    """The statuses of one connector and its tasks; either part may be missing."""

    connector: Status | None = None
    tasks: Mapping[int, Status] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusState:
    """Everything the status topic holds, after applying records up to `offset` (-1 before any)."""

    offset: int = -1
    statuses: Mapping[ConnectorName, ConnectorStatuses] = field(default_factory=dict)
    topics: Mapping[ConnectorName, frozenset[TopicName]] = field(default_factory=dict)

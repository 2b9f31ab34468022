"""Contents of the config topic as one immutable value.

`ClusterState` is a worker's view after reading the config topic up to `offset`. It is immutable, because the herder
publishes it to HTTP threads, which may read it at any time.
Source: ClusterConfigState, KafkaConfigBackingStore (its class comment explains commit records).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from kraal.core.errors import NotFound
from kraal.core.ids import Config, ConnectorName, TargetState, TaskId
from kraal.protocol.records import SessionKeyRecord

EMPTY_CONFIG: Mapping[str, str | None] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorEntry:
    """One connector in the config topic; all configs are raw (`${…}` unresolved)."""

    name: ConnectorName
    config: Config
    """The latest config, with its keys in the original order."""
    target: TargetState = TargetState.STARTED
    tasks: tuple[Config, ...] = ()
    """Committed task configs by task number; empty while `inconsistent`."""
    task_count: int = 0
    """Task count of the last commit record; may differ from `len(tasks)` only while `inconsistent`."""
    inconsistent: bool = False
    """Whether the last commit lacked task configs, because of compaction or a partial write."""
    applied: Config | None = None
    """The connector config at the last complete commit of task configs."""
    version: int = 0
    """Log offset of the config record; increases with every write, even of an identical config."""
    tasks_version: int = 0
    """Log offset of the last commit record; tasks of an older version must be restarted."""
    pending_fencing: bool = False
    """Whether older producers must be fenced before the tasks of the latest configs start (KIP-618)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """Contents of the config topic. `offset` is the offset of the last parsed record plus 1, or -1 without records."""

    offset: int = -1
    connectors: Mapping[ConnectorName, ConnectorEntry] = field(default_factory=dict)
    early_targets: Mapping[ConnectorName, TargetState] = field(default_factory=dict)
    """Target states of connectors whose config has not been read yet (KIP-980 writes them first)."""
    deferred: Mapping[ConnectorName, Mapping[int, Config]] = field(default_factory=dict)
    """Task configs that wait for their commit record."""
    fenced_counts: Mapping[ConnectorName, int] = field(default_factory=dict)
    """Task-count records by connector, which outlive the connector (KIP-618)."""
    session_key: SessionKeyRecord | None = None
    """Key for the signatures of internal requests (KIP-507)."""

    def connector(self, name: ConnectorName) -> ConnectorEntry:
        """Return a connector. Raises NotFound."""
        entry = self.connectors.get(name)
        if entry is None:
            raise NotFound(f"Connector {name} not found")
        return entry

    def task_ids(self, name: ConnectorName) -> Sequence[TaskId]:
        """Return the ids of the tasks that can run; empty while the task configs are inconsistent."""
        entry = self.connectors.get(name)
        return () if entry is None or not entry.tasks else _task_ids(name, len(entry.tasks))


@lru_cache(maxsize=20_000)
def _task_ids(name: ConnectorName, count: int) -> tuple[TaskId, ...]:
    """Return the ids. They are cached, because the herder iterates over all tasks whenever a connector changes."""
    return tuple(TaskId(name, number) for number in range(count))

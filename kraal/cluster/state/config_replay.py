"""Replay of the config topic: applies records to a `ClusterState` and derives events. Pure.

Task configs are deferred until the commit record that follows them, which contains their number. If compaction has
removed task configs, or a writer died halfway, the set is *inconsistent*: none of its tasks runs, and the connector's
owner publishes it again. Without commit records a worker would run a mixture of two sets.

A batch is applied to one mutable draft, so a replay of 100,000 records does not copy the state 100,000 times. Functions
raise no exceptions; a record that cannot be applied is reported and skipped.
Source: KafkaConfigBackingStore (its class comment).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from typing_extensions import override

from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.core.errors import ProtocolError
from kraal.core.ids import Config, ConnectorName, TargetState
from kraal.core.records import Record
from kraal.protocol.fields import NotJson
from kraal.protocol.records import (
    ConfigRecord,
    ConnectorConfigRecord,
    LoggerRecord,
    RestartRecord,
    SessionKeyRecord,
    TargetStateRecord,
    TaskCommitRecord,
    TaskConfigRecord,
    TaskCountRecord,
    decode,
)


@dataclass(frozen=True, slots=True)
class ConnectorChanged:
    """A connector's config was written, so the connector must be (re)started, even if the config is identical."""

    name: ConnectorName
    config: Config = field(default_factory=dict, compare=False, repr=False)
    before: Config | None = field(default=None, compare=False, repr=False)
    """The previous config; None for a new connector."""
    offset: int = field(default=-1, compare=False)
    written_ms: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """An existing connector was deleted."""

    name: ConnectorName
    before: Config = field(default_factory=dict, compare=False, repr=False)
    """Last config of the connector."""
    tasks: int = field(default=0, compare=False)
    """Number of the connector's tasks."""
    offset: int = field(default=-1, compare=False)
    written_ms: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class TargetChanged:
    """The target state of a known connector changed."""

    name: ConnectorName
    before: TargetState = field(default=TargetState.STARTED, compare=False)
    target: TargetState = field(default=TargetState.STARTED, compare=False)
    tasks: int = field(default=0, compare=False)
    """Number of the connector's tasks."""
    offset: int = field(default=-1, compare=False)
    written_ms: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class TasksChanged:
    """A commit record was applied; the set of tasks may be empty or inconsistent."""

    name: ConnectorName
    tasks: int = field(default=0, compare=False)
    """The number of tasks before or after the commit, whichever is larger."""
    offset: int = field(default=-1, compare=False)
    written_ms: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """A restart was requested. Ignored if the record existed before the worker started."""

    name: ConnectorName
    include_tasks: bool
    only_failed: bool
    offset: int
    written_ms: int = -1
    """Time of the record by the leader's wall clock; -1 if unknown."""


@dataclass(frozen=True, slots=True)
class LoggerChanged:
    """A cluster-wide logger level was set. Ignored if the record existed before the worker started."""

    namespace: str
    level: str
    offset: int


@dataclass(frozen=True, slots=True)
class SessionKeyChanged:
    """A session key was written; the state contains the key."""

    offset: int = field(default=-1, compare=False)


Event = (
    ConnectorChanged
    | ConnectorRemoved
    | TargetChanged
    | TasksChanged
    | RestartRequested
    | LoggerChanged
    | SessionKeyChanged
)


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """A record that could not be applied. `str()` is `offset: key: reason`."""

    offset: int
    key: str
    reason: str

    @override
    def __str__(self) -> str:
        return f"{self.offset}: {self.key}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ConfigReplayResult:
    """Result of a batch of records; `events` in the order of the records."""

    state: ClusterState
    events: tuple[Event, ...] = ()
    skipped: tuple[SkippedRecord, ...] = ()


def apply_config(state: ClusterState, records: Sequence[Record]) -> ConfigReplayResult:
    """Apply records of the config topic, in order. The result is independent of the batch boundaries."""
    draft = _Draft.of(state)
    for record in records:
        try:
            decoded_record = decode(record.key, record.value)
        except NotJson as exc:
            draft.skipped.append(SkippedRecord(record.offset, record.key, str(exc)))
            continue  # as in Java, the record does not advance the offset
        except ProtocolError as exc:
            draft.skipped.append(SkippedRecord(record.offset, record.key, str(exc)))
        else:
            draft.apply(decoded_record, record.offset, record.timestamp_ms)
        draft.offset = record.offset + 1
    return draft.finish()


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A state under construction, used by one call of `apply_config` only."""

    offset: int
    connectors: dict[ConnectorName, ConnectorEntry]
    early_targets: dict[ConnectorName, TargetState]
    deferred: dict[ConnectorName, Mapping[int, Config]]
    fenced_counts: dict[ConnectorName, int]
    session_key: SessionKeyRecord | None
    mutable_deferred: dict[ConnectorName, dict[int, Config]] = field(default_factory=dict)
    """Values of `deferred` that this draft created and may therefore modify."""
    events: list[Event] = field(default_factory=list)
    skipped: list[SkippedRecord] = field(default_factory=list)

    @staticmethod
    def of(state: ClusterState) -> _Draft:
        return _Draft(
            offset=state.offset,
            connectors=dict(state.connectors),
            early_targets=dict(state.early_targets),
            deferred=dict(state.deferred),
            fenced_counts=dict(state.fenced_counts),
            session_key=state.session_key,
        )

    def finish(self) -> ConfigReplayResult:
        state = ClusterState(
            offset=self.offset,
            connectors=self.connectors,
            early_targets=self.early_targets,
            deferred=self.deferred,
            fenced_counts=self.fenced_counts,
            session_key=self.session_key,
        )
        return ConfigReplayResult(state, tuple(self.events), tuple(self.skipped))

    def apply(self, record: ConfigRecord, offset: int, written_ms: int) -> None:
        match record:
            case ConnectorConfigRecord(name, properties):
                if properties is None:
                    self._remove(name, offset, written_ms)
                else:
                    self._put(name, properties, offset, written_ms)
            case TargetStateRecord(name, target):
                self._target(name, target, offset, written_ms)
            case TaskConfigRecord(task, properties):
                self._mutable_deferred_configs(task.connector)[task.task] = properties
            case TaskCommitRecord(name, tasks):
                self._commit(name, tasks, offset, written_ms)
            case TaskCountRecord(name, tasks):
                self._replay_fencing(name, tasks)
            case RestartRecord(name, include_tasks, only_failed):
                self.events.append(RestartRequested(name, include_tasks, only_failed, offset, written_ms))
            case LoggerRecord(namespace, level):
                self.events.append(LoggerChanged(namespace, level, offset))
            case SessionKeyRecord():
                self.session_key = record
                self.events.append(SessionKeyChanged(offset))

    def _put(self, name: ConnectorName, config: Config, offset: int, written_ms: int) -> None:
        entry = self.connectors.get(name)
        before = None if entry is None else entry.config
        if entry is None:
            target = self.early_targets.pop(name, TargetState.STARTED)
            entry = ConnectorEntry(name=name, config=config, target=target, version=offset)
        else:
            entry = replace(entry, config=config, version=offset)
        self.connectors[name] = entry
        self.events.append(ConnectorChanged(name, config, before, offset, written_ms))

    def _remove(self, name: ConnectorName, offset: int, written_ms: int) -> None:
        self._drop_deferred(name)
        entry = self.connectors.pop(name, None)
        if entry is None:
            return
        if entry.target is not TargetState.STARTED:  # the target state has its own tombstone
            self.early_targets[name] = entry.target
        self.events.append(ConnectorRemoved(name, entry.config, entry.task_count, offset, written_ms))

    def _target(self, name: ConnectorName, target: TargetState | None, offset: int, written_ms: int) -> None:
        new_target = target or TargetState.STARTED
        entry = self.connectors.get(name)
        if entry is not None:
            if entry.target is not new_target:
                self.connectors[name] = replace(entry, target=new_target)
                self.events.append(
                    TargetChanged(name, entry.target, new_target, entry.task_count, offset, written_ms)
                )
        elif new_target is TargetState.STARTED:
            self.early_targets.pop(name, None)
        else:
            self.early_targets[name] = new_target

    def _commit(self, name: ConnectorName, count: int, offset: int, written_ms: int) -> None:
        deferred = self.deferred.get(name, {})
        self._drop_deferred(name)
        entry = self.connectors.get(name)
        if entry is None:
            return  # remainder of a deleted connector whose other records were compacted away
        is_complete = len(deferred) >= count and all(n in deferred for n in range(count))
        tasks = tuple(deferred[n] for n in range(count)) if is_complete else ()
        self.connectors[name] = replace(
            entry,
            tasks=tasks,
            task_count=count,
            inconsistent=not is_complete,
            applied=entry.config if is_complete else entry.applied,
            tasks_version=offset,
            pending_fencing=True,
        )
        self.events.append(TasksChanged(name, max(count, entry.task_count), offset, written_ms))

    def _replay_fencing(self, name: ConnectorName, count: int) -> None:
        self.fenced_counts[name] = count
        entry = self.connectors.get(name)
        if entry is not None:
            self.connectors[name] = replace(entry, pending_fencing=False)

    def _mutable_deferred_configs(self, name: ConnectorName) -> dict[int, Config]:
        configs = self.mutable_deferred.get(name)
        if configs is None:
            configs = self.mutable_deferred[name] = dict(self.deferred.get(name, {}))
            self.deferred[name] = configs
        return configs

    def _drop_deferred(self, name: ConnectorName) -> None:
        self.deferred.pop(name, None)
        self.mutable_deferred.pop(name, None)

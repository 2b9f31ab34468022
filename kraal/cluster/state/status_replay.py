"""Replay of the status topic, and the records written to it. Pure.

Source: KafkaStatusBackingStore (Kafka 4.4.0); KIP-558.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from kraal.cluster.state.cluster_state import ClusterState
from kraal.cluster.state.config_replay import SkippedRecord
from kraal.cluster.state.statuses import ConnectorStatuses, StatusState
from kraal.core.errors import ProtocolError
from kraal.core.ids import ConnectorName, Generation, Instance, State, TaskId, TopicName, WorkerId
from kraal.core.records import Entry, Record
from kraal.protocol.status_records import (
    Status,
    StatusRecord,
    TopicRecord,
    TopicUse,
    decode_status,
    encode_status,
    status_key,
)

_NO_STATUSES = ConnectorStatuses()


@dataclass(frozen=True, slots=True)
class StatusReplayResult:
    """Result of a batch of status records."""

    state: StatusState
    changed: tuple[Instance, ...] = ()
    """Instances with new records, in order, which are no longer shown as RESTARTING (KIP-745)."""
    skipped: tuple[SkippedRecord, ...] = ()
    applied: tuple[tuple[Instance, Status | None, int], ...] = ()
    """Applied statuses, in order, with the times of their records; None for a deleted status."""


def apply_status(state: StatusState, records: Sequence[Record]) -> StatusReplayResult:
    """Apply records of the status topic, in order. The result is independent of the batch boundaries."""
    draft = _Draft.of(state)
    for record in records:
        try:
            decoded_record = decode_status(record.key, record.value)
        except ProtocolError as exc:
            draft.skipped.append(SkippedRecord(record.offset, record.key, str(exc)))
        else:
            draft.apply(decoded_record, record.timestamp_ms)
        draft.offset = record.offset
    return draft.finish()


def find_status(state: StatusState, instance: Instance) -> Status | None:
    """Return the stored status of an instance, if any."""
    if isinstance(instance, TaskId):
        return state.statuses.get(instance.connector, _NO_STATUSES).tasks.get(instance.task)
    return state.statuses.get(instance, _NO_STATUSES).connector


def safe_to_put(state: StatusState, instance: Instance, worker_id: WorkerId, generation: Generation) -> bool:
    """Return whether UNASSIGNED or FAILED may be written: neither may replace the status of a newer owner."""
    stored_status = find_status(state, instance)
    return (
        stored_status is None
        or stored_status.worker_id == worker_id
        or stored_status.generation <= generation
    )


def put_entry(instance: Instance, status: Status) -> Entry:
    """Create a status record without a `safe_to_put` check."""
    return Entry(*encode_status(StatusRecord(instance, status)))


def unassigned_or_failed_entries(state: StatusState, instance: Instance, status: Status) -> list[Entry]:
    """Return the record that sets UNASSIGNED or FAILED, as a list; empty if a newer owner wrote a status."""
    is_safe = safe_to_put(state, instance, status.worker_id, status.generation)
    return [put_entry(instance, status)] if is_safe else []


def status_entries(state: StatusState, instance: Instance, status: Status) -> list[Entry]:
    """Return the record of `status` as a list; empty if `safe_to_put` forbids writing it."""
    if status.state in (State.UNASSIGNED, State.FAILED):
        return unassigned_or_failed_entries(state, instance, status)
    return [put_entry(instance, status)]


def newer_statuses(state: StatusState, instances: Iterable[Instance], since_ms: int) -> frozenset[Instance]:
    """Return the instances with a status written at or after `since_ms`; empty if the time is unknown (-1).

    The two logs are read independently: a status after a restart may be read before the restart request.
    """
    if since_ms < 0:
        return frozenset()
    statuses = {instance: find_status(state, instance) for instance in instances}
    return frozenset(
        i for i, status in statuses.items() if status is not None and status.written_ms >= since_ms
    )


def stale_statuses(
    config: ClusterState, status: StatusState, *, clean_states: tuple[ClusterState, StatusState]
) -> list[str]:
    """Return the keys of statuses of instances that are no longer configured, for the leader to delete.

    `clean_states`: earlier states without stale statuses; only connectors that changed since are checked.
    """
    stale_keys: list[str] = []
    clean_config, clean_status = clean_states[0].connectors, clean_states[1].statuses
    for name, statuses in status.statuses.items():
        entry = config.connectors.get(name)
        if statuses is clean_status.get(name) and entry is clean_config.get(name):
            continue
        if entry is None and statuses.connector is not None:
            stale_keys.append(status_key(name))
        task_count = 0 if entry is None else len(entry.tasks)
        if statuses.tasks and max(statuses.tasks) >= task_count:
            stale_keys.extend(status_key(TaskId(name, n)) for n in sorted(statuses.tasks) if n >= task_count)
    return stale_keys


def tombstones(keys: Iterable[str]) -> list[Entry]:
    """Create the tombstones of `keys`."""
    return [Entry(key, None) for key in keys]


def topic_entry(topic: TopicName, task: TaskId, discovered_ms: int) -> Entry:
    """Create the record of a topic that a task used (KIP-558)."""
    return Entry(*encode_status(TopicRecord(topic, task.connector, TopicUse(task.task, discovered_ms))))


def reset_topics(state: StatusState, name: ConnectorName) -> list[Entry]:
    """Create the tombstones of all topics that a connector has used, even if it is deleted (KIP-558)."""
    topics = sorted(state.topics.get(name, ()))
    return [Entry(*encode_status(TopicRecord(topic, name, None))) for topic in topics]


def stale_topics(config: ClusterState, status: StatusState) -> list[Entry]:
    """Create tombstones for the topic records (KIP-558) of deleted connectors, whose instances must have stopped."""
    deleted_names = [name for name in status.topics if name not in config.connectors]
    return [entry for name in deleted_names for entry in reset_topics(status, name)]


@dataclass(slots=True)
class _ConnectorStatuses:
    """Statuses of one connector under construction."""

    connector: Status | None
    tasks: dict[int, Status]


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A state under construction, used by one call of `apply_status` only. Copies each part at most once."""

    base: StatusState
    offset: int
    statuses: dict[ConnectorName, _ConnectorStatuses] = field(default_factory=dict)
    topics: dict[ConnectorName, set[TopicName]] = field(default_factory=dict)
    changed: list[Instance] = field(default_factory=list)
    applied: list[tuple[Instance, Status | None, int]] = field(default_factory=list)
    skipped: list[SkippedRecord] = field(default_factory=list)

    @staticmethod
    def of(state: StatusState) -> _Draft:
        return _Draft(base=state, offset=state.offset)

    def apply(self, record: StatusRecord | TopicRecord, written_ms: int) -> None:
        if isinstance(record, TopicRecord):
            topics = self._topics(record.connector)
            if record.use is None:
                topics.discard(record.topic)
            else:
                topics.add(record.topic)
            return
        status = None if record.status is None else replace(record.status, written_ms=written_ms)
        if isinstance(record.instance, TaskId):
            self._task(record.instance, status, written_ms)
        else:
            self._connector(record.instance, status, written_ms)

    def _connector(self, name: ConnectorName, status: Status | None, written_ms: int) -> None:
        statuses = self._statuses(name)
        if status is None:
            self.applied.extend((TaskId(name, task), None, written_ms) for task in sorted(statuses.tasks))
            statuses.tasks.clear()
        statuses.connector = status
        self.changed.append(name)
        self.applied.append((name, status, written_ms))

    def _task(self, task: TaskId, status: Status | None, written_ms: int) -> None:
        tasks = self._statuses(task.connector).tasks
        if status is None:
            tasks.pop(task.task, None)
        else:
            stored_status = tasks.get(task.task)
            if _is_late(status, stored_status):
                return
            tasks[task.task] = status
        self.changed.append(task)
        self.applied.append((task, status, written_ms))

    def _statuses(self, name: ConnectorName) -> _ConnectorStatuses:
        statuses = self.statuses.get(name)
        if statuses is None:
            stored_statuses = self.base.statuses.get(name, _NO_STATUSES)
            statuses = self.statuses[name] = _ConnectorStatuses(
                stored_statuses.connector, dict(stored_statuses.tasks)
            )
        return statuses

    def _topics(self, name: ConnectorName) -> set[TopicName]:
        topics = self.topics.get(name)
        if topics is None:
            topics = self.topics[name] = set(self.base.topics.get(name, ()))
        return topics

    def finish(self) -> StatusReplayResult:
        statuses = dict(self.base.statuses)
        for name, draft_statuses in self.statuses.items():
            if draft_statuses.connector is not None or draft_statuses.tasks:
                statuses[name] = ConnectorStatuses(
                    connector=draft_statuses.connector, tasks=draft_statuses.tasks
                )
            else:
                statuses.pop(name, None)
        topics = dict(self.base.topics)
        for name, topic_names in self.topics.items():
            if topic_names:
                topics[name] = frozenset(topic_names)
            else:
                topics.pop(name, None)
        state = StatusState(offset=self.offset, statuses=statuses, topics=topics)
        return StatusReplayResult(state, tuple(self.changed), tuple(self.skipped), tuple(self.applied))


def _is_late(status: Status, stored_status: Status | None) -> bool:
    """Return whether UNASSIGNED of the previous owner arrives after RUNNING of the next owner."""
    return (
        status.state is State.UNASSIGNED
        and stored_status is not None
        and stored_status.state is State.RUNNING
        and stored_status.worker_id != status.worker_id
        and stored_status.generation >= status.generation
    )

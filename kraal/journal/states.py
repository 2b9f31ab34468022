"""The history of states: each state of each instance with its cause, as read from the status log.

Written by the herder's thread; read by any thread. Records that repeat the state of an instance are ignored. After the
death of a herder, the next herder reads all records again; `replay` and `take_missed_statuses` select the records that
the journal lacks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from kraal.core.ids import ConnectorName, Instance, Json, TaskId, get_connector
from kraal.core.secrets import secrets
from kraal.journal.causes import (
    MAX_CAUSE_AGE_MS,
    REMOVED,
    STORED_CAUSE,
    Cause,
    Explanation,
    explain,
    is_settled,
)
from kraal.journal.ring import ENTRY_BYTES, KeyedRings, RingContent, text_bytes, truncate
from kraal.protocol.status_records import Status

TRACE_LINES: Final = 11
"""Maximum number of lines of a trace: the root cause and ten more lines."""
TRACE_BYTES: Final = 4_096
TEXT_BYTES: Final = 1_000
"""Maximum size of a cause's text, in bytes."""
MAX_PENDING_CAUSES: Final = 20_000
"""Number of pending causes at which expired causes are removed."""
MAX_MISSED: Final = 50
"""Maximum number of states per instance that a restarted herder adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntry:
    """A state of an instance."""

    ms: int
    """Time of the record by its writer's wall clock; milliseconds since the epoch."""
    task: int | None
    """Task number; None for the connector instance."""
    state: str
    """One of Connect's states, or `REMOVED`."""
    worker_id: str
    generation: int
    cause: str
    by: str
    trace: str | None
    is_exact: bool = True
    """Whether `cause` was recorded or taken from a trace, as opposed to derived from the change of the status."""

    @property
    def size(self) -> int:
        """Memory size in bytes."""
        return ENTRY_BYTES + text_bytes(self.state, self.worker_id, self.cause, self.by, self.trace)

    def to_json(self) -> dict[str, Json]:
        """Return the fields in REST order."""
        return {
            "ms": self.ms,
            "task": self.task,
            "state": self.state,
            "worker_id": self.worker_id,
            "generation": self.generation,
            "cause": self.cause,
            "by": self.by,
            "trace": self.trace,
        }


@dataclass(slots=True)
class _MissedRecords:
    """Status records of one instance that are missing in the journal."""

    has_latest: bool = False
    """Whether the journal's latest status was read again."""
    statuses: deque[tuple[Status | None, int]] = field(default_factory=lambda: deque(maxlen=MAX_MISSED))


class States:
    """The states of all instances, written by the herder's thread. Reads are thread-safe."""

    def __init__(self, connector_limit: int, total_limit: int) -> None:
        """Create an empty history. The limits are the maximum sizes in bytes of one connector's and of all entries."""
        self._rings: KeyedRings[ConnectorName, StateEntry] = KeyedRings(connector_limit, total_limit)
        self._latest: dict[Instance, Status] = {}
        """The latest recorded statuses."""
        self._pending_causes: dict[Instance, Cause] = {}
        """Causes that have not explained a settled state yet."""
        self._missed_records: dict[Instance, _MissedRecords] = {}

    def read(self, name: ConnectorName) -> RingContent[StateEntry]:
        """Return a connector's entries, oldest first. Thread-safe."""
        return self._rings.read(name)

    def record_cause(self, instances: Iterable[Instance], cause: Cause, *, amends: bool = False) -> None:
        """Record the cause of the next states of these instances.

        `amends`: whether the cause was read from the config log. The status log is read independently, so the states
        that the cause explains may already be recorded; they then receive the cause.
        """
        if len(self._pending_causes) >= MAX_PENDING_CAUSES:
            self._pending_causes = {
                i: pending_cause
                for i, pending_cause in self._pending_causes.items()
                if cause.ms - pending_cause.ms <= MAX_CAUSE_AGE_MS
            }
        for instance in instances:
            latest = self._latest.get(instance)
            is_late = amends and latest is not None and latest.written_ms > cause.ms
            if is_late and latest is not None and cause.explains(str(latest.state)):
                self._amend(instance, cause)
                if is_settled(latest):
                    continue
            self._pending_causes[instance] = cause

    def _amend(self, instance: Instance, cause: Cause) -> None:
        """Set the cause of the recorded states that follow the cause and that the cause explains."""
        task = instance.task if isinstance(instance, TaskId) else None

        def change(entry: StateEntry) -> tuple[StateEntry, int] | None:
            if (
                entry.is_exact
                or entry.task != task
                or entry.ms <= cause.ms
                or not cause.explains(entry.state)
            ):
                return None
            new_entry = replace(entry, cause=cause.display_text, by=cause.by, is_exact=True)
            return new_entry, new_entry.size

        self._rings.amend(get_connector(instance), change)

    def find_pending_cause(self, instance: Instance, now_ms: int) -> Cause | None:
        """Return the pending cause of an instance unless the cause is too old."""
        cause = self._pending_causes.get(instance)
        return None if cause is None or now_ms - cause.ms > MAX_CAUSE_AGE_MS else cause

    def add(
        self, instance: Instance, status: Status | None, at_ms: int, *, now_ms: int, reason: str = ""
    ) -> StateEntry | None:
        """Record a status, or its removal if None; return the entry, or None if the state is unchanged.

        `at_ms`: time of the status record; negative if it is unknown.
        """
        before = self._latest.get(instance)
        if status is None:
            self._latest.pop(instance, None)
        else:
            self._latest[instance] = status
        if _is_same_state(before, status):
            return None
        explanation = explain(
            before, status, self._pending_causes.get(instance), now_ms=now_ms, reason=reason
        )
        if explanation.is_consumed:
            self._pending_causes.pop(instance, None)
        at_ms = now_ms if at_ms < 0 else at_ms
        return self._append(instance, status or before, explanation, at_ms, is_removed=status is None)

    def add_stored_status(self, instance: Instance, status: Status, *, now_ms: int) -> bool:
        """Record a status stored before the worker started; return False if the instance has a status already."""
        if instance in self._latest:
            return False
        self._latest[instance] = status
        at_ms = now_ms if status.written_ms < 0 else status.written_ms
        self._append(instance, status, Explanation(STORED_CAUSE, "", is_exact=True), at_ms)
        return True

    def replay(self, instance: Instance, status: Status | None, at_ms: int) -> None:
        """Process a record that a new herder reads again; `at_ms` is the time of the record."""
        latest = self._latest.get(instance)
        if latest is None:
            return
        missed_records = self._missed_records.setdefault(instance, _MissedRecords())
        if status is not None and (status, status.written_ms) == (latest, latest.written_ms):
            missed_records.has_latest = True
            missed_records.statuses.clear()
        elif (
            missed_records.has_latest or at_ms >= latest.written_ms
        ):  # compaction may have removed the latest status
            missed_records.statuses.append((status, at_ms))

    def take_missed_statuses(self) -> list[tuple[Instance, Status | None, int]]:
        """Remove and return the statuses and times that no earlier herder has read, in order for each instance."""
        records_by_instance, self._missed_records = self._missed_records, {}
        return [
            (instance, *missed_status)
            for instance, missed_records in records_by_instance.items()
            for missed_status in missed_records.statuses
        ]

    def find_removed_instances(self, instances: Iterable[Instance]) -> list[Instance]:
        """Return the recorded instances that are not in `instances`."""
        return list(self._latest.keys() - set(instances))

    def _append(
        self,
        instance: Instance,
        status: Status | None,
        explanation: Explanation,
        at_ms: int,
        *,
        is_removed: bool = False,
    ) -> StateEntry | None:
        if status is None:
            return None
        trace = None if is_removed else status.trace
        entry = StateEntry(
            ms=at_ms,
            task=instance.task if isinstance(instance, TaskId) else None,
            state=REMOVED if is_removed else str(status.state),
            worker_id=str(status.worker_id),
            generation=int(status.generation),
            cause=truncate(secrets.scrub(explanation.cause), TEXT_BYTES),
            by=explanation.by,
            trace=None if trace is None else _shorten(trace),
            is_exact=explanation.is_exact,
        )
        self._rings.append(get_connector(instance), lambda: (entry, entry.size))
        return entry


def _is_same_state(one: Status | None, other: Status | None) -> bool:
    if one is None or other is None:
        return one is other
    return _identity(one) == _identity(other)


def _identity(status: Status) -> tuple[object, ...]:
    return status.state, status.worker_id, status.generation, status.trace


def _shorten(trace: str) -> str:
    """Truncate a trace to its first lines, without secrets."""
    return truncate("\n".join(secrets.scrub(trace).splitlines()[:TRACE_LINES]), TRACE_BYTES)

"""Events of this worker, in one sequence over all connectors. Thread-safe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kraal.core.ids import ConnectorName, Instance, Json, TaskId, get_connector
from kraal.core.secrets import secrets
from kraal.journal.ring import ENTRY_BYTES, ByteRing, Guard, text_bytes, truncate

TEXT_BYTES: Final = 1_000
"""Maximum size of an event's text, in bytes."""


class EventKind(StrEnum):
    """The kinds of events; also the values in REST responses."""

    REBALANCE = "rebalance"
    STATE = "state"
    CONFIG = "config"
    TARGET = "target"
    RESTART = "restart"
    AUTO_RESTART = "auto_restart"
    GIVEN_UP = "given_up"
    OFFSETS = "offsets"
    SCHEMA = "schema"
    LOGGER = "logger"
    WORKER = "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEvent:
    """One event. `seq` counts from 1 for each process."""

    seq: int
    ms: int
    kind: EventKind
    connector: ConnectorName | None
    task: int | None
    text: str
    by: str

    @property
    def size(self) -> int:
        """Memory size in bytes."""
        return ENTRY_BYTES + text_bytes(self.connector, self.text, self.by)

    def to_json(self) -> dict[str, Json]:
        """Return the fields in REST order."""
        return {
            "seq": self.seq,
            "ms": self.ms,
            "kind": str(self.kind),
            "connector": self.connector,
            "task": self.task,
            "text": self.text,
            "by": self.by,
        }


class Events:
    """The latest events of this worker."""

    def __init__(self, max_bytes: int, now_ms: Callable[[], int]) -> None:
        """Create an empty list of events; `max_bytes` is its maximum size."""
        self._ring: ByteRing[JournalEvent] = ByteRing(max_bytes)
        self._now_ms = now_ms
        self._guard = Guard()
        self._seq = 0

    def add(self, kind: EventKind, text: str, about: Instance | None, by: str) -> None:
        """Record an event with the current time; `about`: the affected connector or task, if any."""
        text = truncate(secrets.scrub(text), TEXT_BYTES)
        with self._guard as is_outermost:
            if not is_outermost:
                return
            self._seq += 1
            event = JournalEvent(
                seq=self._seq,
                ms=self._now_ms(),
                kind=kind,
                connector=None if about is None else get_connector(about),
                task=about.task if isinstance(about, TaskId) else None,
                text=text,
                by=by,
            )
            self._ring.append(event, event.size)

    def after(self, seq: int | None, limit: int) -> tuple[JournalEvent, ...]:
        """Return the first `limit` events after `seq`, or the latest events if `seq` is None; oldest first."""
        with self._guard:
            events = self._ring.entries()
        if seq is None:
            return events[max(0, len(events) - limit) :]
        return tuple(event for event in events if event.seq > seq)[:limit]

    @property
    def dropped(self) -> int:
        """Number of events that were dropped."""
        return self._ring.dropped

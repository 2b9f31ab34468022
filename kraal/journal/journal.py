"""The journal: recording by the herder, reading by REST, and listeners.

The herder's thread records all entries except log lines and events, which any thread may record. Reads are
thread-safe.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kraal.core.ids import Config, ConnectorName, Instance, TaskId, get_connector
from kraal.journal.authors import Authors
from kraal.journal.causes import Cause
from kraal.journal.configs import Configs, ConfigWrite
from kraal.journal.events import EventKind, Events
from kraal.journal.log_lines import LogLines
from kraal.journal.states import StateEntry, States
from kraal.protocol.status_records import Status

log = logging.getLogger(__name__)

DEFAULT_BYTES: Final = 48 * 1024 * 1024
_KIB: Final = 1024
# Maximum sizes for one connector, in bytes.
MAX_STATES_BYTES: Final = 64 * _KIB
MAX_CONFIGS_BYTES: Final = 256 * _KIB
MAX_LINES_BYTES: Final = 128 * _KIB
MAX_REASONS: Final = 20
"""Maximum number of rebalances whose reasons explain later states."""

Listener = Callable[[str, ConnectorName | None], None]
"""Receives the kind of a change (`history`, `configs`, `logs` or `events`) and the connector (None for events)."""


class Journal:
    """The recent history of a worker."""

    def __init__(self, now_ms: Callable[[], int], max_bytes: int = DEFAULT_BYTES) -> None:
        """Create an empty journal. `max_bytes` is the maximum size of all contents; 0 disables recording."""
        self.enabled = max_bytes > 0
        self.boot = uuid.uuid4().hex
        """Id of this journal; sequence numbers are unique within a journal."""
        self.since_ms = now_ms()
        """Wall-clock time of the start of recording."""
        self.now_ms = now_ms
        self.authors = Authors(now_ms)
        self.states = States(min(MAX_STATES_BYTES, max_bytes // 3), max_bytes // 3)
        self.configs = Configs(min(MAX_CONFIGS_BYTES, max_bytes // 3), max_bytes // 3)
        lines_bytes = max_bytes // 6
        self.lines = LogLines(
            min(MAX_LINES_BYTES, lines_bytes), lines_bytes, lambda name: self._notify("logs", name)
        )
        """A logging handler; see `follow_log`."""
        self.events = Events(max_bytes // 48, now_ms)
        self._reasons: dict[int, str] = {}
        self.task_config_causes: dict[ConnectorName, Cause] = {}
        """Latest causes of new task configs, by connector. Used on the herder's thread only."""
        self._listeners: tuple[Listener, ...] = ()
        self._thread_state = threading.local()
        self.status_replayed = False
        """Whether a herder of this process has read the status log to its end."""
        self.config_offset: int | None = None
        """Offset up to which the config log was recorded; None before the log has been read to its end."""

    def follow_log(self, root: logging.Logger | None = None) -> None:
        """Start recording log lines of connectors from `root`, by default the root logger."""
        if self.enabled:
            (root or logging.getLogger()).addHandler(self.lines)

    # -- listeners -----------------------------------------------------------------------------------------

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after every change, on the writing thread; return a function that removes `listener`.

        The listener is called without locks held and must not block. A listener that raises an error is removed.
        """
        self._listeners = (*self._listeners, listener)

        def stop() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return stop

    def _notify(self, kind: str, name: ConnectorName | None) -> None:
        if getattr(self._thread_state, "is_notifying", False):
            return  # a listener does not receive its own log lines
        self._thread_state.is_notifying = True
        try:
            for listener in self._listeners:
                try:
                    listener(kind, name)
                except Exception:
                    self._listeners = tuple(other for other in self._listeners if other is not listener)
                    log.exception("Removed a journal listener that raised an error")
        finally:
            self._thread_state.is_notifying = False

    def record_event(self, kind: EventKind, text: str, about: Instance | None = None, by: str = "") -> None:
        """Record an event with the current time. Thread-safe."""
        if self.enabled:
            self.events.add(kind, text, about, by)
            self._notify("events", None)

    # -- recording, on the herder's thread -------------------------------------------------------------------

    def record_cause(self, instances: Iterable[Instance], cause: Cause, *, amends: bool = False) -> None:
        """Record the cause of the next states of these instances; see `States.record_cause`."""
        if self.enabled:
            self.states.record_cause(instances, cause, amends=amends)

    def record_rebalance_reason(self, generation: int, reason: str) -> None:
        """Record the reason for a rebalance; the reason explains the states of the rebalance's generation."""
        self._reasons = dict([*self._reasons.items(), (generation, reason)][-MAX_REASONS:])

    def record_state(self, instance: Instance, status: Status | None, at_ms: int) -> None:
        """Record a status whose record was written at `at_ms`; `status` is None for a removal."""
        if not self.enabled:
            return
        reason = "" if status is None else self._reasons.get(status.generation, "")
        entry = self.states.add(instance, status, at_ms, now_ms=self.now_ms(), reason=reason)
        if entry is None:
            return
        self._notify("history", get_connector(instance))
        self.record_event(EventKind.STATE, _state_text(instance, entry), instance, entry.by)

    def record_replayed_states(self, statuses: Mapping[Instance, Status]) -> None:
        """Record the statuses after a herder has read the status log to its end.

        After a restart of the herder, this also records the changes that the previous herder did not read.
        """
        if not self.enabled:
            return
        missed_statuses: list[tuple[Instance, Status | None, int]] = self.states.take_missed_statuses()
        if self.status_replayed:
            for instance, status, at_ms in missed_statuses:
                self.record_state(instance, status, at_ms)
            for instance in self.states.find_removed_instances(statuses):
                self.record_state(instance, None, -1)
        names = {
            get_connector(instance)
            for instance, status in statuses.items()
            if self.states.add_stored_status(instance, status, now_ms=self.now_ms())
        }
        self.status_replayed = True
        for name in names:
            self._notify("history", name)

    def record_config(
        self, name: ConnectorName, before: Config | None, after: Config | None, write: ConfigWrite
    ) -> None:
        """Record a change of a config; `before` is None for a new connector, `after` for a deleted connector."""
        if self.enabled:
            self.configs.add(name, before, after, write)
            self._notify("configs", name)


def _state_text(instance: Instance, entry: StateEntry) -> str:
    kind = "task" if isinstance(instance, TaskId) else "connector"
    return f"{kind} {instance} {entry.state} on {entry.worker_id}: {entry.cause}"


def disabled_journal() -> Journal:
    """Return a disabled journal."""
    return Journal(lambda: 0, 0)

"""The journal as a whole: what the herder records, what REST reads, and who is notified.

The herder's thread records, except for log lines, which any thread does; reading is for any thread.
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
from kraal.journal.configs import Configs, Written
from kraal.journal.events import EventKind, Events
from kraal.journal.log_lines import LogLines
from kraal.journal.states import StateEntry, States
from kraal.protocol.status_records import Status

log = logging.getLogger(__name__)

DEFAULT_BYTES: Final = 48 * 1024 * 1024
_KIB: Final = 1024
STATES_EACH: Final = 64 * _KIB
CONFIGS_EACH: Final = 256 * _KIB
LINES_EACH: Final = 128 * _KIB
"""Maximum sizes for one connector, in bytes."""
MAX_REASONS: Final = 20
"""Maximum number of rebalances whose reasons explain later states."""

Listener = Callable[[str, ConnectorName | None], None]
"""Called with the kind of change (`history`, `configs`, `logs` or `events`) and the connector, None for events."""


class Journal:
    """The recent history of a worker."""

    def __init__(self, now_ms: Callable[[], int], max_bytes: int = DEFAULT_BYTES) -> None:
        """`max_bytes`: maximum size of all contents; 0: nothing is recorded."""
        self.enabled = max_bytes > 0
        self.boot = uuid.uuid4().hex
        """Identifies this journal: sequence numbers start again in another one."""
        self.since_ms = now_ms()
        """Wall-clock time from which it records."""
        self.now_ms = now_ms
        self.authors = Authors(now_ms)
        self.states = States(min(STATES_EACH, max_bytes // 3), max_bytes // 3)
        self.configs = Configs(min(CONFIGS_EACH, max_bytes // 3), max_bytes // 3)
        lines = max_bytes // 6
        self.lines = LogLines(min(LINES_EACH, lines), lines, lambda name: self._notify("logs", name))
        """A logging handler; see `follow_log`."""
        self.events = Events(max_bytes // 48, now_ms)
        self._reasons: dict[int, str] = {}
        self.roots: dict[ConnectorName, Cause] = {}
        """Requests that new task configs may follow from, by connector; the herder's thread only."""
        self._listeners: tuple[Listener, ...] = ()
        self._notifying = threading.local()
        self.status_replayed = False
        """A herder of this process has read the status log to its end."""
        self.config_offset: int | None = None
        """Offset up to which the config log was recorded; None: not yet read to its end."""

    def follow_log(self, root: logging.Logger | None = None) -> None:
        """Record the log lines of connectors from `root`, or with None of the process, from now on."""
        if self.enabled:
            (root or logging.getLogger()).addHandler(self.lines)

    # -- listeners -----------------------------------------------------------------------------------------

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after every change, on the thread that writes; return what ends this.

        It must return at once, and is called outside of all locks. One that raises an error is called no more.
        """
        self._listeners = (*self._listeners, listener)

        def stop() -> None:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

        return stop

    def _notify(self, kind: str, name: ConnectorName | None) -> None:
        if getattr(self._notifying, "now", False):
            return  # a listener logged: it does not receive its own lines
        self._notifying.now = True
        try:
            for listener in self._listeners:
                try:
                    listener(kind, name)
                except Exception:
                    self._listeners = tuple(each for each in self._listeners if each is not listener)
                    log.exception("A listener of the journal failed; it is no longer called")
        finally:
            self._notifying.now = False

    # -- recording, on the herder's thread -------------------------------------------------------------------

    def event(self, kind: EventKind, text: str, about: Instance | None = None, by: str = "") -> None:
        """Record an event that happens now."""
        if self.enabled:
            self.events.add(kind, text, about, by)
            self._notify("events", None)

    def note(self, instances: Iterable[Instance], cause: Cause, *, amends: bool = False) -> None:
        """Note the cause of the next states of these instances; see `States.note`."""
        if self.enabled:
            self.states.note_cause(instances, cause, amends=amends)

    def note_rebalance(self, generation: int, reason: str) -> None:
        """Keep the reason of a rebalance for the states that follow it."""
        self._reasons = dict([*self._reasons.items(), (generation, reason)][-MAX_REASONS:])

    def state(self, instance: Instance, status: Status | None, at_ms: int) -> None:
        """Record a status as its record, written at `at_ms`, was read; None: its removal."""
        if not self.enabled:
            return
        reason = "" if status is None else self._reasons.get(status.generation, "")
        entry = self.states.add(instance, status, at_ms, now_ms=self.now_ms(), reason=reason)
        if entry is None:
            return
        self._notify("history", get_connector(instance))
        self.event(EventKind.STATE, _state_text(instance, entry), instance, entry.by)

    def states_read(self, statuses: Mapping[Instance, Status]) -> None:
        """Record all statuses once the status log was read to its end: at first as stored, later missed ones."""
        if not self.enabled:
            return
        missed: list[tuple[Instance, Status | None, int]] = self.states.take_missed()
        if self.status_replayed:
            for instance, status, at_ms in missed:
                self.state(instance, status, at_ms)
            for instance in self.states.find_gone(statuses):
                self.state(instance, None, -1)
        names = {
            get_connector(instance)
            for instance, status in statuses.items()
            if self.states.add_stored(instance, status, now_ms=self.now_ms())
        }
        self.status_replayed = True
        for name in names:
            self._notify("history", name)

    def config(
        self, name: ConnectorName, before: Config | None, after: Config | None, written: Written
    ) -> None:
        """Record that a config replaced another one; None: there was none, or the connector was deleted."""
        if self.enabled:
            self.configs.add(name, before, after, written)
            self._notify("configs", name)


def _state_text(instance: Instance, entry: StateEntry) -> str:
    kind = "task" if isinstance(instance, TaskId) else "connector"
    return f"{kind} {instance} {entry.state} on {entry.worker_id}: {entry.cause}"


def disabled() -> Journal:
    """Return a journal that records nothing."""
    return Journal(lambda: 0, 0)

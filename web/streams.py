"""Broadcast of changes to the readers of `GET /changes`, with a bounded history.

Published snapshots and `notify` wake the event loop at most once every 100 ms. One comparison of snapshots then serves
all readers. A reader has a position in the history instead of a queue; a reader that falls behind the history starts
over. Without readers, snapshots are not compared. The history is kept for a minute after the last reader disconnects,
so that a reader can reconnect and resume.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from kraal.cluster.views.changes import Changes, Names, add, changes
from kraal.cluster.views.snapshot import Published, Snapshot
from kraal.core.ids import ConnectorName

MAX_CHANGES: Final = 256
"""Maximum number of changes in the history; each has at most 100 names per kind."""
COMPARE_INTERVAL_S: Final = 0.1
METRICS: Final = "numbers"
"""Kind of change: metrics of tasks."""
METRICS_ELSEWHERE: Final = "numbers elsewhere"
"""Kind of change: metrics of tasks on other workers; not sent to other workers."""
RETENTION_S: Final = 60.0
"""Time for which the history is kept after the last reader disconnects."""
ABORT_DELAY_S: Final = 0.5
"""Delay after `close` before the connections of unresponsive readers are aborted."""


def visible_changes(all_changes: Changes, kinds: frozenset[str] | None, *, to_worker: bool) -> Changes:
    """Return the changes to send to a reader, filtered by `kinds` unless `kinds` is None. Pure.

    A client receives metric changes of all tasks. Another worker receives only metric changes of this worker's tasks,
    so that workers that read each other's changes do not cause further changes.
    """
    visible_names: dict[str, Names] = {}
    for kind, names in all_changes.items():
        if kind != METRICS_ELSEWHERE:
            add(visible_names, kind, names)
        elif not to_worker:
            add(visible_names, METRICS, names)
    return (
        visible_names
        if kinds is None
        else {kind: names for kind, names in visible_names.items() if kind in kinds}
    )


class Reader:
    """An open stream: its position and wake-up event. Not thread-safe; used only on the event loop."""

    def __init__(self, position: int, abort: Callable[[], object]) -> None:
        self.position = position
        """Sequence number of the latest change sent."""
        self.wakeup = asyncio.Event()
        """Set when there are new changes, when the broadcaster closes, or when the client disconnects."""
        self.abort = abort


class Broadcaster:
    """Broadcaster of a worker's changes. Only `notify`, `notify_all`, `close` and `reader_count` are thread-safe."""

    def __init__(self, published: Published) -> None:
        self.boot: Final = secrets.token_hex(6)
        """Random id of this process. Sequence numbers of different processes are unrelated."""
        self._published = published
        self._readers: set[Reader] = set()
        self._history: deque[Changes] = deque(maxlen=MAX_CHANGES)
        self._seq = self._metrics_seq = 0
        self._compared_snapshot: Snapshot | None = None
        """Snapshot at the latest comparison; None while there is no history."""
        self._compared_s = 0.0
        self._expiry: asyncio.TimerHandle | None = None
        # Reentrant, because garbage collection may log while the lock is held, and logging calls `notify`.
        self._lock = threading.RLock()
        # Guarded by _lock:
        self._pending: dict[str, Names] | None = None
        """Changes reported since the latest comparison; None while there is no history."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """Event loop of the readers; None without readers."""
        self._is_waking = False
        self._closed = False
        published.listen(self._wake)

    @property
    def seq(self) -> int:
        """Sequence number of the latest change."""
        return self._seq

    @property
    def metrics_seq(self) -> int:
        """Sequence number of the latest change of task metrics on any worker."""
        return self._metrics_seq

    @property
    def published(self) -> Published:
        """Source of the snapshots whose differences are broadcast."""
        return self._published

    @property
    def reader_count(self) -> int:
        """Number of readers. Thread-safe."""
        return len(self._readers)

    @property
    def is_closed(self) -> bool:
        """Whether `close` has been called, so that streams must end."""
        return self._closed

    def notify(self, kind: str, connector: str | None = None) -> None:
        """Notify readers of a change of one connector, or of all if None. Thread-safe and non-blocking."""
        with self._lock:
            if self._pending is None:
                return
            names = self._pending.get(kind, frozenset())
            if names is None or connector in names:
                return  # the change is already pending
            add(self._pending, kind, None if connector is None else frozenset((ConnectorName(connector),)))
            self._wake_locked()

    def notify_all(self, kind: str, connectors: Iterable[str]) -> None:
        """Notify readers of a change of several connectors. Thread-safe and non-blocking."""
        names = frozenset(map(ConnectorName, connectors))
        with self._lock:
            if self._pending is not None and names:
                add(self._pending, kind, names)
                self._wake_locked()

    def close(self) -> None:
        """Close all streams permanently. Thread-safe; the streams end asynchronously on the event loop."""
        with self._lock:
            self._closed = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._close_streams)

    @contextmanager
    def reading(self, abort: Callable[[], object]) -> Iterator[Reader]:
        """Register a reader for the duration of the context. A slow reader is aborted with `abort` at shutdown."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if self._compared_snapshot is None:
            self._compared_snapshot = self._published.latest
        with self._lock:
            self._loop = asyncio.get_running_loop()
            if self._pending is None:
                self._pending = {}
        self._compare()
        reader = Reader(self._seq, abort)
        self._readers.add(reader)
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            if not self._readers:
                self._schedule_expiry()

    def resume(self, reader: Reader, seq: int) -> bool:
        """Move a reader back to position `seq`; return False if the history lacks changes since `seq`."""
        if not self._seq - len(self._history) <= seq <= self._seq:
            return False
        reader.position = seq
        if seq < self._seq:
            reader.wakeup.set()
        return True

    def take_changes(self, reader: Reader) -> Changes | None:
        """Return the changes since the reader's position, or None if some were dropped. Advances the position."""
        missed_count = self._seq - reader.position
        reader.position = self._seq
        if missed_count > len(self._history):
            return None
        merged_changes: dict[str, Names] = {}
        for change in itertools.islice(self._history, len(self._history) - missed_count, None):
            for kind, names in change.items():
                add(merged_changes, kind, names)
        return merged_changes

    def _wake(self) -> None:
        with self._lock:
            self._wake_locked()

    def _wake_locked(self) -> None:
        if self._loop is not None and not self._is_waking and not self._closed:
            self._is_waking = True
            self._loop.call_soon_threadsafe(self._schedule_comparison)

    def _schedule_comparison(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_at(max(loop.time(), self._compared_s + COMPARE_INTERVAL_S), self._compare)

    def _compare(self) -> None:
        """Record all differences since the latest comparison as one change, and wake the readers if there are any."""
        with self._lock:
            pending_changes, self._is_waking = self._pending, False
            if pending_changes is None or self._compared_snapshot is None:
                return
            self._pending = {}
        self._compared_s = asyncio.get_running_loop().time()
        latest = self._published.latest
        new_changes = dict(changes(self._compared_snapshot, latest))
        self._compared_snapshot = latest
        for kind, names in pending_changes.items():
            add(new_changes, kind, names)
        if new_changes:
            self._seq += 1
            self._history.append(new_changes)
            if METRICS in new_changes or METRICS_ELSEWHERE in new_changes:
                self._metrics_seq = self._seq
            for reader in self._readers:
                reader.wakeup.set()

    def _schedule_expiry(self) -> None:
        """Stop waking the event loop and schedule the removal of the history."""
        with self._lock:
            self._loop = None
            self._is_waking = False
        self._expiry = asyncio.get_running_loop().call_later(RETENTION_S, self._drop_history)

    def _drop_history(self) -> None:
        self._expiry = self._compared_snapshot = None
        self._seq += 1  # invalidates all earlier positions
        self._history.clear()
        with self._lock:
            self._pending = None

    def _close_streams(self) -> None:
        loop = asyncio.get_running_loop()
        for reader in self._readers:
            reader.wakeup.set()
            loop.call_later(ABORT_DELAY_S, self._abort, reader)

    def _abort(self, reader: Reader) -> None:
        if reader in self._readers:
            reader.abort()

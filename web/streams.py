"""Broadcast of changes to the readers of `GET /changes`: what changed since when, in bounded memory.

The herder's publications and `note` wake the event loop, at most once every 100 ms; one comparison of snapshots then
serves all readers. Readers have a position instead of a queue: one that falls behind the kept changes starts over.
Nothing is compared or kept while nobody reads, except for a minute after the last reader left, so that it can resume.
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

KEPT: Final = 256
"""Number of changes that readers can resume after; each has at most 100 names of a kind."""
SPACING_S: Final = 0.1
NUMBERS: Final = "numbers"
"""Kind of a change of the numbers of tasks."""
NUMBERS_ELSEWHERE: Final = "numbers elsewhere"
"""Kind of a change of the numbers of other workers' tasks, which other workers are not told."""
FORGOTTEN_AFTER_S: Final = 60.0
"""Seconds after the last reader left until changes are no longer kept."""
ABORTED_AFTER_S: Final = 0.5
"""Seconds from `close` until connections are aborted whose readers take nothing."""


def told(found: Changes, kinds: frozenset[str] | None, *, to_worker: bool) -> Changes:
    """Return the changes that a reader is told: those of `kinds`, None for all. Pure.

    To a client, numbers are numbers wherever the task runs. A worker is told those of this worker's tasks alone, so
    workers that read each other's changes cause no others.
    """
    shown: dict[str, Names] = {}
    for kind, names in found.items():
        if kind != NUMBERS_ELSEWHERE:
            add(shown, kind, names)
        elif not to_worker:
            add(shown, NUMBERS, names)
    return shown if kinds is None else {kind: names for kind, names in shown.items() if kind in kinds}


class Reader:
    """One open stream: its position, and what wakes it. Thread: the event loop's."""

    def __init__(self, position: int, abort: Callable[[], object]) -> None:
        self.position = position
        """Number of the latest change that it has seen."""
        self.woken = asyncio.Event()
        """Set when there are newer changes, when the broadcaster closes, or by the reader's connection."""
        self.abort = abort


class Broadcaster:
    """The changes of one worker. Thread: the event loop's, except for `note`, `note_all` and `close`: any."""

    def __init__(self, published: Published) -> None:
        self.boot: Final = secrets.token_hex(6)
        """Distinguishes the numbers of this process from those of others."""
        self._published = published
        self._readers: set[Reader] = set()
        self._kept: deque[Changes] = deque(maxlen=KEPT)
        self._seq = self._numbers_seq = 0
        self._seen: Snapshot | None = None
        """The snapshot at the latest change; None while nothing is kept."""
        self._compared_s = 0.0
        self._forget: asyncio.TimerHandle | None = None
        self._lock = threading.RLock()  # a garbage collection within may log, and logging may note
        # Guarded by the lock:
        self._noted: dict[str, Names] | None = None
        """What was noted since the latest change; None while nothing is kept."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the readers; None while there are none."""
        self._waking = False
        self._closed = False
        published.listen(self._wake)

    @property
    def seq(self) -> int:
        """Number of the latest change."""
        return self._seq

    @property
    def numbers_seq(self) -> int:
        """Number of the latest change of the numbers of tasks, on any worker."""
        return self._numbers_seq

    @property
    def published(self) -> Published:
        """Snapshots whose differences are broadcast."""
        return self._published

    @property
    def open(self) -> int:
        """Number of readers. Any thread."""
        return len(self._readers)

    @property
    def closed(self) -> bool:
        """Whether `close` was called: streams have to end."""
        return self._closed

    def note(self, kind: str, connector: str | None = None) -> None:
        """Tell readers that something of a kind changed; None: of any connector. Any thread; returns at once."""
        with self._lock:
            if self._noted is None:
                return
            known = self._noted.get(kind, frozenset())
            if known is None or connector in known:
                return  # a wake-up is under way, or nobody reads
            add(self._noted, kind, None if connector is None else frozenset((ConnectorName(connector),)))
            self._wake_locked()

    def note_all(self, kind: str, connectors: Iterable[str]) -> None:
        """Tell readers that something of a kind changed for these connectors. Any thread; returns at once."""
        names = frozenset(map(ConnectorName, connectors))
        with self._lock:
            if self._noted is not None and names:
                add(self._noted, kind, names)
                self._wake_locked()

    def close(self) -> None:
        """End all streams, for good. Any thread; the streams end on the event loop soon after."""
        with self._lock:
            self._closed = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._end)

    @contextmanager
    def reading(self, abort: Callable[[], object]) -> Iterator[Reader]:
        """Count a reader while it reads; `abort` ends its connection if it takes nothing at the end."""
        if self._forget is not None:
            self._forget.cancel()
            self._forget = None
        if self._seen is None:
            self._seen = self._published.latest
        with self._lock:
            self._loop = asyncio.get_running_loop()
            if self._noted is None:
                self._noted = {}
        self._compare()
        reader = Reader(self._seq, abort)
        self._readers.add(reader)
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            if not self._readers:
                self._left()

    def resume(self, reader: Reader, seq: int) -> bool:
        """Set a reader's position to a change that it saw on an earlier connection; False: it is not kept."""
        if not self._seq - len(self._kept) <= seq <= self._seq:
            return False
        reader.position = seq
        if seq < self._seq:
            reader.woken.set()
        return True

    def take(self, reader: Reader) -> Changes | None:
        """Return what changed since the reader's position, and move it; None: too long ago to say."""
        behind = self._seq - reader.position
        reader.position = self._seq
        if behind > len(self._kept):
            return None
        found: dict[str, Names] = {}
        for each in itertools.islice(self._kept, len(self._kept) - behind, None):
            for kind, names in each.items():
                add(found, kind, names)
        return found

    def _wake(self) -> None:
        with self._lock:
            self._wake_locked()

    def _wake_locked(self) -> None:
        if self._loop is not None and not self._waking and not self._closed:
            self._waking = True
            self._loop.call_soon_threadsafe(self._woken)

    def _woken(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_at(max(loop.time(), self._compared_s + SPACING_S), self._compare)

    def _compare(self) -> None:
        """Make one change of all that differs from the latest one, and wake the readers."""
        with self._lock:
            noted, self._waking = self._noted, False
            if noted is None or self._seen is None:
                return
            self._noted = {}
        self._compared_s = asyncio.get_running_loop().time()
        latest = self._published.latest
        found = dict(changes(self._seen, latest))
        self._seen = latest
        for kind, names in noted.items():
            add(found, kind, names)
        if found:
            self._seq += 1
            self._kept.append(found)
            if NUMBERS in found or NUMBERS_ELSEWHERE in found:
                self._numbers_seq = self._seq
            for reader in self._readers:
                reader.woken.set()

    def _left(self) -> None:
        """Stop waking the event loop, and forget the changes later."""
        with self._lock:
            self._loop = None
            self._waking = False
        self._forget = asyncio.get_running_loop().call_later(FORGOTTEN_AFTER_S, self._forgotten)

    def _forgotten(self) -> None:
        self._forget = self._seen = None
        self._seq += 1  # no earlier position can be resumed
        self._kept.clear()
        with self._lock:
            self._noted = None

    def _end(self) -> None:
        loop = asyncio.get_running_loop()
        for reader in self._readers:
            reader.woken.set()
            loop.call_later(ABORTED_AFTER_S, self._abort, reader)

    def _abort(self, reader: Reader) -> None:
        if reader in self._readers:
            reader.abort()

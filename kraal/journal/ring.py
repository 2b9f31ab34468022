"""Rings: lists that are bounded in bytes and drop their oldest entries first.

A ring is a plain value; `KeyedRings` guards its rings with a lock, inside which nothing is called that logs. A
finalizer may run there nevertheless, on the same thread, and log: such a line is dropped.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

ENTRY_BYTES: Final = 250
"""Memory of an entry without its texts: the object, its integers, its place in the ring."""
KEY_BYTES: Final = 1_000
"""Memory of a ring without entries, and of its place in the mapping: a `deque` allocates a block at once."""
MAX_EMPTY_KEYS: Final = 1_000
"""Maximum number of keys without entries whose counts are stored."""


def text_bytes(*texts: str | None) -> int:
    """Return the memory of texts in bytes, none of which is shared."""
    return sum(getsizeof(text) for text in texts if text is not None)


class ByteRing(Generic[T]):
    """A list with a maximum size in bytes. Not thread-safe."""

    def __init__(self, limit: int, max_entries: int | None = None) -> None:
        """`limit`: maximum size of all entries in bytes; `max_entries`: maximum number of entries, None: any."""
        self._limit = limit
        self._max_entries = max_entries
        self._entries: deque[tuple[T, int]] = deque()
        self.size = 0
        """In bytes."""
        self.dropped = 0
        """Number of entries that were dropped."""

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entry: T, size: int) -> None:
        """Add an entry of `size` bytes, and drop the oldest ones; one that is too big for the ring is not added."""
        if size > self._limit:
            self.dropped += 1
            return
        self._entries.append((entry, size))
        self.size += size
        while self.size > self._limit or (
            self._max_entries is not None and len(self._entries) > self._max_entries
        ):
            self.drop()

    def amend(self, change: Callable[[T], tuple[T, int] | None]) -> None:
        """Replace each entry for which `change` returns another one with its size; then drop the oldest ones."""
        self._entries = deque((change(entry) or (entry, size)) for entry, size in self._entries)
        self.size = sum(size for _, size in self._entries)
        while self.size > self._limit:
            self.drop()

    def drop(self) -> None:
        """Drop the oldest entry. Raises IndexError."""
        _, size = self._entries.popleft()
        self.size -= size
        self.dropped += 1

    def entries(self) -> tuple[T, ...]:
        """Return all entries, oldest first."""
        return tuple(entry for entry, _ in self._entries)


class Guard:
    """A reentrant lock that detects reentrance: `with guard as first`."""

    __slots__ = ("_depth", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0

    def __enter__(self) -> bool:
        """Wait for the lock; return whether the thread did not have it before."""
        self._lock.acquire()
        self._depth += 1
        return self._depth == 1

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self._depth -= 1
        self._lock.release()


@dataclass(frozen=True, slots=True)
class RingContent(Generic[T]):
    """The entries of one key, oldest first, and how many were dropped."""

    entries: tuple[T, ...] = ()
    dropped: int = 0


@dataclass(slots=True)
class KeyedRings(Generic[K, T]):
    """A ring for each key, with a maximum size of each and of all together. Any thread.

    When all together are too big, the key that was written least recently loses its oldest entries. A key without
    entries takes no memory, except for the counts of the latest `MAX_EMPTY_KEYS` that had some.
    """

    each: int
    """Maximum size of one key's entries, in bytes."""
    total: int
    """Maximum size of all keys and their entries, in bytes."""
    max_entries: int | None = None
    """Maximum number of entries of one key; None: any."""
    size: int = 0
    """Size of all keys and their entries, in bytes."""
    _rings: OrderedDict[K, ByteRing[T]] = field(default_factory=OrderedDict)
    """Keys with entries, in the order of their latest writes."""
    _empty: OrderedDict[K, int] = field(default_factory=OrderedDict)
    """Counts of dropped entries of keys without entries."""
    _guard: Guard = field(default_factory=Guard)

    def append(self, key: K, make: Callable[[], tuple[T, int]]) -> bool:
        """Add the entry that `make` returns with its size in bytes; return whether there was room for it.

        `make` is called under the lock, so that the ids that it counts are in the order of entries.
        """
        with self._guard as first:
            if not first:
                return False
            entry, size = make()
            ring = self._ring(key)
            before = ring.size
            ring.append(entry, size)
            self._rings.move_to_end(key)
            self._make_room(key, ring, before)
            return key in self._rings

    def amend(self, key: K, change: Callable[[T], tuple[T, int] | None]) -> None:
        """Replace each entry of a key for which `change` returns another one with its size."""
        with self._guard as first:
            ring = self._rings.get(key)
            if first and ring is not None:
                before = ring.size
                ring.amend(change)
                self._make_room(key, ring, before)

    def read(self, key: K) -> RingContent[T]:
        """Return a key's entries."""
        with self._guard:
            ring = self._rings.get(key)
            if ring is None:
                return RingContent((), self._empty.get(key, 0))
            return RingContent(ring.entries(), ring.dropped)

    def keys(self) -> tuple[K, ...]:
        """Return the keys that have entries, in the order of their latest writes."""
        with self._guard:
            return tuple(self._rings)

    def _ring(self, key: K) -> ByteRing[T]:
        ring = self._rings.get(key)
        if ring is None:
            ring = self._rings[key] = ByteRing(self.each, self.max_entries)
            ring.dropped = self._empty.pop(key, 0)
            self.size += KEY_BYTES + getsizeof(key)
        return ring

    def _make_room(self, key: K, ring: ByteRing[T], before: int) -> None:
        """Make room after a ring was changed, whose size was `before`."""
        self.size += ring.size - before
        while self.size > self.total:
            self._evict(next(iter(self._rings)))
        if key in self._rings and not ring:
            self._remove(key)

    def _evict(self, key: K) -> None:
        """Drop the oldest entry of a key, and the key with its last one."""
        ring = self._rings[key]
        before = ring.size
        if ring:
            ring.drop()
        self.size += ring.size - before
        if not ring:
            self._remove(key)

    def _remove(self, key: K) -> None:
        """Remove a key without entries, except for its count of dropped entries unless its name is very long."""
        dropped = self._rings.pop(key).dropped
        self.size -= KEY_BYTES + getsizeof(key)
        if getsizeof(key) <= KEY_BYTES:
            self._empty[key] = dropped
        if len(self._empty) > MAX_EMPTY_KEYS:
            self._empty.popitem(last=False)


_MORE: Final = "…"


def cut(text: str, limit: int) -> str:
    """Return a text of at most `limit` bytes of UTF-8, which ends with `…` if something was cut off."""
    if len(text) * 4 <= limit:
        return text
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return text
    return encoded[: limit - len(_MORE.encode())].decode("utf-8", "ignore") + _MORE

"""Ring buffers: lists that are bounded in bytes and drop their oldest entries first.

`KeyedRings` guards its rings with a lock, and does not log while it holds the lock. A finalizer may run on the same
thread while the lock is held; the lines that the finalizer logs are dropped.
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
"""Memory of an entry without its strings: the object, its integers and its slot in the ring."""
KEY_BYTES: Final = 1_000
"""Memory of an empty ring and its slot in the mapping; a `deque` allocates a block at once."""
MAX_EMPTY_KEYS: Final = 1_000
"""Maximum number of keys without entries whose counts of dropped entries are stored."""


def text_bytes(*texts: str | None) -> int:
    """Return the memory of strings in bytes, assuming that the strings are not shared."""
    return sum(getsizeof(text) for text in texts if text is not None)


class ByteRing(Generic[T]):
    """A list with a maximum size in bytes. Not thread-safe."""

    def __init__(self, max_bytes: int, max_entries: int | None = None) -> None:
        """Create an empty ring; `max_bytes` is its maximum size, `max_entries` the maximum number of entries."""
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._entries: deque[tuple[T, int]] = deque()
        self.size = 0
        """Size of all entries in bytes."""
        self.dropped = 0
        """Number of entries that were dropped."""

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entry: T, size: int) -> None:
        """Add an entry of `size` bytes, and drop the oldest entries beyond the limits.

        An entry larger than the ring is dropped.
        """
        if size > self._max_bytes:
            self.dropped += 1
            return
        self._entries.append((entry, size))
        self.size += size
        while self.size > self._max_bytes or (
            self._max_entries is not None and len(self._entries) > self._max_entries
        ):
            self.drop()

    def amend(self, change: Callable[[T], tuple[T, int] | None]) -> None:
        """Replace each entry for which `change` returns a new entry with its size; then drop excess entries."""
        self._entries = deque((change(entry) or (entry, size)) for entry, size in self._entries)
        self.size = sum(size for _, size in self._entries)
        while self.size > self._max_bytes:
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
    """A reentrant lock that detects reentrance: `with guard as is_outermost`."""

    __slots__ = ("_depth", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0

    def __enter__(self) -> bool:
        """Acquire the lock; return whether the thread did not hold the lock before."""
        self._lock.acquire()
        self._depth += 1
        return self._depth == 1

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self._depth -= 1
        self._lock.release()


@dataclass(frozen=True, slots=True)
class RingContent(Generic[T]):
    """The entries of one key, oldest first, and the number of dropped entries."""

    entries: tuple[T, ...] = ()
    dropped: int = 0


@dataclass(slots=True)
class KeyedRings(Generic[K, T]):
    """A ring for each key, with a maximum size of each ring and of all rings. Thread-safe.

    If the total is exceeded, the oldest entries of the least recently written key are dropped. A key without entries
    uses no memory, except for the counts of dropped entries of the latest `MAX_EMPTY_KEYS` keys.
    """

    key_limit: int
    """Maximum size of one key's entries, in bytes."""
    total_limit: int
    """Maximum size of all keys and their entries, in bytes."""
    max_entries: int | None = None
    """Maximum number of entries of one key, if limited."""
    size: int = 0
    """Size of all keys and their entries, in bytes."""
    _rings: OrderedDict[K, ByteRing[T]] = field(default_factory=OrderedDict)
    """Keys with entries, in the order of their latest writes."""
    _dropped_counts: OrderedDict[K, int] = field(default_factory=OrderedDict)
    """Counts of dropped entries of keys without entries."""
    _guard: Guard = field(default_factory=Guard)

    def append(self, key: K, make: Callable[[], tuple[T, int]]) -> bool:
        """Add the entry that `make` returns with its size in bytes; return whether the key has entries afterwards.

        `make` is called with the lock held, so that the ids that it generates are in the order of entries.
        """
        with self._guard as is_outermost:
            if not is_outermost:
                return False
            entry, size = make()
            ring = self._ring(key)
            size_before = ring.size
            ring.append(entry, size)
            self._rings.move_to_end(key)
            self._make_room(key, ring, size_before)
            return key in self._rings

    def amend(self, key: K, change: Callable[[T], tuple[T, int] | None]) -> None:
        """Replace each entry of a key for which `change` returns a new entry with its size."""
        with self._guard as is_outermost:
            ring = self._rings.get(key)
            if is_outermost and ring is not None:
                size_before = ring.size
                ring.amend(change)
                self._make_room(key, ring, size_before)

    def read(self, key: K) -> RingContent[T]:
        """Return a key's entries."""
        with self._guard:
            ring = self._rings.get(key)
            if ring is None:
                return RingContent((), self._dropped_counts.get(key, 0))
            return RingContent(ring.entries(), ring.dropped)

    def keys(self) -> tuple[K, ...]:
        """Return the keys that have entries, in the order of their latest writes."""
        with self._guard:
            return tuple(self._rings)

    def _ring(self, key: K) -> ByteRing[T]:
        ring = self._rings.get(key)
        if ring is None:
            ring = self._rings[key] = ByteRing(self.key_limit, self.max_entries)
            ring.dropped = self._dropped_counts.pop(key, 0)
            self.size += KEY_BYTES + getsizeof(key)
        return ring

    def _make_room(self, key: K, ring: ByteRing[T], size_before: int) -> None:
        """Evict entries after a change of a ring whose size was `size_before`."""
        self.size += ring.size - size_before
        while self.size > self.total_limit:
            self._evict(next(iter(self._rings)))
        if key in self._rings and not ring:
            self._remove(key)

    def _evict(self, key: K) -> None:
        """Drop the oldest entry of a key; also remove the key if it has no other entry."""
        ring = self._rings[key]
        size_before = ring.size
        if ring:
            ring.drop()
        self.size += ring.size - size_before
        if not ring:
            self._remove(key)

    def _remove(self, key: K) -> None:
        """Remove a key without entries, but keep the count of its dropped entries unless the key is very large."""
        dropped = self._rings.pop(key).dropped
        self.size -= KEY_BYTES + getsizeof(key)
        if getsizeof(key) <= KEY_BYTES:
            self._dropped_counts[key] = dropped
        if len(self._dropped_counts) > MAX_EMPTY_KEYS:
            self._dropped_counts.popitem(last=False)


_ELLIPSIS: Final = "…"


def truncate(text: str, limit: int) -> str:
    """Truncate a text to at most `limit` bytes of UTF-8, with `…` as the last character."""
    if len(text) * 4 <= limit:
        return text
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return text
    return encoded[: limit - len(_ELLIPSIS.encode())].decode("utf-8", "ignore") + _ELLIPSIS

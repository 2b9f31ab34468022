"""Response cache: bodies of responses to GET requests, valid until the next snapshot is published.

Dashboards repeat the same few GETs, and the responses stay the same until the cluster changes. A cached GET costs one
dictionary look-up instead of routing, rendering and encoding. Entries need no invalidation, because each snapshot has
its own responses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraal.cluster.views.snapshot import Snapshot

if TYPE_CHECKING:
    from starlette.types import Scope

Key = tuple[bytes, bytes]
"""Raw path and query string."""

_MAX_RESPONSES = 4_096
_MAX_BYTES = 64 * 1024 * 1024


def cache_key(scope: Scope) -> Key:
    """Return the cache key of a GET."""
    return scope["raw_path"], scope["query_string"]


class ResponseCache:
    """Response bodies of one snapshot by path and query. Not thread-safe; used only on the event loop."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._bodies: dict[Key, bytes] = {}
        self._size = 0

    def get(self, snapshot: Snapshot, key: Key) -> bytes | None:
        """Return the body cached for this snapshot, if any."""
        return self._bodies.get(key) if snapshot is self._snapshot else None

    def put(self, snapshot: Snapshot, key: Key, body: bytes) -> None:
        """Cache a body. Evicts all other bodies if they belong to another snapshot or if a limit would be exceeded."""
        is_full = len(self._bodies) >= _MAX_RESPONSES or self._size + len(body) > _MAX_BYTES
        if snapshot is not self._snapshot or is_full:
            self._snapshot = snapshot
            self._bodies = {}
            self._size = 0
        self._bodies[key] = body
        self._size += len(body)

"""Requests that wait until their record is read back: read-your-writes by log offset.

A request is answered when the record that it wrote has been read, so that a GET right after it sees the change. The
writer's answer (the offset) and the reader's record may arrive in either order.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.runtime.mailbox import Reply

Then = Callable[[], None]
"""Called when the record has been read; sets the reply or starts what will set it."""


@dataclass(frozen=True, slots=True)
class _Wait:
    reply: Reply[Any]
    then: Then
    keys: frozenset[str] = frozenset()
    """Keys of the records."""

    def go_on(self) -> None:
        try:
            self.then()
        except Exception as error:  # noqa: BLE001 - its request's answer, not the herder's death
            self.reply.fail(error)


class PendingWrites:
    """Requests by the token of their write, then by the offset it got. Used on the herder's thread only.

    `tokens` outlives the herder, so that an answer to a dead herder's write never matches a new one.
    """

    def __init__(self, tokens: Iterator[int]) -> None:
        self._tokens = tokens
        self._unplaced: dict[int, _Wait] = {}
        self._placed: list[tuple[int, int, _Wait]] = []
        self._tie = itertools.count()
        self._behind: list[tuple[str, _Wait]] = []
        """Requests that wait until no record with this key is under way."""
        self._next_offset = 0
        """All records before this offset have been read."""

    def expect(self, reply: Reply[Any], then: Then, keys: Iterable[str] = ()) -> int:
        """Register a wait for records with these keys; return the token to write with."""
        token = next(self._tokens)
        self._unplaced[token] = _Wait(reply, then, frozenset(keys))
        return token

    def has(self, key: str) -> bool:
        """Return whether a record with this key is being written, or is written and not read yet."""
        placed = (wait for _, _, wait in self._placed)
        return any(key in wait.keys for wait in (*self._unplaced.values(), *placed))

    def behind(self, key: str, reply: Reply[Any], then: Then) -> None:
        """Call `then` once `has` is False for the key; `reply` fails with what it raises."""
        self._behind.append((key, _Wait(reply, then)))
        self._go_on()

    def token(self) -> int:
        """Return a token for a write without a waiting request."""
        return next(self._tokens)

    def appended(self, token: int, offset: int) -> None:
        """Record the offset of a write; the record may have been read already."""
        wait = self._unplaced.pop(token, None)
        if wait is not None:
            heapq.heappush(self._placed, (offset, next(self._tie), wait))
            self.read(self._next_offset)

    def failed(self, token: int, error: Exception) -> None:
        """Fail the request, because its write failed."""
        wait = self._unplaced.pop(token, None)
        if wait is not None:
            wait.reply.fail(error)
            self._go_on()

    def lose(self, error: Exception) -> None:
        """Fail all pending writes: the writer died, and it is unknown whether they were written."""
        for token in list(self._unplaced):
            self.failed(token, error)

    def read(self, next_offset: int) -> None:
        """Continue the requests whose records precede `next_offset`."""
        self._next_offset = max(self._next_offset, next_offset)
        while self._placed and self._placed[0][0] < self._next_offset:
            _, _, wait = heapq.heappop(self._placed)
            wait.go_on()
        self._go_on()

    def _go_on(self) -> None:
        waiting, self._behind = self._behind, []
        for key, wait in waiting:
            if self.has(key):
                self._behind.append((key, wait))
            else:
                wait.go_on()

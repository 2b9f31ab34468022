"""Writes of the herder, and the requests that wait until their records are read back (read-your-writes by log offset).

A request completes when the record that it wrote has been read, so that a subsequent GET returns the change. The
writer's reply (the offset) and the reader's record may arrive in either order.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.messages.herder import AppendFailed
from actors.messages.stores import Append
from kraal.core.errors import RetryableConflict, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from actors.herding.state import ActorReferences
    from actors.messages.herder import Appended
    from actors.runtime.mailbox import Reply
    from kraal.core.records import Entry

Then = Callable[[], None]
"""Called when the record has been read; sets the reply now or later."""


@dataclass(frozen=True, slots=True)
class _Wait:
    reply: Reply[Any]
    then: Then
    keys: frozenset[str] = frozenset()
    """Keys of the records."""

    def run(self) -> None:
        try:
            self.then()
        except Exception as error:  # noqa: BLE001 - fails the request, not the herder
            self.reply.fail(error)


class PendingWrites:
    """Waiting requests, by token until the write is acknowledged, then by log offset. Used on the herder's thread only.

    `tokens` outlives the herder, so that the reply to a dead herder's write never matches a new write.
    """

    def __init__(self, tokens: Iterator[int]) -> None:
        self._tokens = tokens
        self._unacknowledged: dict[int, _Wait] = {}
        self._acknowledged: list[tuple[int, int, _Wait]] = []
        self._tie_breaker = itertools.count()
        self._blocked: list[tuple[str, _Wait]] = []
        """Keys and requests; each request waits until no record with its key is pending."""
        self._next_offset = 0
        """All records before this offset have been read."""

    def expect(self, reply: Reply[Any], then: Then, keys: Iterable[str] = ()) -> int:
        """Register a wait for records with these keys; return the token of the write."""
        token = next(self._tokens)
        self._unacknowledged[token] = _Wait(reply, then, frozenset(keys))
        return token

    def is_pending(self, key: str) -> bool:
        """Return whether a record with this key is being written, or was written and not read yet."""
        acknowledged = (wait for _, _, wait in self._acknowledged)
        return any(key in wait.keys for wait in (*self._unacknowledged.values(), *acknowledged))

    def run_after(self, key: str, reply: Reply[Any], then: Then) -> None:
        """Call `then` once `is_pending` is False for the key; an error that `then` raises fails `reply`."""
        self._blocked.append((key, _Wait(reply, then)))
        self._run_unblocked()

    def next_token(self) -> int:
        """Return a token for a write without a waiting request."""
        return next(self._tokens)

    def on_appended(self, token: int, offset: int) -> None:
        """Record the offset of a write; the record may have been read already."""
        wait = self._unacknowledged.pop(token, None)
        if wait is not None:
            heapq.heappush(self._acknowledged, (offset, next(self._tie_breaker), wait))
            self.on_read(self._next_offset)

    def on_failed(self, token: int, error: Exception) -> None:
        """Fail the request of a failed write."""
        wait = self._unacknowledged.pop(token, None)
        if wait is not None:
            wait.reply.fail(error)
            self._run_unblocked()

    def fail_all(self, error: Exception) -> None:
        """Fail all pending writes after the writer died; their results are unknown."""
        for token in list(self._unacknowledged):
            self.on_failed(token, error)

    def on_read(self, next_offset: int) -> None:
        """Complete the requests whose records precede `next_offset`."""
        self._next_offset = max(self._next_offset, next_offset)
        while self._acknowledged and self._acknowledged[0][0] < self._next_offset:
            _, _, wait = heapq.heappop(self._acknowledged)
            wait.run()
        self._run_unblocked()

    def _run_unblocked(self) -> None:
        blocked_requests, self._blocked = self._blocked, []
        for key, wait in blocked_requests:
            if self.is_pending(key):
                self._blocked.append((key, wait))
            else:
                wait.run()


class LogWrites:
    """The herder's writes to both logs. Used on the herder's thread only."""

    def __init__(self, actors: ActorReferences, tokens: Iterator[int]) -> None:
        """`tokens` outlives the herder."""
        self._actors = actors
        self.config = PendingWrites(tokens)
        """Requests that wait for a record of the config log."""
        self.status = PendingWrites(tokens)
        """Requests that wait for a record of the status log."""
        self._pending_status_tokens: set[int] = set()
        """Tokens of pending status writes."""

    @property
    def has_pending_statuses(self) -> bool:
        """Whether a status write is pending."""
        return bool(self._pending_status_tokens)

    def next_token(self) -> int:
        """Return a token for a message that writes no record."""
        return self.config.next_token()

    def write_config(
        self, entries: Sequence[Entry], reply: Reply[Any], then: Then, *, leased: bool = True
    ) -> None:
        """Write to the config log; `then` runs when the records have been read back. If the write fails, `reply` fails.

        `leased`: write only while this worker holds a lease; required for leader-only records.
        """
        token = self.config.expect(reply, then, (entry.key for entry in entries))
        append = Append(token=token, entries=entries, reply_to=self._actors.herder, leased=leased)
        self._actors.config_writer.tell(append)

    def write_status(
        self, entries: Sequence[Entry], reply: Reply[None] | None = None, *, leased: bool = False
    ) -> None:
        """Write to the status log with retries; `reply`, if any, fails if the first attempt fails.

        `leased`: write only while this worker holds a lease.
        """
        if not entries:
            return
        token = self.status.next_token() if reply is None else self.status.expect(reply, _do_nothing)
        self._pending_status_tokens.add(token)
        append = Append(token=token, entries=entries, reply_to=self._actors.herder, leased=leased)
        self._actors.status_writer.tell(append)

    def on_append_result(self, message: Appended | AppendFailed) -> bool:
        """Handle a writer's reply; return whether the reply concerns a status write."""
        for pending_writes in (self.config, self.status):
            if isinstance(message, AppendFailed):
                is_retryable = isinstance(message.error, RetryableConflict)
                error = message.error if is_retryable else StoreError(str(message.error))
                pending_writes.on_failed(message.token, error)
            else:
                pending_writes.on_appended(message.token, message.offset)
        is_status_write = message.token in self._pending_status_tokens
        self._pending_status_tokens.discard(message.token)
        return is_status_write

    def on_status_writer_lost(self, error: Exception) -> None:
        """Fail pending requests after the writer of the status log died."""
        self.status.fail_all(error)
        self._pending_status_tokens.clear()


def _do_nothing() -> None:
    """No-op: the status tracker completes its requests when it reads the records."""

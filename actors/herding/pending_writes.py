"""Writes of the herder, and the requests that wait until their record is read back: read-your-writes by log offset.

A request is answered when the record that it wrote has been read, so that a GET right after it sees the change. The
writer's answer (the offset) and the reader's record may arrive in either order.
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
"""Called when the record has been read; sets the reply or starts what will set it."""


@dataclass(frozen=True, slots=True)
class _Wait:
    reply: Reply[Any]
    then: Then
    keys: frozenset[str] = frozenset()
    """Keys of the records."""

    def run(self) -> None:
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

    def is_pending(self, key: str) -> bool:
        """Return whether a record with this key is being written, or is written and not read yet."""
        placed = (wait for _, _, wait in self._placed)
        return any(key in wait.keys for wait in (*self._unplaced.values(), *placed))

    def run_after(self, key: str, reply: Reply[Any], then: Then) -> None:
        """Call `then` once `is_pending` is False for the key; `reply` fails with what it raises."""
        self._behind.append((key, _Wait(reply, then)))
        self._continue_waiting()

    def next_token(self) -> int:
        """Return a token for a write without a waiting request."""
        return next(self._tokens)

    def on_appended(self, token: int, offset: int) -> None:
        """Record the offset of a write; the record may have been read already."""
        wait = self._unplaced.pop(token, None)
        if wait is not None:
            heapq.heappush(self._placed, (offset, next(self._tie), wait))
            self.on_read(self._next_offset)

    def on_failed(self, token: int, error: Exception) -> None:
        """Fail the request, because its write failed."""
        wait = self._unplaced.pop(token, None)
        if wait is not None:
            wait.reply.fail(error)
            self._continue_waiting()

    def lose(self, error: Exception) -> None:
        """Fail all pending writes: the writer died, and it is unknown whether they were written."""
        for token in list(self._unplaced):
            self.on_failed(token, error)

    def on_read(self, next_offset: int) -> None:
        """Continue the requests whose records precede `next_offset`."""
        self._next_offset = max(self._next_offset, next_offset)
        while self._placed and self._placed[0][0] < self._next_offset:
            _, _, wait = heapq.heappop(self._placed)
            wait.run()
        self._continue_waiting()

    def _continue_waiting(self) -> None:
        waiting, self._behind = self._behind, []
        for key, wait in waiting:
            if self.is_pending(key):
                self._behind.append((key, wait))
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
        self._statuses_owed: set[int] = set()
        """Tokens of unanswered status writes."""

    @property
    def owes_statuses(self) -> bool:
        """Whether a status write is not answered yet."""
        return bool(self._statuses_owed)

    def next_token(self) -> int:
        """Return a token for a message without a record."""
        return self.config.next_token()

    def write_config(
        self, entries: Sequence[Entry], reply: Reply[Any], then: Then, *, leased: bool = True
    ) -> None:
        """Write to the config log; `then` runs when the records have been read back, or `reply` fails.

        `leased`: write only with a lease, for records that only the leader may write.
        """
        token = self.config.expect(reply, then, (entry.key for entry in entries))
        append = Append(token=token, entries=entries, reply_to=self._actors.herder, leased=leased)
        self._actors.config_writer.tell(append)

    def write_status(
        self, entries: Sequence[Entry], reply: Reply[None] | None = None, *, leased: bool = False
    ) -> None:
        """Write to the status log, retrying until it succeeds; `reply`, if any, fails with the first attempt.

        `leased`: write only with a lease.
        """
        if not entries:
            return
        token = self.status.next_token() if reply is None else self.status.expect(reply, _nothing)
        self._statuses_owed.add(token)
        append = Append(token=token, entries=entries, reply_to=self._actors.herder, leased=leased)
        self._actors.status_writer.tell(append)

    def on_answer(self, message: Appended | AppendFailed) -> bool:
        """Handle a writer's answer; return whether it is about statuses."""
        for pending in (self.config, self.status):
            if isinstance(message, AppendFailed):
                momentary = isinstance(message.error, RetryableConflict)
                error = message.error if momentary else StoreError(str(message.error))
                pending.on_failed(message.token, error)
            else:
                pending.on_appended(message.token, message.offset)
        is_about_statuses = message.token in self._statuses_owed
        self._statuses_owed.discard(message.token)
        return is_about_statuses

    def lose_status_writer(self, error: Exception) -> None:
        """Fail pending requests, because the writer of the status log died; it answers nothing more."""
        self.status.lose(error)
        self._statuses_owed.clear()


def _nothing() -> None:
    """Do nothing: waiting requests check the records when they are read."""

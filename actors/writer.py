"""Appends to one internal log; the only actor that waits for its disk or its broker.

Two ways to fail. The config log answers its failures: somebody waits for the record. The status log retries by
itself, because nobody waits and a status must not be lost to a passing fault; a value that a newer one of the
same key has overtaken is not written again (contract 3.3, S4).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, assert_never

from actors.messages.herder import Appended, AppendFailed
from actors.messages.stores import Append, AppendAgain, ClaimWrites, ReadOn, WriterMessage
from actors.system import Begin
from kraal.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.clock import Clock
    from actors.mailbox import Address
    from kraal.records import Entry
    from kraal.stores.api import Log

log = logging.getLogger(__name__)

RETRY_FIRST_S = 0.1
RETRY_MAX_S = 10.0
CLAIM_RETRY_S = 0.25


class Writer:
    """Owns the writing side of one log."""

    def __init__(
        self,
        *,
        address: Address,
        clock: Clock,
        target: Log,
        reader: Address,
        retries: bool,
        lease: Callable[[], bool],
    ) -> None:
        """`retries`: what cannot be written is tried again; `lease`: whether this worker may act for its group."""
        self._address = address
        self._clock = clock
        self._log = target
        self._reader = reader
        self._retries = retries
        self._lease = lease
        self._owed: dict[str, Entry] = {}
        """The newest entry of each key whose write failed and is to be tried again."""

    def receive(self, message: WriterMessage) -> None:
        """Handle one message; blocks while the log is written."""
        match message:
            case Begin():
                return
            case Append():
                self._append(message)
            case AppendAgain():
                self._again(message)
            case ClaimWrites():
                self._claim()
            case _:
                assert_never(message)

    def _append(self, message: Append) -> None:
        if message.leased and not self._lease():
            error = StoreError("the lease is over: the work may be somebody else's by now")
            message.reply_to.tell(AppendFailed(token=message.token, error=error))
            return
        for entry in message.entries:
            self._owed.pop(entry.key, None)
        try:
            offset = self._log.append(message.entries)
        except StoreError as error:
            if self._retries:
                self._retry(message.entries, attempt=0, error=error)
            message.reply_to.tell(AppendFailed(token=message.token, error=error))
            return
        self._reader.tell(ReadOn())
        message.reply_to.tell(Appended(token=message.token, offset=offset))

    def _claim(self) -> None:
        try:
            self._log.claim()
        except StoreError as error:
            log.warning("could not claim the %s log, trying again: %s", self._log.name, error)
            self._clock.after(CLAIM_RETRY_S, self._address, ClaimWrites())

    def _again(self, message: AppendAgain) -> None:
        entries = [e for e in message.entries if self._owed.get(e.key) is e]
        if not entries:
            return
        try:
            self._log.append(entries)
        except StoreError as error:
            self._retry(entries, attempt=message.attempt + 1, error=error)
            return
        for entry in entries:
            del self._owed[entry.key]
        self._reader.tell(ReadOn())

    def _retry(self, entries: Sequence[Entry], *, attempt: int, error: StoreError) -> None:
        delay = min(RETRY_FIRST_S * 2**attempt, RETRY_MAX_S)
        log.warning("could not write to the %s log, trying again in %g s: %s", self._log.name, delay, error)
        self._owed.update({e.key: e for e in entries})
        self._clock.after(delay, self._address, AppendAgain(entries=entries, attempt=attempt))

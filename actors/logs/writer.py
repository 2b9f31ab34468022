"""Writer of one internal log; the only actor of a worker that writes to the log.

A failed write is reported to the herder. The status log's writer also retries the write, because a temporary failure
must not lose a status; a value that was superseded by a newer one of the same key is not written again
(KafkaStatusBackingStore.send).

The process may have been suspended or disconnected before a write, so each attempt checks the lease. While another
worker may have taken over this worker's role, `leased` records are not written or retried, and the log is not claimed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, assert_never

from actors.messages.herder import Appended, AppendFailed
from actors.messages.stores import Append, ClaimWrites, ReadNext, RetryAppend, WriterMessage
from actors.runtime.system import Begin
from kraal.core.errors import RetryableConflict, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.runtime.clock import Clock
    from actors.runtime.mailbox import Address
    from kraal.core.records import Entry
    from kraal.stores.api import Log

log = logging.getLogger(__name__)

FIRST_RETRY_DELAY_S = 0.1
MAX_RETRY_DELAY_S = 10.0
CLAIM_RETRY_DELAY_S = 0.25
REBALANCE_EXPECTED = "Request cannot be completed because a rebalance is expected"
"""Connect's text for a worker that is about to rejoin. Source: DistributedHerder.checkRebalanceNeeded (Kafka 4.4.0)."""


class Writer:
    """Writes to one log."""

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
        """`retries`: whether to retry failed writes; `lease`: returns whether this worker may act for its group."""
        self._address = address
        self._clock = clock
        self._log = target
        self._reader = reader
        self._retries = retries
        self._lease = lease
        self._pending_retries: dict[str, Entry] = {}
        """The newest entry of each key whose failed write will be retried."""

    def receive(self, message: WriterMessage) -> None:
        """Handle one message. Blocks while writing to the log."""
        match message:
            case Begin():
                return
            case Append():
                self._append(message)
            case RetryAppend():
                self._retry_append(message)
            case ClaimWrites():
                self._claim()
            case _:
                assert_never(message)

    def _append(self, message: Append) -> None:
        for entry in message.entries:
            self._pending_retries.pop(entry.key, None)
        if message.leased and not self._lease():
            message.reply_to.tell(
                AppendFailed(token=message.token, error=RetryableConflict(REBALANCE_EXPECTED))
            )
            return
        try:
            offset = self._log.append(message.entries)
        except StoreError as error:
            if self._retries:
                self._retry(message.entries, attempt=0, leased=message.leased, error=error)
            message.reply_to.tell(AppendFailed(token=message.token, error=error))
            return
        self._reader.tell(ReadNext())
        message.reply_to.tell(Appended(token=message.token, offset=offset))

    def _claim(self) -> None:
        if not self._lease():
            # Claiming would fence a newer leader. If this worker still leads, its next fenced write triggers a claim.
            return
        try:
            self._log.claim()
        except StoreError as error:
            log.warning("Failed to claim the %s log, retrying: %s", self._log.name, error)
            self._clock.after(CLAIM_RETRY_DELAY_S, self._address, ClaimWrites())

    def _retry_append(self, message: RetryAppend) -> None:
        entries = [e for e in message.entries if self._pending_retries.get(e.key) is e]
        if not entries:
            return
        if message.leased and not self._lease():
            # The herder writes the statuses again after its next assignment.
            for entry in entries:
                del self._pending_retries[entry.key]
            return
        try:
            self._log.append(entries)
        except StoreError as error:
            self._retry(entries, attempt=message.attempt + 1, leased=message.leased, error=error)
            return
        for entry in entries:
            del self._pending_retries[entry.key]
        self._reader.tell(ReadNext())

    def _retry(self, entries: Sequence[Entry], *, attempt: int, leased: bool, error: StoreError) -> None:
        delay = min(FIRST_RETRY_DELAY_S * 2**attempt, MAX_RETRY_DELAY_S)
        log.warning("Failed to write to the %s log, retrying in %g s: %s", self._log.name, delay, error)
        self._pending_retries.update({e.key: e for e in entries})
        retry = RetryAppend(entries=entries, attempt=attempt, leased=leased)
        self._clock.after(delay, self._address, retry)

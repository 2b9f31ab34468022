"""Owner of the offset store. Offsets that tasks send during a write, or soon after it, are written as one batch.

A write for a hundred tasks costs as much as for one task: one replacement and fsync of a file, or one acknowledgement
from Kafka.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, assert_never

from actors.messages.stores import (
    FlushOffsets,
    LoadOffsets,
    OffsetsFailed,
    OffsetsLoaded,
    OffsetsMessage,
    OffsetsStored,
    StoreOffsets,
)
from actors.runtime.system import Begin
from kraal.core.errors import StoreError
from kraal.core.lease import LEASE_EXPIRED

if TYPE_CHECKING:
    from actors.runtime.clock import Clock
    from actors.runtime.mailbox import Address
    from kraal.core.ids import ConnectorName
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.stores.api import OffsetStore

log = logging.getLogger(__name__)

MIN_WRITE_INTERVAL_S = 0.02
"""Minimum interval between two writes by a worker process; an idle keeper writes at once."""
RECENT_WRITE_S = 0.1
"""Age of the last write below which the next one is delayed by at least a quarter of the write interval."""


class OffsetKeeper:
    """Reads and writes source offsets. Blocks only its own thread."""

    def __init__(
        self, *, address: Address, store: OffsetStore, clock: Clock, write_interval_s: float = 0.0
    ) -> None:
        """`write_interval_s`: minimum interval between two writes."""
        self._address = address
        self._store = store
        self._clock = clock
        self._write_interval_s = write_interval_s
        self._waiting: list[StoreOffsets] = []
        self._flushed_s = -math.inf
        """End of the last write, in monotonic seconds."""

    def receive(self, message: OffsetsMessage) -> None:
        """Handle one message."""
        match message:
            case Begin():
                return
            case LoadOffsets():
                self._flush()
                self._load(message)
            case StoreOffsets():
                self._waiting.append(message)
                if len(self._waiting) == 1:
                    self._flush_soon()
            case FlushOffsets():
                self._flush()
            case _:
                assert_never(message)

    def _load(self, message: LoadOffsets) -> None:
        try:
            offsets = self._store.load(message.connector)
        except StoreError as error:
            message.reply_to.tell(OffsetsFailed(token=message.token, error=error))
            return
        message.reply_to.tell(OffsetsLoaded(token=message.token, offsets=offsets))

    def _flush_soon(self) -> None:
        """Write after the messages already in the mailbox, or after a short delay if the last write is recent."""
        since_s = self._clock.now() - self._flushed_s
        if self._write_interval_s and since_s < RECENT_WRITE_S:
            delay_s = max(self._write_interval_s / 4, self._write_interval_s - since_s)
            self._clock.after(delay_s, self._address, FlushOffsets())
        else:
            self._address.tell(FlushOffsets())

    def _flush(self) -> None:
        messages = [message for message in self._waiting if self._may_be_stored(message)]
        self._waiting = []
        if not messages:
            return
        changes: dict[ConnectorName, dict[SourcePartition, Offset | None]] = {}
        for message in messages:
            changes.setdefault(message.connector, {}).update(message.offsets)
        try:
            self._store.store(changes)
        except StoreError as error:
            log.warning("Failed to store offsets: %s", error)
            for message in messages:
                message.reply_to.tell(OffsetsFailed(token=message.token, error=error))
            return
        finally:
            self._flushed_s = self._clock.now()
        for message in messages:
            message.reply_to.tell(OffsetsStored(token=message.token))

    def _may_be_stored(self, message: StoreOffsets) -> bool:
        if message.lease():
            return True
        log.warning("Discarded offsets of %s because %s", message.connector, LEASE_EXPIRED)
        message.reply_to.tell(OffsetsFailed(token=message.token, error=StoreError(LEASE_EXPIRED)))
        return False

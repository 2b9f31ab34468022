"""Owner of the offset store. Offsets that tasks send during a write are stored together in the next write."""

from __future__ import annotations

import logging
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

if TYPE_CHECKING:
    from actors.runtime.mailbox import Address
    from kraal.core.ids import ConnectorName
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.stores.api import OffsetStore

log = logging.getLogger(__name__)


class OffsetKeeper:
    """Reads and writes source offsets; blocks only its own thread."""

    def __init__(self, *, address: Address, store: OffsetStore) -> None:
        self._address = address
        self._store = store
        self._waiting: list[StoreOffsets] = []

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
                    self._address.tell(FlushOffsets())
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

    def _flush(self) -> None:
        waiting = [message for message in self._waiting if self._may_be_stored(message)]
        self._waiting = []
        if not waiting:
            return
        changes: dict[ConnectorName, dict[SourcePartition, Offset | None]] = {}
        for message in waiting:
            changes.setdefault(message.connector, {}).update(message.offsets)
        try:
            self._store.store(changes)
        except StoreError as error:
            log.warning("Failed to store offsets: %s", error)
            for message in waiting:
                message.reply_to.tell(OffsetsFailed(token=message.token, error=error))
            return
        for message in waiting:
            message.reply_to.tell(OffsetsStored(token=message.token))

    def _may_be_stored(self, message: StoreOffsets) -> bool:
        if message.lease():
            return True
        log.warning("Discarded offsets of %s because the lease has expired", message.connector)
        message.reply_to.tell(OffsetsFailed(token=message.token, error=StoreError("the lease has expired")))
        return False

"""The offset keeper alone: what it does not store."""

from __future__ import annotations

from actors.messages.stores import FlushOffsets, OffsetsFailed, OffsetsStored, StoreOffsets
from actors.offsets.store import OffsetKeeper
from actors.runtime.mailbox import Address
from kraal.core.ids import ConnectorName
from kraal.core.offsets import SourcePartition
from kraal.stores.memory import MemoryOffsets

NAME = ConnectorName("numbers")
ONE, TWO = SourcePartition.of({"task": 1}), SourcePartition.of({"task": 2})


def test_offsets_whose_lease_expired_are_rejected_and_others_stored() -> None:
    """A worker that stood still with a store in its mailbox must not undo what the next owner has stored."""
    store = MemoryOffsets()
    heard: list[object] = []
    asker = Address("asker")

    def hear(message: object) -> bool:
        heard.append(message)
        return True

    asker.bind(hear)
    keeper = OffsetKeeper(address=Address("offsets"), store=store)
    lease = [True]
    keeper.receive(
        StoreOffsets(
            connector=NAME, offsets={ONE: {"at": 4}}, reply_to=asker, token=1, lease=lambda: lease[0]
        )
    )
    keeper.receive(StoreOffsets(connector=NAME, offsets={TWO: {"at": 5}}, reply_to=asker, token=2))
    lease[0] = False
    keeper.receive(FlushOffsets())
    assert store.load(NAME) == {TWO: {"at": 5}}
    refused, stored = heard
    assert isinstance(refused, OffsetsFailed)
    assert (refused.token, str(refused.error)) == (1, "the lease has expired")
    assert stored == OffsetsStored(token=2)

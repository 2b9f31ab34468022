"""Tests that the offset keeper checks leases and batches writes."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from actors.messages.stores import FlushOffsets, OffsetsFailed, OffsetsStored, StoreOffsets
from actors.offsets.store import MIN_WRITE_INTERVAL_S, OffsetKeeper
from actors.runtime.mailbox import Address
from kraal.core.ids import ConnectorName
from kraal.core.offsets import Offset, SourcePartition
from kraal.stores.memory import MemoryOffsets
from kraal.testing._simulation.scheduler import Scheduler

NAME = ConnectorName("numbers")
PARTITION_1, PARTITION_2 = SourcePartition.of({"task": 1}), SourcePartition.of({"task": 2})


def test_offsets_whose_lease_expired_are_rejected_and_others_stored() -> None:
    """A suspended worker with a pending write must not overwrite the next owner's offsets."""
    store = MemoryOffsets()
    replies: list[object] = []
    requester = Address("requester")

    def record(message: object) -> bool:
        replies.append(message)
        return True

    requester.bind(record)
    keeper = OffsetKeeper(address=Address("offsets"), store=store, clock=Scheduler().clock)
    lease = [True]
    keeper.receive(
        StoreOffsets(
            connector=NAME,
            offsets={PARTITION_1: {"at": 4}},
            reply_to=requester,
            token=1,
            lease=lambda: lease[0],
        )
    )
    keeper.receive(
        StoreOffsets(connector=NAME, offsets={PARTITION_2: {"at": 5}}, reply_to=requester, token=2)
    )
    lease[0] = False
    keeper.receive(FlushOffsets())
    assert store.load(NAME) == {PARTITION_2: {"at": 5}}
    failure, success = replies
    assert isinstance(failure, OffsetsFailed)
    assert (failure.token, str(failure.error)) == (1, "this worker's lease has expired")
    assert success == OffsetsStored(token=2)


def test_offsets_received_soon_after_a_write_are_batched() -> None:
    scheduler, writes = Scheduler(), list[int]()

    class CountingOffsets(MemoryOffsets):
        @override
        def store(self, changes: Mapping[ConnectorName, Mapping[SourcePartition, Offset | None]]) -> None:
            writes.append(sum(map(len, changes.values())))
            super().store(changes)

    address, requester = Address("offsets"), Address("requester")
    scheduler.spawn(
        address,
        lambda: OffsetKeeper(
            address=address,
            store=CountingOffsets(),
            clock=scheduler.clock,
            write_interval_s=MIN_WRITE_INTERVAL_S,
        ),
        lambda _: None,
    )

    def send(task: int) -> None:
        partition = SourcePartition.of({"task": task})
        address.tell(
            StoreOffsets(connector=NAME, offsets={partition: {"at": 1}}, reply_to=requester, token=task)
        )

    send(0)
    scheduler.run()
    assert writes == [1], "an idle offset keeper writes immediately"
    for task in range(1, 6):
        send(task)
        scheduler.advance(MIN_WRITE_INTERVAL_S / 10)
    assert writes == [1]
    scheduler.advance(MIN_WRITE_INTERVAL_S)
    assert writes == [1, 5]

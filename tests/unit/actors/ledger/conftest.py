"""Workers with a ledger keeper only, which share a log."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import pytest
from typing_extensions import override

from actors.ledger.keeper import (
    LedgerKeeper,
)
from actors.messages.ledger import (
    DeleteTotals,
    LedgerView,
    RecordBatch,
    RetainTotals,
    ShowLedger,
)
from actors.runtime.mailbox import Address
from kraal.core.errors import StoreUnavailable
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import SourcePartition
from kraal.core.records import Entry, Record
from kraal.ledger.counts import BatchEntry, Counts, Range, RangeStart
from kraal.ledger.totals import PartitionTotals, TaskTotals
from kraal.metrics.delivery import DeliveryMetrics
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.scheduler import Scheduler

FAULT_RATE: Final = 0.2
NAME = ConnectorName("sink")
TASK = TaskId(NAME, 0)
PARTITION = SourcePartition.of({"kafka_topic": "orders", "kafka_partition": 0})
DELETION = DeleteTotals(connectors={NAME: 5}, is_leader=True)


def record(
    start: int,
    end: int,
    *,
    run: int = 1,
    written: int | None = None,
    reason: RangeStart = RangeStart.NEXT,
    config_offset: int = 1,
) -> RecordBatch:
    count = end - start
    counts = Counts(read=count, written=count if written is None else written)
    entry = BatchEntry(counts=counts, ranges={PARTITION: Range(start, end, reason)})
    return RecordBatch(task=TASK, run=run, config_offset=config_offset, entry=entry)


class Worker:
    """A worker with a ledger keeper only."""

    def __init__(
        self, scheduler: Scheduler, ledger_log: MemoryLog, *, keeps_config_offsets: bool = True
    ) -> None:
        self.scheduler, self.log = scheduler, ledger_log
        self.keeps_config_offsets = keeps_config_offsets
        self.address = Address("ledger")
        self.metrics = DeliveryMetrics()
        self.keeper: LedgerKeeper | None = None
        scheduler.spawn(self.address, self._make, lambda _: None)
        scheduler.run()

    def _make(self) -> LedgerKeeper:
        self.keeper = LedgerKeeper(
            address=self.address,
            ledger_log=self.log,
            clock=self.scheduler.clock,
            metrics=self.metrics,
            keeps_config_offsets=self.keeps_config_offsets,
        )
        return self.keeper

    def add(self, *messages: RecordBatch | DeleteTotals | RetainTotals) -> None:
        for message in messages:
            self.address.tell(message)
        self.scheduler.run()

    def show(self) -> LedgerView:
        assert self.keeper is not None
        view = self.keeper.receive(ShowLedger(connector=NAME))
        assert view is not None
        return view

    @property
    def task(self) -> TaskTotals:
        return self.show().tasks[TASK]

    @property
    def partition(self) -> PartitionTotals:
        return self.show().partitions[PARTITION]


class FlakyLog(MemoryLog):
    """A log whose calls fail at random, some of them after they were carried out."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__("ledger")
        self._rng = rng
        self.is_flaky = True

    def _fail(self) -> None:
        if self.is_flaky and self._rng.random() < FAULT_RATE:
            raise StoreUnavailable("no broker")

    @override
    def append(self, entries: Sequence[Entry]) -> int:
        self._fail()
        offset = super().append(entries)
        self._fail()
        return offset

    @override
    def read(self, start: int, limit: int, wait_s: float = 0.0) -> Sequence[Record]:
        self._fail()
        return super().read(start, min(limit, self._rng.randrange(1, 4)), wait_s)

    @override
    def end(self) -> int:
        self._fail()
        return super().end()


def list_live_keys(ledger_log: MemoryLog) -> list[str]:
    """Return the keys whose latest record is not a tombstone."""
    latest = {each.key: each.value for each in ledger_log.read(0, 10_000)}
    return sorted(key for key, value in latest.items() if value is not None)


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler()


@pytest.fixture
def ledger_log() -> MemoryLog:
    return MemoryLog("ledger")

"""Tests for the ledger keeper: totals of runs, other workers' totals, and a log that is unavailable."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from actors.ledger.keeper import RETRY_S, WRITE_INTERVAL_S, LedgerKeeper
from actors.messages.ledger import RecordBatch, ShowLedger
from actors.runtime.mailbox import Address
from kraal.core.errors import StoreUnavailable
from kraal.core.ids import ConnectorName
from kraal.core.offsets import SourcePartition
from kraal.core.records import Entry
from kraal.ledger.counts import BatchEntry, Counts
from kraal.ledger.records import encode_key, encode_totals
from kraal.ledger.tally import Tally
from kraal.ledger.totals import Totals, start_totals
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.scheduler import Scheduler

NAME = ConnectorName("sink")
PARTITION = SourcePartition.of({"kafka_topic": "orders", "kafka_partition": 0})


def record(start: int, end: int, *, run: int = 1, partition: SourcePartition = PARTITION) -> RecordBatch:
    tally = Tally(end - start, end - start)
    entry = BatchEntry(start=start, end=end, counts=Counts(read=tally, written=tally))
    return RecordBatch(connector=NAME, run=run, entries={partition: entry})


class Worker:
    """A worker with a ledger keeper only."""

    def __init__(self, scheduler: Scheduler, ledger_log: MemoryLog) -> None:
        self.scheduler, self.log = scheduler, ledger_log
        self.address = Address("ledger")
        self.keeper: LedgerKeeper | None = None
        scheduler.spawn(self.address, self._make, lambda _: None)
        scheduler.run()

    def _make(self) -> LedgerKeeper:
        self.keeper = LedgerKeeper(address=self.address, ledger_log=self.log, clock=self.scheduler.clock)
        return self.keeper

    def add(self, *batches: RecordBatch) -> None:
        for batch in batches:
            self.address.tell(batch)
        self.scheduler.run()

    def show(self) -> Mapping[SourcePartition, Totals]:
        assert self.keeper is not None
        shown = self.keeper.receive(ShowLedger(connector=NAME))
        assert shown is not None
        return shown


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler()


@pytest.fixture
def ledger_log() -> MemoryLog:
    return MemoryLog("ledger")


def test_batches_of_an_interval_are_one_record(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10), record(10, 30))
    assert ledger_log.end() == 0
    scheduler.advance(WRITE_INTERVAL_S)
    assert ledger_log.end() == 1
    worker.add(record(30, 31))
    scheduler.advance(WRITE_INTERVAL_S)
    assert ledger_log.end() == 2
    totals = Worker(scheduler, ledger_log).show()[PARTITION]
    assert (totals.since, totals.end, totals.counts.written.count, totals.uncounted) == (0, 31, 31, ())


def test_totals_include_batches_that_are_not_written_yet(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10))
    assert worker.show()[PARTITION].counts.written.count == 10


def test_a_worker_continues_the_totals_of_another(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    first, second = Worker(scheduler, ledger_log), Worker(scheduler, ledger_log)
    first.add(record(0, 10))
    scheduler.advance(WRITE_INTERVAL_S)
    second.add(record(10, 20, run=2))
    scheduler.advance(WRITE_INTERVAL_S)
    first.add(record(20, 30, run=3))
    scheduler.advance(WRITE_INTERVAL_S)
    for worker in (first, second):
        totals = worker.show()[PARTITION]
        assert (totals.end, totals.counts.written.count, totals.uncounted) == (30, 30, ())


def test_batches_of_a_killed_worker_are_uncounted(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    Worker(scheduler, ledger_log).add(record(0, 10))  # killed before its first write, with its offset stored
    other = Worker(scheduler, MemoryLog("ledger"))
    other.add(record(10, 20, run=2))
    scheduler.advance(WRITE_INTERVAL_S)
    assert other.show()[PARTITION].since == 10
    other.add(record(25, 30, run=3))
    assert other.show()[PARTITION].uncounted == ((20, 25),)
    assert other.show()[PARTITION].breaks == ()


def test_a_range_left_out_within_a_run_breaks_the_law(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10), record(11, 20))
    assert [(each.start, each.end) for each in worker.show()[PARTITION].breaks] == [(10, 11)]


def test_totals_are_written_when_the_log_is_available_again(
    scheduler: Scheduler, ledger_log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(scheduler, ledger_log)

    def fail(operation: str) -> None:
        raise StoreUnavailable(f"{operation}: no broker")

    ledger_log.fault = fail
    for start in range(200):
        worker.add(record(start, start + 1))
        scheduler.advance(RETRY_S / 2)
    assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 1
    ledger_log.fault = lambda _: None
    scheduler.advance(RETRY_S)
    assert ledger_log.end() == 1
    totals = worker.show()[PARTITION]
    assert (totals.counts.written.count, totals.uncounted, totals.breaks) == (200, (), ())


def test_records_of_later_versions_are_ignored(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    key = encode_key(NAME, PARTITION)
    ledger_log.append(
        [Entry(key, encode_totals(start_totals(5))), Entry(key, b'{"version":9}'), Entry("?", b"x")]
    )
    assert Worker(scheduler, ledger_log).show() == {PARTITION: start_totals(5)}
    ledger_log.append([Entry(key, None)])
    assert Worker(scheduler, ledger_log).show() == {}

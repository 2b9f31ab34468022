"""Tests for the ledger keeper: totals of runs, other workers' totals, and a log that is unavailable."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
from typing_extensions import override

from actors.ledger.keeper import (
    RETRY_DELAY_S,
    WRITE_INTERVAL_S,
    LedgerKeeper,
)
from actors.messages.ledger import (
    CloseLedger,
)
from kraal.core.errors import StoreUnavailable
from kraal.core.records import Entry
from kraal.ledger.counts import RangeStart
from kraal.ledger.records import LedgerValue, encode_key, encode_value
from kraal.ledger.totals import PartitionTotals, TaskTotals
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.scheduler import Scheduler
from tests.unit.actors.ledger.conftest import NAME, PARTITION, TASK, FlakyLog, Worker, record


class RacingLog(MemoryLog):
    """A log to which another worker appends immediately before the next append of this worker."""

    other: LedgerKeeper | None = None

    @override
    def append(self, entries: Sequence[Entry]) -> int:
        other, self.other = self.other, None
        if other is not None:
            other.receive(CloseLedger())
        return super().append(entries)


def test_batches_of_an_interval_are_written_together(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10), record(10, 30))
    assert ledger_log.end() == 0
    scheduler.advance(WRITE_INTERVAL_S)
    assert ledger_log.end() == 2
    worker.add(record(30, 31))
    scheduler.advance(WRITE_INTERVAL_S)
    assert ledger_log.end() == 4
    other = Worker(scheduler, ledger_log)
    assert other.task == TaskTotals(batches=3, read=31, written=31)
    assert other.partition == PartitionTotals(since=0, end=31)


def test_keeper_without_batches_writes_no_records(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10))
    scheduler.advance(10 * WRITE_INTERVAL_S)
    assert ledger_log.end() == 2


def test_totals_include_batches_that_are_not_written_yet(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10))
    assert (worker.task.written, worker.partition.end) == (10, 10)


def test_batches_are_written_when_the_worker_stops(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10))
    worker.address.question(CloseLedger())
    scheduler.run()
    assert Worker(scheduler, ledger_log).task.written == 10


def test_a_worker_continues_the_totals_of_another(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    first, second = Worker(scheduler, ledger_log), Worker(scheduler, ledger_log)
    for number, worker in enumerate((first, second, first)):
        worker.add(record(number * 10, number * 10 + 10, run=number, reason=RangeStart.RESUMED))
        scheduler.advance(WRITE_INTERVAL_S)
    for worker in (first, second):
        assert worker.task == TaskTotals(batches=3, read=30, written=30)
        assert worker.partition == PartitionTotals(since=0, end=30)


def test_workers_that_write_at_the_same_time_lose_no_batch(scheduler: Scheduler) -> None:
    ledger_log = RacingLog("ledger")
    first, second = Worker(scheduler, ledger_log), Worker(scheduler, ledger_log)
    first.add(record(0, 10))
    second.add(record(10, 25, reason=RangeStart.RESUMED))
    ledger_log.other = first.keeper
    assert second.keeper is not None
    second.keeper.receive(CloseLedger())
    scheduler.advance(2 * WRITE_INTERVAL_S)
    for worker in (first, second, Worker(scheduler, ledger_log)):
        assert worker.task == TaskTotals(batches=2, read=25, written=25)
        assert worker.partition == PartitionTotals(since=0, end=25)


def test_batches_of_a_killed_worker_are_uncounted(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    Worker(scheduler, ledger_log).add(record(0, 10))
    scheduler.advance(WRITE_INTERVAL_S)
    killed = Worker(Scheduler(), ledger_log)  # its clock never advances, so that it writes nothing
    killed.add(record(10, 20, run=2, reason=RangeStart.RESUMED))
    other = Worker(scheduler, ledger_log)
    other.add(record(20, 30, run=3, reason=RangeStart.RESUMED))
    assert other.task == TaskTotals(batches=2, read=20, written=20)
    assert other.partition == PartitionTotals(since=0, end=30, uncounted=((10, 20),), uncounted_count=1)


def test_offsets_that_were_moved_back_are_repeated(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10), record(4, 12, run=2, reason=RangeStart.RESUMED))
    assert worker.partition == PartitionTotals(since=0, end=12, repeated=6)
    assert worker.task.break_count == 0


def test_a_range_left_out_within_a_run_breaks_the_law(
    scheduler: Scheduler, ledger_log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10), record(11, 20))
    [hole] = worker.task.breaks
    assert (hole.ranges, hole.reason) == ("orders-0@10 to @11", "no batch was recorded for this range")
    assert worker.partition == PartitionTotals(since=0, end=20)
    assert worker.metrics.current()[TASK].break_count == 1
    assert [each.getMessage() for each in caplog.records] == [
        "sink-0: Records of orders-0@10 to @11 are not accounted for: no batch was recorded for this range"
    ]


def test_a_range_that_the_broker_lost_does_not_break_the_law(
    scheduler: Scheduler, ledger_log: MemoryLog
) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10), record(15, 20, reason=RangeStart.SKIPPED))
    assert (worker.task.break_count, worker.partition) == (0, PartitionTotals(since=0, end=20))


def test_a_batch_with_a_lost_record_breaks_the_law(
    scheduler: Scheduler, ledger_log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10), record(10, 20, written=9), record(20, 30))
    assert worker.task.break_count == 1
    [line] = caplog.records
    reason = "1 of 10 records were read and neither written nor skipped"
    assert line.getMessage() == f"sink-0: Records of orders-0@10 to @20 are not accounted for: {reason}"


def test_totals_are_written_when_the_log_is_available_again(
    scheduler: Scheduler, ledger_log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(scheduler, ledger_log)

    def fail(operation: str) -> None:
        raise StoreUnavailable(f"{operation}: no broker", hint="Start a broker.")

    ledger_log.fault = fail
    for start in range(200):
        worker.add(record(start, start + 1))
        scheduler.advance(RETRY_DELAY_S / 2)
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "no broker\nHint: Start a broker.\nIts totals are kept in memory" in warnings[0]
    assert (worker.task.written, worker.show().problem) == (200, "end: no broker\nHint: Start a broker.")
    ledger_log.fault = lambda _: None
    scheduler.advance(RETRY_DELAY_S)
    assert ledger_log.end() == 2
    assert worker.task == TaskTotals(batches=200, read=200, written=200)
    assert (worker.partition, worker.show().problem) == (PartitionTotals(since=0, end=200), None)


def test_records_of_other_formats_are_ignored(scheduler: Scheduler, ledger_log: MemoryLog) -> None:
    key, totals = encode_key((NAME, PARTITION)), PartitionTotals(since=5, end=6)
    value = encode_value(LedgerValue(totals, 3, "w", 1))
    foreign: Mapping[str, bytes] = {key: b'{"version":9}', "?": b"x", encode_key(TASK): b"null"}
    ledger_log.append([Entry(key, value), *(Entry(k, v) for k, v in foreign.items())])
    worker = Worker(scheduler, ledger_log)
    assert (worker.show().tasks, worker.show().partitions) == ({}, {PARTITION: totals})
    ledger_log.append([Entry(key, None)])
    assert worker.show().partitions == {}


def test_record_that_lacks_the_batches_of_its_predecessor_is_ignored(
    scheduler: Scheduler, ledger_log: MemoryLog
) -> None:
    for sequence, end in ((1, 10), (2, 20), (2, 99), (3, 30)):
        totals = PartitionTotals(since=0, end=end)
        value = encode_value(LedgerValue(totals, sequence, f"writer of {end}", 1))
        ledger_log.append([Entry(encode_key((NAME, PARTITION)), value)])
        if end == 99:
            assert Worker(scheduler, ledger_log).partition.end == 20
    assert Worker(scheduler, ledger_log).partition.end == 30


@pytest.mark.parametrize("number", range(40))
def test_writes_with_an_unknown_outcome_count_each_batch_once(number: int) -> None:
    rng = random.Random(number)  # noqa: S311 - faults, not secrets
    scheduler, ledger_log = Scheduler(), FlakyLog(rng)
    workers = [Worker(scheduler, ledger_log) for _ in range(2)]
    position = 0
    for run in range(1, 16):
        worker = rng.choice(workers)
        for batch in range(rng.randrange(1, 4)):
            end = position + rng.randrange(1, 10)
            reason = RangeStart.NEXT if batch else RangeStart.RESUMED
            worker.add(record(position, end, run=run, reason=reason))
            position = end
        scheduler.advance(rng.choice([0.0, WRITE_INTERVAL_S, 2 * RETRY_DELAY_S]))
    ledger_log.is_flaky = False
    scheduler.advance(4 * RETRY_DELAY_S)
    for worker in (*workers, Worker(scheduler, ledger_log)):
        assert (worker.task.read, worker.task.written, worker.task.break_count) == (position, position, 0)
        assert worker.partition == PartitionTotals(since=0, end=position)


def test_topic_that_was_created_again_receives_the_totals(
    scheduler: Scheduler, ledger_log: MemoryLog
) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10))
    scheduler.advance(WRITE_INTERVAL_S)
    assert worker.keeper is not None
    new_log = MemoryLog("ledger")

    def fail(_: str) -> None:
        worker.keeper._totals._log = new_log  # type: ignore[union-attr] # noqa: SLF001 - as if it was opened again
        raise StoreUnavailable("the topic was deleted")

    ledger_log.fault = fail
    worker.add(record(10, 15))
    scheduler.advance(2 * RETRY_DELAY_S)
    assert Worker(scheduler, new_log).task.read == 15
    assert Worker(scheduler, new_log).partition == PartitionTotals(since=0, end=15)


def test_idle_worker_notices_that_another_one_created_the_topic_again(
    scheduler: Scheduler, ledger_log: MemoryLog
) -> None:
    worker = Worker(scheduler, ledger_log)
    for start in range(0, 50, 10):
        worker.add(record(start, start + 10))
        scheduler.advance(WRITE_INTERVAL_S)
    assert worker.keeper is not None
    new_log = MemoryLog("ledger")
    worker.keeper._totals._log = new_log  # noqa: SLF001 - as if the topic was deleted and created
    worker.add(record(50, 55))
    scheduler.advance(3 * WRITE_INTERVAL_S)
    end = new_log.end()
    scheduler.advance(10 * WRITE_INTERVAL_S)
    assert new_log.end() == end, "the totals are not written again and again"
    assert Worker(scheduler, new_log).task.read == 55


class LateLog(MemoryLog):
    """A log whose first append fails, and is carried out immediately before the next append."""

    def __init__(self) -> None:
        super().__init__("ledger")
        self._late_entries: Sequence[Entry] | None = None

    @override
    def append(self, entries: Sequence[Entry]) -> int:
        if self._late_entries is None:
            self._late_entries = entries
            raise StoreUnavailable("the request has timed out")
        super().append(self._late_entries)
        self._late_entries = ()
        return super().append(entries)


def test_late_write_is_counted_once(scheduler: Scheduler) -> None:
    ledger_log = LateLog()
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10))
    scheduler.advance(WRITE_INTERVAL_S)
    worker.add(record(10, 25))
    scheduler.advance(2 * RETRY_DELAY_S)
    for each in (worker, Worker(scheduler, ledger_log)):
        assert each.task == TaskTotals(batches=2, read=25, written=25)
        assert each.partition == PartitionTotals(since=0, end=25)

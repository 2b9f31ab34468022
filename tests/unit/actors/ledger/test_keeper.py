"""Tests for the ledger keeper: totals of runs, other workers' totals, and a log that is unavailable."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pytest
from typing_extensions import override

from actors.ledger.break_warnings import LOG_INTERVAL_S, MAX_TASKS, BreakWarnings
from actors.ledger.keeper import (
    REFUSED_RETRY_INTERVAL_S,
    RETRY_DELAY_S,
    WRITE_INTERVAL_S,
    LedgerKeeper,
)
from actors.messages.ledger import (
    CloseLedger,
    DeleteTotals,
    LedgerView,
    RecordBatch,
    RetainTotals,
    ShowLedger,
)
from actors.runtime.mailbox import Address
from kraal.core.errors import RecordTooLarge, StoreUnavailable
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import SourcePartition
from kraal.core.records import Entry, Record
from kraal.ledger.counts import BatchEntry, Counts, Range, RangeStart
from kraal.ledger.records import LedgerValue, encode_key, encode_value
from kraal.ledger.totals import Break, PartitionTotals, TaskTotals
from kraal.metrics.delivery import DeliveryMetrics
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.scheduler import Scheduler

FAULT_RATE: Final = 0.2
NAME = ConnectorName("sink")
TASK = TaskId(NAME, 0)
PARTITION = SourcePartition.of({"kafka_topic": "orders", "kafka_partition": 0})


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


class RacingLog(MemoryLog):
    """A log to which another worker appends immediately before the next append of this worker."""

    other: LedgerKeeper | None = None

    @override
    def append(self, entries: Sequence[Entry]) -> int:
        other, self.other = self.other, None
        if other is not None:
            other.receive(CloseLedger())
        return super().append(entries)


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler()


@pytest.fixture
def ledger_log() -> MemoryLog:
    return MemoryLog("ledger")


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


DELETION = DeleteTotals(connectors={NAME: 5}, is_leader=True)


def list_live_keys(ledger_log: MemoryLog) -> list[str]:
    """Return the keys whose latest record is not a tombstone."""
    latest = {each.key: each.value for each in ledger_log.read(0, 10_000)}
    return sorted(key for key, value in latest.items() if value is not None)


def test_totals_of_a_deleted_connector_are_removed_at_once(
    scheduler: Scheduler, ledger_log: MemoryLog
) -> None:
    leader, other = Worker(scheduler, ledger_log), Worker(scheduler, ledger_log)
    other.add(record(0, 10, written=9))
    scheduler.advance(WRITE_INTERVAL_S)
    other.add(record(10, 20), replace(DELETION, is_leader=False))
    leader.add(DELETION)
    for worker in (leader, other):
        assert (worker.show().tasks, worker.show().partitions) == ({}, {})
        assert worker.metrics.current() == {}
    scheduler.advance(WRITE_INTERVAL_S)
    assert list_live_keys(ledger_log) == []
    end = ledger_log.end()
    scheduler.advance(10 * WRITE_INTERVAL_S)
    assert ledger_log.end() == end == 4, "one worker writes a tombstone of each key"


def test_connector_that_is_created_again_begins_with_new_totals(
    scheduler: Scheduler, ledger_log: MemoryLog
) -> None:
    leader, other = Worker(scheduler, ledger_log), Worker(scheduler, ledger_log)
    leader.add(record(0, 10, written=9))
    scheduler.advance(WRITE_INTERVAL_S)
    leader.add(DELETION)
    other.add(
        replace(DELETION, is_leader=False),
        record(4, 7, run=9, reason=RangeStart.RESUMED, config_offset=7),
    )
    assert leader.show().tasks == {}
    scheduler.advance(3 * WRITE_INTERVAL_S)
    for worker in (leader, other, Worker(scheduler, ledger_log)):
        assert worker.task == TaskTotals(batches=1, read=3, written=3)
        assert worker.partition == PartitionTotals(since=4, end=7)


def test_batch_of_a_task_that_stops_after_the_deletion_is_not_counted(
    scheduler: Scheduler, ledger_log: MemoryLog
) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10), DELETION, record(10, 20), record(0, 5, run=2, config_offset=6), record(20, 30))
    assert worker.task == TaskTotals(batches=1, read=5, written=5)
    assert worker.metrics.current() == {TASK: TaskTotals(batches=1, read=5, written=5)}
    scheduler.advance(WRITE_INTERVAL_S)
    assert Worker(scheduler, ledger_log).partition == PartitionTotals(since=0, end=5)


def test_record_of_a_worker_that_does_not_know_of_the_deletion_is_deleted(
    scheduler: Scheduler, ledger_log: MemoryLog
) -> None:
    leader, late = Worker(scheduler, ledger_log), Worker(scheduler, ledger_log)
    late.add(record(0, 10))
    scheduler.advance(WRITE_INTERVAL_S)
    leader.add(DELETION)
    scheduler.advance(WRITE_INTERVAL_S)
    late.add(record(10, 20))
    scheduler.advance(WRITE_INTERVAL_S)
    assert len(list_live_keys(ledger_log)) == 2
    assert leader.show().tasks == {}
    scheduler.advance(WRITE_INTERVAL_S)
    assert list_live_keys(ledger_log) == [], "the leader has deleted what it has read"
    late.add(record(20, 30))
    scheduler.advance(WRITE_INTERVAL_S)
    assert len(list_live_keys(ledger_log)) == 2
    late.add(replace(DELETION, is_leader=False))
    scheduler.advance(WRITE_INTERVAL_S)
    assert list_live_keys(ledger_log) == [], "the worker has deleted its own records"


def test_new_leader_deletes_the_totals_of_connectors_that_do_not_exist(
    scheduler: Scheduler, ledger_log: MemoryLog
) -> None:
    Worker(scheduler, ledger_log).add(record(0, 10))
    scheduler.advance(WRITE_INTERVAL_S)
    other = ConnectorName("other")
    member, leader = Worker(scheduler, ledger_log), Worker(scheduler, ledger_log)
    retained = RetainTotals(connectors=frozenset({NAME}), config_offset=9, is_leader=True)
    leader.add(retained)
    scheduler.advance(WRITE_INTERVAL_S)
    assert len(list_live_keys(ledger_log)) == 2
    member.add(replace(retained, connectors=frozenset({other}), is_leader=False))
    scheduler.advance(WRITE_INTERVAL_S)
    assert (member.show().tasks, len(list_live_keys(ledger_log))) == ({}, 2)
    leader.add(replace(retained, connectors=frozenset({other})))
    scheduler.advance(WRITE_INTERVAL_S)
    assert list_live_keys(ledger_log) == []
    leader.add(record(0, 3, config_offset=10))
    assert leader.task.read == 3, "the connector was created after the leader had read the config"


def test_deletions_are_written_when_the_log_is_available_again(
    scheduler: Scheduler, ledger_log: MemoryLog
) -> None:
    worker = Worker(scheduler, ledger_log)
    worker.add(record(0, 10))
    scheduler.advance(WRITE_INTERVAL_S)

    def fail(operation: str) -> None:
        raise StoreUnavailable(f"{operation}: no broker")

    ledger_log.fault = fail
    worker.add(DELETION)
    scheduler.advance(3 * RETRY_DELAY_S)
    assert worker.show().tasks == {}
    ledger_log.fault = lambda _: None
    scheduler.advance(RETRY_DELAY_S)
    assert list_live_keys(ledger_log) == []


def test_records_of_an_earlier_process_precede_deletions_if_configs_are_in_memory(
    scheduler: Scheduler, ledger_log: MemoryLog
) -> None:
    Worker(scheduler, ledger_log).add(record(0, 10, config_offset=99))
    scheduler.advance(WRITE_INTERVAL_S)
    worker = Worker(scheduler, ledger_log, keeps_config_offsets=False)
    assert worker.task.read == 10
    worker.add(record(10, 12, run=2, reason=RangeStart.RESUMED, config_offset=1))
    assert worker.task.read == 12
    worker.add(DELETION, record(0, 1, run=3, config_offset=6))
    scheduler.advance(WRITE_INTERVAL_S)
    assert worker.task.read == Worker(scheduler, ledger_log).task.read == 1


@pytest.mark.parametrize("number", range(20))
def test_deletions_at_any_time_leave_only_later_batches(number: int) -> None:
    rng = random.Random(number)  # noqa: S311 - faults, not secrets
    scheduler, ledger_log = Scheduler(), FlakyLog(rng)
    workers = [Worker(scheduler, ledger_log) for _ in range(3)]
    config_offset, position = 1, 0
    for run in range(1, 25):
        if rng.random() < 0.25:
            config_offset += 2
            deletion = DeleteTotals(connectors={NAME: config_offset - 1}, is_leader=False)
            for index, worker in enumerate(workers):
                worker.address.tell(replace(deletion, is_leader=index == 0))
            scheduler.run()
            position = 0
        end = position + rng.randrange(1, 10)
        reason = RangeStart.RESUMED
        rng.choice(workers).add(record(position, end, run=run, reason=reason, config_offset=config_offset))
        position = end
        scheduler.advance(rng.choice([0.0, WRITE_INTERVAL_S, 2 * RETRY_DELAY_S]))
    ledger_log.is_flaky = False
    scheduler.advance(6 * RETRY_DELAY_S)
    for worker in (*workers, Worker(scheduler, ledger_log)):
        assert (worker.task.read, worker.task.break_count) == (position, 0)
        assert worker.partition == PartitionTotals(since=0, end=position)


class SmallLog(MemoryLog):
    """A log that accepts writes and records up to a size, like a topic with `max.message.bytes`."""

    max_bytes = 500

    @override
    def append(self, entries: Sequence[Entry]) -> int:
        if sum(len(entry.key) + len(entry.value or b"") for entry in entries) > self.max_bytes:
            raise RecordTooLarge("Broker: Message size too large")
        return super().append(entries)


def record_file(name: str, position: int) -> RecordBatch:
    """Return a batch of a source's file with one record."""
    ranges = {SourcePartition.of({"filename": name}): Range(position, position + 1, RangeStart.RESUMED)}
    entry = BatchEntry(counts=Counts(read=1, written=1), ranges=ranges)
    return RecordBatch(task=TASK, run=1, config_offset=1, entry=entry)


def test_record_that_is_too_large_does_not_prevent_the_others_from_being_written(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    ledger_log = SmallLog("ledger")
    worker = Worker(scheduler, ledger_log)
    long_name = "x" * 600
    for position in range(3):
        worker.add(*(record_file(name, position) for name in ("a", long_name, "b")))
        scheduler.advance(WRITE_INTERVAL_S)
    other = Worker(scheduler, ledger_log)
    partitions = {"a", "b"}
    assert {each.as_dict()["filename"] for each in other.show().partitions} == partitions
    assert other.task.read == 9
    assert {each.as_dict()["filename"] for each in worker.show().partitions} == {*partitions, long_name}
    problem = worker.show().problem or ""
    assert problem.startswith('the record of ["sink",{"filename":"xxx')
    assert "bytes: Broker: Message size too large" in problem
    assert problem.endswith("\nHint: Increase max.message.bytes of the ledger's topic.")
    assert len(problem) < 400
    assert sum("The ledger is incomplete" in each.getMessage() for each in caplog.records) == 1

    ledger_log.max_bytes = 2_000
    scheduler.advance(REFUSED_RETRY_INTERVAL_S)
    worker.add(record_file("a", 3))
    scheduler.advance(3 * WRITE_INTERVAL_S)
    assert worker.show().problem is None
    last = Worker(scheduler, ledger_log).show().partitions
    assert {each.as_dict()["filename"]: totals.end for each, totals in last.items()} == {
        "a": 4,
        "b": 3,
        long_name: 3,
    }


def test_deletions_are_divided_if_they_are_too_large_for_one_write(scheduler: Scheduler) -> None:
    ledger_log = SmallLog("ledger")
    worker = Worker(scheduler, ledger_log)
    for number in range(40):
        worker.add(record_file(f"file-{number}", 0))
        scheduler.advance(WRITE_INTERVAL_S)
    assert len(list_live_keys(ledger_log)) == 41
    ledger_log.max_bytes = 100
    worker.add(DELETION)
    scheduler.advance(WRITE_INTERVAL_S)
    assert list_live_keys(ledger_log) == []


def test_warnings_of_a_task_whose_batches_all_break_the_law_are_limited(
    scheduler: Scheduler, ledger_log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(scheduler, ledger_log)
    for start in range(0, 1000, 10):
        worker.add(record(start, start + 10, written=9))
    assert len(caplog.records) == 1
    scheduler.advance(LOG_INTERVAL_S)
    worker.add(record(1000, 1010, written=9))
    assert [each.getMessage().partition(":")[0] for each in caplog.records[1:]] == [
        "Omitted 99 warnings about records of sink-0 that are not accounted for; kraal ledger NAME lists the latest",
        "sink-0",
    ]
    worker.add(record(1010, 1020, written=9))
    worker.address.question(CloseLedger())
    scheduler.run()
    assert caplog.records[-1].getMessage().startswith("Omitted 1 warning about")
    assert worker.task.break_count == 102


def test_each_task_has_a_warning_up_to_a_maximum(caplog: pytest.LogCaptureFixture) -> None:
    warnings, law_break = BreakWarnings(), Break(ranges="t-0@1 to @2", reason="lost", time_ms=0)
    for task in range(2 * MAX_TASKS):
        for _ in range(3):
            warnings.log(TaskId(NAME, task), law_break, 10.0)
    assert [each.getMessage() for each in caplog.records] == [
        f"sink-{task}: Records of t-0@1 to @2 are not accounted for: lost" for task in range(MAX_TASKS)
    ]
    warnings.log_due(10.0 + LOG_INTERVAL_S)
    [line] = caplog.records[MAX_TASKS:]
    assert line.getMessage().startswith("Omitted 100 warnings about records of sink-0, sink-1, ")
    assert " and 20 more that are not accounted for" in line.getMessage()

"""Tests for records that are too large for the log of the ledger, and for the number of warnings."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from typing_extensions import override

from actors.ledger.break_warnings import LOG_INTERVAL_S, MAX_TASKS, BreakWarnings
from actors.ledger.keeper import (
    REFUSED_RETRY_INTERVAL_S,
    WRITE_INTERVAL_S,
)
from actors.messages.ledger import (
    CloseLedger,
    RecordBatch,
)
from kraal.core.errors import RecordTooLarge
from kraal.core.ids import TaskId
from kraal.core.offsets import SourcePartition
from kraal.core.records import Entry
from kraal.ledger.counts import BatchEntry, Counts, Range, RangeStart
from kraal.ledger.totals import Break
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.scheduler import Scheduler
from tests.unit.actors.ledger.conftest import DELETION, NAME, TASK, Worker, list_live_keys, record


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

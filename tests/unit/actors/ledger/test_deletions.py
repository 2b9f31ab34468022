"""Tests for the totals of deleted connectors in the ledger."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from actors.ledger.keeper import (
    RETRY_DELAY_S,
    WRITE_INTERVAL_S,
)
from actors.messages.ledger import (
    DeleteTotals,
    RetainTotals,
)
from kraal.core.errors import StoreUnavailable
from kraal.core.ids import ConnectorName
from kraal.ledger.counts import RangeStart
from kraal.ledger.totals import PartitionTotals, TaskTotals
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.scheduler import Scheduler
from tests.unit.actors.ledger.conftest import DELETION, NAME, TASK, FlakyLog, Worker, list_live_keys, record


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

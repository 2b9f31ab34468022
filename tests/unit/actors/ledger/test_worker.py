"""Tests for the ledger of a whole worker, under the seeded scheduler."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typing_extensions import override

from actors.ledger.keeper import WRITE_INTERVAL_S
from actors.messages.herder import CreateConnector, DeleteConnector, PutConfig, SetTargetState
from actors.messages.ledger import LedgerView, ShowLedger
from actors.messages.offsets import AlterOffsets
from kraal.core.errors import StoreUnavailable
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.core.offsets import SourcePartition
from kraal.engine.api import Counted, RunEvent, TaskSpec
from kraal.ledger.counts import BatchEntry, Counts
from kraal.ledger.totals import PartitionTotals
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.cluster_worker import ClusterWorker
from kraal.testing._simulation.engine import FakeEngine, FakeRun, make_partition
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
T0 = TaskId(NAME, 0)
PARTITION: SourcePartition = make_partition(T0)
SEEDS = range(8)


def show(worker: EmbeddedWorker) -> LedgerView:
    """Return the totals of the connector."""
    assert worker.assembly.ledger is not None
    view = worker.assembly.ledger.question(ShowLedger(connector=NAME))
    worker.run()
    return view.result(0)


def count_breaks(worker: EmbeddedWorker) -> int:
    return sum(totals.break_count for totals in show(worker).tasks.values())


@pytest.mark.parametrize("plugin", [FAKE_SOURCE, FAKE_SINK])
def test_totals_equal_the_number_of_delivered_records(plugin: str) -> None:
    worker = EmbeddedWorker(ledger_log=MemoryLog("ledger"))
    worker.create(NAME, {"connector.class": plugin, "topics": "t", "tasks.max": "2"})
    for number in range(2):
        worker.fake.feed(TaskId(NAME, number), 25 + number)
    worker.run()
    view = show(worker)
    assert {task.task: (each.read, each.written, each.batches) for task, each in view.tasks.items()} == {
        0: (25, 25, 3),
        1: (26, 26, 3),
    }
    assert view.partitions[PARTITION] == PartitionTotals(since=0, end=25)
    assert worker.assembly.delivery.current().keys() == view.tasks.keys()


def test_worker_without_a_ledger_counts_nothing() -> None:
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    worker.fake.feed(T0, 25)
    worker.run()
    assert worker.assembly.ledger is None
    assert worker.assembly.delivery.current() == {}


class CommittingEngine(FakeEngine):
    """An engine whose runs store offsets themselves, as those of Java tasks do, and report records when they stop."""

    @override
    def make_run(self, spec: TaskSpec, position: int, report: Callable[[RunEvent], None]) -> FakeRun:
        return _CommittingRun(self, spec, position, report)


class _CommittingRun(FakeRun):
    @override
    def stop(self) -> None:
        self._report(Counted(BatchEntry(counts=Counts(read=7, written=7))))
        super().stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_records_that_a_stopping_run_reports_are_counted(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed, engine=CommittingEngine(), ledger_log=MemoryLog("ledger"))
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    worker.run()
    worker.ask(SetTargetState(name=NAME, target=TargetState.STOPPED))
    worker.run()
    totals = show(worker).tasks[T0]
    assert (totals.read, totals.written, totals.batches) == (7, 7, 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_deaths_of_a_task_leave_uncounted_ranges_at_most(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed, ledger_log=MemoryLog("ledger"))
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    worker.fake.feed(T0, 5)
    worker.run()
    for _ in range(4):
        worker.fake.feed(T0, 10)
        worker.crash(f"task {T0}")
        worker.advance(2)
    worker.fake.feed(T0, 5)
    worker.run()
    view = show(worker)
    totals, partition = view.tasks[T0], view.partitions[PARTITION]
    assert sorted(set(worker.fake.written[T0])) == list(range(50))
    uncounted = sum(int(str(end)) - int(str(start)) for start, end in partition.uncounted)
    assert (totals.read + uncounted, totals.break_count) == (50, 0)
    assert (partition.since, partition.end, partition.repeated) == (0, 50, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_death_of_the_keeper_leaves_an_uncounted_range_and_delivery_continues(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed, ledger_log=MemoryLog("ledger"))
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    worker.fake.feed(T0, 10)
    worker.run()
    worker.advance(WRITE_INTERVAL_S)
    worker.fake.feed(T0, 10)
    worker.run()
    worker.crash("ledger")
    worker.advance(1)
    worker.fake.feed(T0, 10)
    worker.run()
    view = show(worker)
    assert worker.states(NAME) == ["RUNNING", "RUNNING"]
    assert worker.fake.written[T0] == list(range(30))
    assert view.tasks[T0].read == 20
    assert view.partitions[PARTITION] == PartitionTotals(
        since=0, end=30, uncounted=((10, 20),), uncounted_count=1
    )


def test_keeper_that_always_dies_does_not_end_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    worker = EmbeddedWorker(ledger_log=MemoryLog("ledger"))
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    for _ in range(6):
        worker.crash("ledger")
        worker.advance(5)
    worker.fake.feed(T0, 30)
    worker.run()
    assert worker.given_up == []
    assert worker.fake.written[T0] == list(range(30))
    assert "The ledger has failed repeatedly" in caplog.text


def test_batches_of_a_killed_worker_are_uncounted() -> None:
    ledger_log = MemoryLog("ledger")
    first = EmbeddedWorker(ledger_log=ledger_log)
    first.create(NAME, {"connector.class": FAKE_SOURCE})
    first.fake.feed(T0, 10)
    first.run()
    first.advance(WRITE_INTERVAL_S)
    first.fake.feed(T0, 15)
    first.run()  # and is killed within the interval
    second = EmbeddedWorker(
        ledger_log=ledger_log,
        config_log=first.config_log,
        status_log=first.status_log,
        offsets=first.offsets,
    )
    second.fake.feed(T0, 30)
    second.run()
    view = show(second)
    assert second.fake.written[T0] == list(range(25, 30))
    assert (view.tasks[T0].read, count_breaks(second)) == (15, 0)
    assert view.partitions[PARTITION] == PartitionTotals(
        since=0, end=30, uncounted=((10, 25),), uncounted_count=1
    )


def test_batch_that_is_delivered_again_is_repeated() -> None:
    worker = EmbeddedWorker(ledger_log=MemoryLog("ledger"))
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    worker.fake.feed(T0, 25)
    worker.run()
    worker.ask(SetTargetState(name=NAME, target=TargetState.STOPPED))
    worker.run()
    worker.ask(AlterOffsets(name=NAME, offsets=[(PARTITION.as_dict(), {"position": 5})]))
    worker.ask(SetTargetState(name=NAME, target=TargetState.STARTED))
    worker.run()
    view = show(worker)
    assert worker.fake.written[T0] == [*range(25), *range(5, 25)]
    assert (view.tasks[T0].read, count_breaks(worker)) == (45, 0)
    assert view.partitions[PARTITION] == PartitionTotals(since=0, end=25, repeated=20)


def test_batch_is_not_counted_before_its_offsets_are_stored() -> None:
    worker = EmbeddedWorker(ledger_log=MemoryLog("ledger"))
    worker.create(NAME, {"connector.class": FAKE_SOURCE})

    def fail(_: str) -> None:
        raise StoreUnavailable("no broker")

    worker.offsets.fault = fail  # type: ignore[attr-defined] # a MemoryOffsets
    worker.fake.feed(T0, 5)
    worker.advance(3)
    assert (worker.fake.written[T0], show(worker).tasks) == (list(range(5)), {})
    worker.offsets.fault = lambda _: None  # type: ignore[attr-defined] # as above
    worker.advance(3)
    assert show(worker).tasks[T0].read == 5


def test_connector_that_is_deleted_and_created_again_begins_with_new_totals() -> None:
    ledger_log = MemoryLog("ledger")
    worker = EmbeddedWorker(ledger_log=ledger_log)
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    worker.fake.feed(T0, 25)
    worker.run()
    worker.advance(WRITE_INTERVAL_S)
    worker.ask(DeleteConnector(name=NAME))
    worker.run()
    assert (show(worker).tasks, show(worker).partitions) == ({}, {})
    assert worker.assembly.delivery.current() == {}
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    worker.fake.feed(T0, 5)
    worker.run()
    worker.advance(WRITE_INTERVAL_S)
    count = show(worker).tasks[T0].read
    assert 0 < count <= 30
    assert worker.assembly.delivery.current()[T0].read == count
    restarted = EmbeddedWorker(
        ledger_log=ledger_log,
        config_log=worker.config_log,
        status_log=worker.status_log,
        offsets=worker.offsets,
    )
    assert show(restarted).tasks[T0].read == count


def test_tasks_beyond_a_lower_tasks_max_keep_their_counts() -> None:
    worker = EmbeddedWorker(ledger_log=MemoryLog("ledger"))
    config = {"connector.class": FAKE_SOURCE, "tasks.max": "2"}
    worker.create(NAME, config)
    for number in range(2):
        worker.fake.feed(TaskId(NAME, number), 10)
    worker.run()
    worker.ask(PutConfig(name=NAME, config={**config, "tasks.max": "1"}))
    worker.run()
    worker.advance(WRITE_INTERVAL_S)
    view = show(worker)
    assert [totals.read for totals in view.tasks.values()] == [10, 10]
    assert len(view.partitions) == 2


def list_live_keys(ledger_log: MemoryLog) -> list[str]:
    latest = {each.key: each.value for each in ledger_log.read(0, 10_000)}
    return sorted(key for key, value in latest.items() if value is not None)


def show_read(worker: ClusterWorker, cluster: EmbeddedCluster) -> int:
    """Return the number of records that the connector has read, as the worker shows it."""
    assert worker.assembly.ledger is not None
    view = worker.assembly.ledger.question(ShowLedger(connector=NAME))
    cluster.run_until(view.done, timeout_s=10)
    return sum(totals.read for totals in view.result(0).tasks.values())


def make_cluster(seed: int) -> tuple[EmbeddedCluster, MemoryLog]:
    """Return a cluster that has delivered and counted 50 records with two tasks."""
    ledger_log = MemoryLog("ledger")
    cluster = EmbeddedCluster(seed=seed, ledger_log=ledger_log)
    cluster.settle()
    cluster.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
    cluster.settle()
    for number in range(2):
        cluster.feed(TaskId(NAME, number), 25)
    cluster.advance(3)
    assert {show_read(worker, cluster) for worker in cluster.workers} == {50}
    return cluster, ledger_log


@pytest.mark.parametrize("seed", SEEDS)
def test_one_worker_of_a_cluster_deletes_the_records_of_a_deleted_connector(seed: int) -> None:
    cluster, ledger_log = make_cluster(seed)
    cluster.request(DeleteConnector(name=NAME))
    cluster.settle()
    cluster.advance(3)
    assert list_live_keys(ledger_log) == []
    records = ledger_log.read(0, 10_000)
    tombstones = [each.key for each in records if each.value is None]
    assert len(tombstones) == len(set(tombstones)) == 4, "two tasks and two partitions"
    assert all(worker.assembly.delivery.current() == {} for worker in cluster.workers)
    cluster.request(CreateConnector(name=NAME, config={"connector.class": FAKE_SOURCE}))
    cluster.settle()
    cluster.feed(T0, 5)
    cluster.advance(3)
    counts = {show_read(worker, cluster) for worker in cluster.workers}
    assert len(counts) == 1
    assert counts.pop() <= 30


@pytest.mark.parametrize("seed", SEEDS)
def test_next_leader_deletes_the_records_if_the_leader_dies(seed: int) -> None:
    cluster, ledger_log = make_cluster(seed)
    leader = cluster.leader
    cluster.request(DeleteConnector(name=NAME), leader)
    cluster.kill(leader)
    assert len(list_live_keys(ledger_log)) == 4, "the leader has not deleted them yet"
    cluster.settle()
    cluster.advance(3)
    assert list_live_keys(ledger_log) == []


@pytest.mark.parametrize("actor", ["ledger", "herder"])
def test_death_of_an_actor_of_the_leader_does_not_keep_the_records(actor: str) -> None:
    cluster, ledger_log = make_cluster(0)
    cluster.request(DeleteConnector(name=NAME), cluster.leader)
    cluster.crash(cluster.leader, actor)
    cluster.advance(5)
    cluster.settle()
    cluster.advance(3)
    assert list_live_keys(ledger_log) == []

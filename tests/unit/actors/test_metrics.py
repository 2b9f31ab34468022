"""Tests for the metrics of workers after each step of a connector's lifecycle."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest
from typing_extensions import override

from actors.messages.herder import DeleteConnector, RestartConnector, SetTargetState
from kraal.core.errors import StoreError, StoreUnavailable
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import PhaseTimes, RunEvent, TaskSpec
from kraal.metrics.task import NO_PHASE
from kraal.stores.memory import MemoryOffsets
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.engine import FakeEngine, FakeRun
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker
from tests.fakes.workers.prometheus import Scraped, parse_scrape

NAME = ConnectorName("numbers")
T0, T1 = TaskId(NAME, 0), TaskId(NAME, 1)
SEEDS = range(6)
WORKER_PREFIX = "kafka_connect_connect_worker_metrics_"
TASK_PREFIX = "kafka_connect_connector_task_metrics_"
SOURCE_PREFIX = "kafka_connect_source_task_metrics_"
SINK_PREFIX = "kafka_connect_sink_task_metrics_"
ERROR_PREFIX = "kafka_connect_task_error_metrics_"
REBALANCE_PREFIX = "kafka_connect_connect_worker_rebalance_metrics_"
CONNECTOR_COUNT, TASK_COUNT = f"{WORKER_PREFIX}connector_count", f"{WORKER_PREFIX}task_count"


def config(plugin: str = FAKE_SOURCE, **overrides: str) -> dict[str, str | None]:
    return {"connector.class": plugin, "tasks.max": "2", "topics": "lines", **overrides}


def metrics(worker: EmbeddedWorker) -> Scraped:
    return parse_scrape(worker.metrics())


def task_metrics(scrape: Scraped, prefix: str, task: TaskId = T0) -> dict[str, float]:
    """Return the metrics of a task in one group, by name without the prefix."""
    expected_labels = frozenset({("connector", str(task.connector)), ("task", str(task.task))})
    return {
        name.removeprefix(prefix): value
        for (name, labels), value in scrape.values.items()
        if name.startswith(prefix) and labels == expected_labels
    }


def states(scrape: Scraped) -> tuple[set[str], dict[str, float]]:
    """Return the states reported for the connector, and the number of its tasks by state."""
    task_states = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
    counts = {state: scrape.all_of(f"{WORKER_PREFIX}connector_{state}_task_count") for state in task_states}
    return scrape.label_of("kafka_connect_connector_metrics", "status", connector=NAME), {
        state: sum(series.values()) for state, series in counts.items() if sum(series.values())
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_source_metrics_follow_the_lifecycle(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    assert metrics(worker).value(CONNECTOR_COUNT) == 0
    worker.create(NAME, config())
    worker.fake.feed(T0, 25)
    worker.run()
    worker.advance(10)
    scrape = metrics(worker)
    assert (scrape.value(CONNECTOR_COUNT), scrape.value(TASK_COUNT)) == (1, 2)
    assert states(scrape) == ({"running"}, {"running": 2})
    assert task_metrics(scrape, TASK_PREFIX) == {
        "running_ratio": 1,
        "pause_ratio": 0,
        "offset_commit_max_time_ms": 0,
        "offset_commit_avg_time_ms": 0,
        "offset_commit_failure_percentage": 0,
        "offset_commit_success_percentage": 1,
        "batch_size_max": 10,
        "batch_size_avg": pytest.approx(25 / 3),
    }
    source_metrics = task_metrics(scrape, SOURCE_PREFIX)
    assert all(
        math.isnan(source_metrics.pop(f"transaction_size_{statistic}")) for statistic in ("min", "max", "avg")
    )
    assert source_metrics == {
        "source_record_poll_rate": 25 / 40,
        "source_record_poll_total": 25,
        "source_record_write_rate": 25 / 40,
        "source_record_write_total": 25,
        "poll_batch_max_time_ms": 0,
        "poll_batch_avg_time_ms": 0,
    }
    assert set(task_metrics(scrape, ERROR_PREFIX).values()) == {0}
    assert task_metrics(scrape, SINK_PREFIX) == {}
    idle_metrics = task_metrics(scrape, SOURCE_PREFIX, T1)
    assert idle_metrics["source_record_poll_total"] == 0
    assert math.isnan(idle_metrics["poll_batch_avg_time_ms"]), "as in Kafka, the average of no values is NaN"

    worker.ask(SetTargetState(name=NAME, target=TargetState.PAUSED))
    worker.run()
    worker.advance(30)
    scrape = metrics(worker)
    assert states(scrape) == ({"paused"}, {"paused": 2})
    assert task_metrics(scrape, TASK_PREFIX)["running_ratio"] == pytest.approx(0.25)
    assert task_metrics(scrape, TASK_PREFIX)["pause_ratio"] == pytest.approx(0.75)

    worker.ask(SetTargetState(name=NAME, target=TargetState.STOPPED))
    worker.run()
    scrape = metrics(worker)
    assert states(scrape) == ({"stopped"}, {})
    assert (scrape.value(CONNECTOR_COUNT), scrape.value(TASK_COUNT)) == (1, 0)
    assert task_metrics(scrape, TASK_PREFIX) == {}

    worker.ask(DeleteConnector(name=NAME))
    worker.run()
    scrape = metrics(worker)
    assert scrape.all_of("kafka_connect_connector_metrics") == {}
    assert scrape.value(CONNECTOR_COUNT) == 0
    assert scrape.value(WORKER_PREFIX + "connector_startup_attempts_total") == 1
    assert scrape.value(WORKER_PREFIX + "task_startup_success_total") == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_sink_metrics_are_exported(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, config(FAKE_SINK))
    worker.fake.feed(T0, 30)
    worker.run()
    scrape = metrics(worker)
    assert task_metrics(scrape, SINK_PREFIX) == {
        "sink_record_read_rate": 1,
        "sink_record_read_total": 30,
        "sink_record_send_rate": 1,
        "sink_record_send_total": 30,
        "partition_count": 1,
        "offset_commit_seq_no": 3,
        "offset_commit_completion_rate": pytest.approx(0.1),
        "offset_commit_completion_total": 3,
        "offset_commit_skip_rate": 0,
        "offset_commit_skip_total": 0,
        "put_batch_max_time_ms": 0,
        "put_batch_avg_time_ms": 0,
    }
    assert task_metrics(scrape, SOURCE_PREFIX) == {}
    run = worker.fake.find_run(T0)
    assert run is not None
    run.spec.backlog(7)
    assert task_metrics(metrics(worker), "kraal_task_")["backlog_records"] == 7


class SlowCommitEngine(FakeEngine):
    """An engine whose runs delay commits until the test calls their method `commit_again`."""

    @override
    def make_run(self, spec: TaskSpec, position: int, report: Callable[[RunEvent], None]) -> FakeRun:
        return _SlowCommitRun(self, spec, position, report)


class _SlowCommitRun(FakeRun):
    offsets: Mapping[SourcePartition, Offset] | None = None

    @override
    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        self.offsets = offsets
        self.retry("commit is tried again: not now")

    def commit_again(self) -> None:
        """Run the delayed commit."""
        assert self.offsets is not None
        super().commit(self.offsets)


@pytest.mark.parametrize("seed", SEEDS)
def test_retried_sink_commit_is_counted(seed: int) -> None:
    engine = SlowCommitEngine()
    worker = EmbeddedWorker(seed=seed, engine=engine)
    worker.create(NAME, config(FAKE_SINK))
    engine.feed(T0, 1)
    worker.run()
    assert task_metrics(metrics(worker), TASK_PREFIX)["offset_commit_failure_percentage"] == 1
    worker.advance(2)
    run = engine.find_run(T0)
    assert isinstance(run, _SlowCommitRun)
    run.commit_again()
    worker.run()
    scrape = metrics(worker)
    assert task_metrics(scrape, TASK_PREFIX)["offset_commit_success_percentage"] == 0.5
    assert task_metrics(scrape, TASK_PREFIX)["offset_commit_max_time_ms"] == pytest.approx(2000)
    assert task_metrics(scrape, SINK_PREFIX)["offset_commit_seq_no"] == 2
    assert task_metrics(scrape, SINK_PREFIX)["offset_commit_completion_total"] == 1
    assert task_metrics(scrape, ERROR_PREFIX)["total_retries"] == 1
    run.commit_again()
    worker.run()
    scrape = metrics(worker)
    assert task_metrics(scrape, SINK_PREFIX)["offset_commit_skip_total"] == 1, "no commit was pending"
    assert task_metrics(scrape, SINK_PREFIX)["offset_commit_completion_total"] == 1


class TimingEngine(FakeEngine):
    """An engine that reports durations before records are written."""

    @override
    def make_run(self, spec: TaskSpec, position: int, report: Callable[[RunEvent], None]) -> FakeRun:
        return _TimingRun(self, spec, position, report)


class _TimingRun(FakeRun):
    @override
    def open_plugin(self) -> None:
        super().open_plugin()
        self._report(PhaseTimes(poll=NO_PHASE.add_occurrences(80, 2), commit=NO_PHASE.add_occurrences(7, 1)))


def test_continuous_run_reports_its_durations() -> None:
    worker = EmbeddedWorker(engine=TimingEngine())
    worker.create(NAME, config())
    worker.run()
    recorded_durations = worker.assembly.metrics.current().tasks[T0]
    assert (recorded_durations.poll, recorded_durations.write, recorded_durations.commit) == (
        NO_PHASE.add_occurrences(80, 2),
        NO_PHASE,
        NO_PHASE.add_occurrences(7, 1),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_failures_retries_and_restarts_are_counted(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, config())
    worker.fake.feed(T0, 5)
    worker.run()
    worker.fake.retry(T0, "batch 2 is tried again: no")
    worker.fake.retry(T0, "batch 2 is tried again: no")
    worker.fake.fail(T0, "RuntimeError: no")
    worker.run()
    scrape = metrics(worker)
    assert states(scrape) == ({"running"}, {"running": 1, "failed": 1}), "failed instances are still exported"
    error_metrics = task_metrics(scrape, ERROR_PREFIX)
    assert error_metrics.pop("last_error_timestamp") == worker.scheduler.clock.wall_ms()
    assert error_metrics.pop("total_retries") == 2
    assert set(error_metrics.values()) == {0}
    assert task_metrics(scrape, SOURCE_PREFIX)["source_record_write_total"] == 5
    assert scrape.value(WORKER_PREFIX + "task_startup_failure_total") == 0, "the task had started"

    worker.ask(RestartConnector(name=NAME, include_tasks=True, only_failed=True))
    worker.run()
    scrape = metrics(worker)
    assert states(scrape) == ({"running"}, {"running": 2})
    assert task_metrics(scrape, SOURCE_PREFIX)["source_record_write_total"] == 0, (
        "counted since the restart of the task"
    )
    assert task_metrics(scrape, ERROR_PREFIX)["total_retries"] == 0
    assert scrape.value(WORKER_PREFIX + "task_startup_success_total") == 3


def test_unstartable_task_is_counted_as_a_failed_startup() -> None:
    worker = EmbeddedWorker()
    worker.fake.fail_opening(T0, "ValueError: no")
    worker.create(NAME, config())
    scrape = metrics(worker)
    assert scrape.value(WORKER_PREFIX + "task_startup_attempts_total") == 2
    assert scrape.value(WORKER_PREFIX + "task_startup_failure_total") == 1
    assert scrape.value(WORKER_PREFIX + "task_startup_failure_percentage") == 0.5
    assert task_metrics(scrape, TASK_PREFIX)["running_ratio"] == 0


def test_unstartable_connector_is_counted_as_a_failed_startup() -> None:
    worker = EmbeddedWorker()
    worker.create(NAME, config(**{"fail.in": "start"}))
    scrape = metrics(worker)
    assert states(scrape)[0] == {"failed"}
    assert scrape.value(WORKER_PREFIX + "connector_startup_failure_total") == 1
    assert scrape.value(WORKER_PREFIX + "connector_startup_success_percentage") == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_failed_offset_writes_are_counted_as_failed_commits(seed: int) -> None:
    errors: list[StoreError] = []

    def fault(_operation: str) -> None:
        if errors:
            raise errors[0]

    worker = EmbeddedWorker(seed=seed, offsets=MemoryOffsets(fault=fault))
    worker.create(NAME, config())
    errors.append(StoreUnavailable("the broker is away"))
    worker.fake.feed(T0, 1)
    worker.run()
    scrape = metrics(worker)
    assert task_metrics(scrape, TASK_PREFIX)["offset_commit_failure_percentage"] == 1
    assert task_metrics(scrape, ERROR_PREFIX)["total_retries"] == 1
    errors.clear()
    worker.advance(1.5)
    scrape = metrics(worker)
    assert task_metrics(scrape, TASK_PREFIX)["offset_commit_success_percentage"] == 0.5
    assert task_metrics(scrape, TASK_PREFIX)["offset_commit_max_time_ms"] == pytest.approx(1000)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("actor", ["herder", "worker", "task numbers-0", "numbers"])
def test_metrics_stay_correct_when_an_actor_dies(seed: int, actor: str) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, config())
    worker.crash("connector numbers" if actor == "numbers" else actor)
    worker.advance(5)
    worker.fake.feed(T0, 4)
    worker.run()
    scrape = metrics(worker)
    assert states(scrape) == ({"running"}, {"running": 2})
    assert (scrape.value(CONNECTOR_COUNT), scrape.value(TASK_COUNT)) == (1, 2)
    assert task_metrics(scrape, SOURCE_PREFIX)["source_record_write_total"] == 4
    assert scrape.value(WORKER_PREFIX + "task_startup_attempts_total") == 2
    assert scrape.value(WORKER_PREFIX + "connector_startup_attempts_total") == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_rebalances_are_counted(seed: int) -> None:
    cluster = EmbeddedCluster(2, seed=seed)
    cluster.settle()
    cluster.create(NAME, config())
    cluster.settle()
    scrapes = {worker.name: parse_scrape(worker.metrics()) for worker in cluster.alive}
    for worker in cluster.alive:
        scrape = scrapes[worker.name]
        assert scrape.value(REBALANCE_PREFIX + "rebalancing") == 0
        assert scrape.value(REBALANCE_PREFIX + "completed_rebalances_total") >= 1
        assert scrape.value(REBALANCE_PREFIX + "epoch") == worker.snapshot.generation
        assert math.isfinite(scrape.value(REBALANCE_PREFIX + "time_since_last_rebalance_ms"))
        assert scrape.label_of(REBALANCE_PREFIX[:-1], "connect_protocol") == {"STATIC"}
        assert scrape.label_of(REBALANCE_PREFIX[:-1], "leader_name") == {cluster.leader.url}
    for kind, count in (("connectors", 1), ("tasks", 2)):
        name = f"kafka_connect_connect_coordinator_metrics_assigned_{kind}"
        assert sum(sum(worker_scrape.all_of(name).values()) for worker_scrape in scrapes.values()) == count
    assert sum(worker_scrape.value(TASK_COUNT) for worker_scrape in scrapes.values()) == 2

    rebalance_counts = {
        name: worker_scrape.value(REBALANCE_PREFIX + "completed_rebalances_total")
        for name, worker_scrape in scrapes.items()
    }
    [follower] = [worker for worker in cluster.alive if worker is not cluster.leader]
    cluster.kill(follower)
    cluster.settle(within_s=30)
    later_scrape = parse_scrape(cluster.leader.metrics())
    assert (
        later_scrape.value(REBALANCE_PREFIX + "completed_rebalances_total")
        > rebalance_counts[cluster.leader.name]
    )
    assert later_scrape.value(TASK_COUNT) == 2
    assert later_scrape.value(REBALANCE_PREFIX + "rebalance_max_time_ms") >= 0


@pytest.mark.parametrize("seed", SEEDS)
def test_samples_survive_actor_deaths(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, config(FAKE_SINK))
    series = worker.assembly.series
    for actor in ("herder", "worker", f"task {T0}"):
        worker.fake.feed(T0, 50)
        worker.advance(5)
        series.sample()
        worker.crash(actor)
        worker.run()
    worker.fake.feed(T0, 25)
    worker.advance(5)
    series.sample()
    assert series.of(NAME).tasks[0]["records_per_second"] == [10, 10, 10, 5]

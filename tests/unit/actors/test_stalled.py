"""Tests for the detection of stalled instances, and for the causes in the status and the metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from actors.messages.herder import SetTargetState
from kraal.config.connector.auto_restart import AutoRestart
from kraal.core.errors import StoreError
from kraal.core.ids import ConnectorName, State, TargetState, TaskId
from kraal.engine.api import RunEvent, TaskSpec
from kraal.metrics.stalls.detection import StallDetection
from kraal.metrics.stalls.watch import StallWatch
from kraal.stores.memory import MemoryOffsets
from kraal.testing._simulation.engine import FakeEngine, FakeRun
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker
from tests.fakes.workers.prometheus import parse_scrape

NAME = ConnectorName("numbers")
T0, T1 = TaskId(NAME, 0), TaskId(NAME, 1)


def create_worker(**properties: str) -> EmbeddedWorker:
    worker = EmbeddedWorker(properties={"task.stall.timeout.ms": "60000", **properties})
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
    return worker


def list_stalled_tasks(worker: EmbeddedWorker) -> list[Any]:
    stall_detection = StallDetection(worker.assembly.metrics, AutoRestart())
    tasks: list[Any] = json.loads(json.dumps(stall_detection.stalled_tasks(worker.snapshot)))
    return tasks


def single_cause(worker: EmbeddedWorker) -> str:
    """Return the cause of the only stalled instance."""
    return cause_with_kind(worker)[1]


def cause_with_kind(worker: EmbeddedWorker) -> tuple[str, str]:
    [cause] = StallDetection(worker.assembly.metrics, AutoRestart()).causes(worker.snapshot).values()
    return cause


def gauge(worker: EmbeddedWorker, name: str, task: TaskId) -> float | None:
    return parse_scrape(worker.metrics()).value(name, connector=task.connector, task=str(task.task))


def test_idle_task_is_not_stalled() -> None:
    worker = create_worker()
    worker.fake.feed(T0, 5)
    worker.advance(100_000)
    assert list_stalled_tasks(worker) == []
    assert gauge(worker, "kraal_task_stalled", T0) == 0
    assert gauge(worker, "kraal_task_last_batch_age_ms", T0) == 100_000_000


def test_hanging_batch_is_stalled() -> None:
    worker = create_worker()
    worker.fake.feed(T0, 5)
    worker.run()
    worker.advance(10)
    worker.fake.hang(T0)
    worker.fake.feed(T0, 5)
    worker.advance(60)
    assert list_stalled_tasks(worker) == []
    worker.advance(1)
    assert list_stalled_tasks(worker) == [
        {
            "connector": NAME,
            "task": 0,
            "cause": "The batch does not complete",
            "stalled_ms": 61_000,
            "step_ms": 61_000,
            "last_batch_age_ms": 71_000,
        }
    ]
    assert worker.states(NAME) == ["RUNNING"] * 3
    assert [gauge(worker, "kraal_task_stalled", task) for task in (T0, T1)] == [1, 0]
    worker.fake.hang(T0, hangs=False)
    worker.advance(1)
    assert list_stalled_tasks(worker) == []


class RejectingStore(MemoryOffsets):
    """An offset store that rejects writes while `is_failing` is true."""

    is_failing = False

    @override
    def store(self, *args: Any, **kwargs: Any) -> None:
        if self.is_failing:
            raise StoreError("the disk is full")
        super().store(*args, **kwargs)


def test_failing_commit_is_stalled() -> None:
    offsets = RejectingStore()
    worker = EmbeddedWorker(offsets=offsets, properties={"task.stall.timeout.ms": "60000"})
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
    offsets.is_failing = True
    worker.fake.feed(T0, 5)
    worker.advance(62)
    [task] = list_stalled_tasks(worker)
    assert (task["task"], task["cause"]) == (0, "The commit does not complete: the disk is full")
    offsets.is_failing = False
    worker.advance(5)
    assert list_stalled_tasks(worker) == []


def test_stopped_task_is_not_stalled_and_a_restart_resets_the_stall_timer() -> None:
    worker = create_worker()
    worker.fake.hang(T0)
    worker.fake.feed(T0, 5)
    worker.advance(100)
    assert len(list_stalled_tasks(worker)) == 1
    worker.fake.fail(T0, "OSError: x")
    worker.run()
    assert list_stalled_tasks(worker) == []
    worker.fake.hang(T0, hangs=False)
    worker.ask(SetTargetState(name=NAME, target=TargetState.STOPPED))
    worker.ask(SetTargetState(name=NAME, target=TargetState.STARTED))
    worker.advance(100)
    assert list_stalled_tasks(worker) == []
    assert worker.states(NAME) == ["RUNNING"] * 3


def test_zero_timeout_disables_stall_detection() -> None:
    worker = create_worker(**{"task.stall.timeout.ms": "0"})
    worker.fake.hang(T0)
    worker.fake.feed(T0, 5)
    worker.advance(1_000_000)
    assert list_stalled_tasks(worker) == []


class SilentEngine(FakeEngine):
    """An engine whose runs report no events."""

    @override
    def make_run(self, spec: TaskSpec, position: int, report: Callable[[RunEvent], None]) -> FakeRun:
        del report
        return FakeRun(self, spec, position, lambda _: None)


def create_sink_worker(**properties: str) -> EmbeddedWorker:
    worker = EmbeddedWorker(properties=properties)
    worker.create(NAME, {"connector.class": FAKE_SINK, "topics": "orders,more", "tasks.max": "1"})
    return worker


def test_sink_with_a_growing_unread_backlog_is_stalled() -> None:
    worker = create_sink_worker()
    worker.fake.feed(T0, 5)
    worker.run()
    report_backlog = worker.assembly.metrics.record_backlog
    report_backlog(T0, 1)
    worker.advance(30)
    report_backlog(T0, 100)
    worker.advance(61)
    assert cause_with_kind(worker)[0] == "backlog"
    assert gauge(worker, "kraal_task_stalled", T0) == 1
    assert (
        parse_scrape(worker.metrics()).value("kraal_task_stall", connector=NAME, task="0", kind="backlog")
        == 1
    )
    worker.fake.feed(T0, 5)
    worker.run()
    assert list_stalled_tasks(worker) == []


def test_java_sink_with_an_unread_backlog_is_stalled() -> None:
    worker = create_sink_worker()
    worker.fake.feed(T0, 5)
    worker.run()
    report_backlog = worker.assembly.metrics.record_backlog
    for _ in range(4):
        report_backlog(T0, 3, exact=True)
        worker.advance(30)
    kind, cause = cause_with_kind(worker)
    assert (kind, cause.partition(";")[0]) == (
        "backlog",
        "It reads no record, although its backlog is 3 records",
    )
    report_backlog(T0, 0, exact=True)
    assert list_stalled_tasks(worker) == []


def test_sink_without_existing_topics_is_stalled_until_assigned() -> None:
    worker = create_sink_worker()
    metrics = worker.assembly.metrics
    metrics.record_partitions(T0, 0)
    topics: set[str] = {"others"}
    watch = StallWatch(StallDetection(metrics, AutoRestart()), worker.assembly.published, lambda: topics)
    watch.check()
    assert list_stalled_tasks(worker) == []
    worker.advance(61)
    watch.check()
    assert single_cause(worker) == "None of its topics exists: orders, more"
    assert list_stalled_tasks(worker)[0]["step_ms"] is None
    topics.add("orders")
    metrics.record_partitions(T0, 1)
    watch.check()
    assert list_stalled_tasks(worker) == []


def test_sink_is_stalled_until_the_rebalance_of_its_group_completes() -> None:
    worker = create_sink_worker()
    metrics = worker.assembly.metrics
    metrics.record_partitions(T0, None)
    worker.advance(30)
    assert list_stalled_tasks(worker) == []
    metrics.remove(T0)  # as in a restart
    metrics.record_start(T0)
    metrics.record_state(T0, State.RUNNING, None)
    metrics.record_partitions(T0, None)
    worker.advance(31)
    kind, cause = cause_with_kind(worker)
    assert (kind, cause.partition(",")[0]) == ("group", "It has no partitions")
    metrics.record_partitions(T0, 0)
    assert list_stalled_tasks(worker) == [], "a member without partitions is spare"


def test_hanging_task_start_is_stalled() -> None:
    worker = EmbeddedWorker(engine=SilentEngine())
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "1"})
    worker.advance(61)
    assert single_cause(worker) == "Its start has not completed"


def test_task_that_waits_for_its_engine_is_stalled() -> None:
    worker = EmbeddedWorker()
    worker.fake.lose("Spark is starting")
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "1"})
    assert worker.states(NAME) == ["RUNNING", "UNASSIGNED"]
    worker.advance(61)
    assert single_cause(worker) == "It is waiting: Spark is starting"


def test_connector_without_task_configs_is_stalled() -> None:
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "1", "fail.in": "task_configs"})
    assert list_stalled_tasks(worker) == []
    worker.advance(61)
    kind, text = cause_with_kind(worker)
    assert (kind, text.partition(":")[0]) == ("no-tasks", "It fails to generate task configs")
    assert parse_scrape(worker.metrics()).value("kraal_connector_stalled", connector=NAME) == 1
    detection = StallDetection(worker.assembly.metrics, AutoRestart())
    supervision: Any = detection.status(worker.snapshot, NAME)
    assert supervision["connector"]["stalled"] is True
    stalls: Any = detection.stalled_connectors(worker.snapshot)
    assert [stall["cause"] for stall in stalls] == [text]

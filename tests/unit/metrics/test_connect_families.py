"""From what is published to what Prometheus reads."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.state.statuses import ConnectorStatuses, StatusState
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.ids import ConnectorName, Generation, Instance, State, TaskId, WorkerId
from kraal.metrics.connect_families import Identity, families
from kraal.metrics.registry import MetricsRegistry
from kraal.metrics.task import TaskMeter
from kraal.metrics.text import render
from kraal.metrics.windows import Windows
from kraal.protocol.group import GroupProtocol
from kraal.protocol.status_records import Status
from tests.fakes.workers.prometheus import Scraped, scraped

WORKER = WorkerId("worker:8083")
IDENTITY = Identity(client_id="connect-1", version="4.3.0", commit="abc", started_ms=1_700_000_000_000)
A, B = ConnectorName("a"), ConnectorName("b")
NAMES = {"alias": "org.example.FullName"}
CONNECT = "kafka_connect_connect_worker_metrics_"


@dataclass
class Watch:
    """A clock that a test sets."""

    seconds: float = 1000.0

    def now(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return 0


def status(state: State) -> Status:
    return Status(state=state, worker_id=WORKER, generation=Generation(1), trace=None, version="1.0")


def snapshot(states: Mapping[ConnectorName, list[State]], kind: str = "source", **more: object) -> Snapshot:
    """Return a snapshot of connectors: the state of each, and of its tasks."""
    entries = {name: ConnectorEntry(name=name, config={"connector.class": "alias"}) for name in states}
    stored = {
        name: ConnectorStatuses(
            connector=status(found[0]), tasks={n: status(s) for n, s in enumerate(found[1:])}
        )
        for name, found in states.items()
    }
    base_snapshot = Snapshot(
        worker_id=WORKER,
        live=True,
        config=ClusterState(offset=1, connectors=entries),
        status=StatusState(statuses=stored),
        types=dict.fromkeys(states, kind),
    )
    return replace(base_snapshot, **more)  # type: ignore[arg-type]


def metrics_of(*living: Instance, in_group: bool = False) -> MetricsRegistry:
    metrics = MetricsRegistry(Watch(), Windows(), in_group=in_group)
    for each in living:
        metrics.record_start(each)
    return metrics


def shown(state: Snapshot, metrics: MetricsRegistry, now_s: float = 1000.0) -> Scraped:
    return scraped(
        "".join(
            map(
                render,
                families(state, metrics.current(), IDENTITY, lambda name: NAMES.get(name, name), now_s),
            )
        )
    )


def test_an_empty_worker() -> None:
    page = shown(snapshot({}), metrics_of())
    assert page.value(CONNECT + "connector_count") == 0
    assert page.value(CONNECT + "task_count") == 0
    assert page.value(CONNECT + "task_startup_success_percentage") == 0
    assert page.value("kafka_connect_app_info", client_id="connect-1", version="4.3.0") == 1
    assert page.value("kafka_connect_app_info", client_id="connect-1", commit_id="abc") == 1
    assert page.value("kafka_connect_app_info", client_id="connect-1", start_time_ms="1700000000000") == 1
    assert not any("rebalance" in name or "coordinator" in name for name in page.types), "no group"


def test_only_what_lives_here_is_shown() -> None:
    states = {A: [State.RUNNING, State.RUNNING, State.RUNNING], B: [State.RUNNING, State.RUNNING]}
    page = shown(snapshot(states), metrics_of(A, TaskId(A, 1)))
    assert page.value(CONNECT + "connector_count") == 1
    assert page.value(CONNECT + "task_count") == 1
    assert page.label_of("kafka_connect_connector_metrics", "connector") == {"a"}
    assert page.label_of("kafka_connect_connector_task_metrics", "task") == {"1"}
    assert page.value(CONNECT + "connector_total_task_count", connector="a") == 1


@pytest.mark.parametrize("state", [each for each in State if each is not State.STOPPED])
def test_every_state_of_a_task_is_shown_and_counted(state: State) -> None:
    page = shown(snapshot({A: [State.RUNNING, state]}), metrics_of(A, TaskId(A, 0)))
    word = state.value.lower()
    labels = {"connector": "a", "task": "0", "status": word}
    assert page.value("kafka_connect_connector_task_metrics", **labels) == 1
    assert page.value("kafka_connect_connector_task_status", **labels) == 1
    counted = {
        each: page.value(f"{CONNECT}connector_{each}_task_count", connector="a")
        for each in ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
    }
    assert counted == {**dict.fromkeys(counted, 0), word: 1}


def test_restarting_is_reported_as_over_rest() -> None:
    restarting = frozenset({A, TaskId(A, 0)})
    states = {A: [State.RUNNING, State.FAILED, State.RUNNING]}
    page = shown(snapshot(states, restarting=restarting), metrics_of(A, TaskId(A, 0), TaskId(A, 1)))
    assert page.label_of("kafka_connect_connector_metrics", "status") == {"restarting"}
    assert page.value(CONNECT + "connector_restarting_task_count", connector="a") == 1
    assert page.value(CONNECT + "connector_running_task_count", connector="a") == 1
    assert page.value(CONNECT + "connector_failed_task_count", connector="a") == 0


def test_the_type_of_a_connector() -> None:
    metrics = metrics_of(A)
    metrics.record_state(A, State.RUNNING, "2.1")
    page = shown(snapshot({A: [State.STOPPED]}, kind="sink"), metrics)
    name = "kafka_connect_connector_metrics"
    assert page.all_of(name) == {
        frozenset({("connector", "a"), each}): 1
        for each in [
            ("connector_type", "sink"),
            ("connector_class", "org.example.FullName"),
            ("connector_version", "2.1"),
            ("status", "stopped"),
        ]
    }


def test_unknown_values_are_absent_or_unassigned() -> None:
    page = shown(snapshot({}), metrics_of(A, TaskId(A, 0)))
    assert page.label_of("kafka_connect_connector_metrics", "connector_class") == set()
    assert page.label_of("kafka_connect_connector_metrics", "connector_version") == set()
    assert page.label_of("kafka_connect_connector_metrics", "status") == {"unassigned"}
    assert page.label_of("kafka_connect_connector_task_metrics", "status") == {"unassigned"}


def test_starts_are_counted_once_a_life() -> None:
    metrics, task = metrics_of(A, TaskId(A, 0)), TaskId(A, 0)
    metrics.record_state(A, State.RUNNING, "1.0")
    metrics.record_state(A, State.PAUSED, "1.0")
    metrics.record_state(A, State.RUNNING, "1.0")
    metrics.record_state(task, State.UNASSIGNED, None)
    metrics.record_state(task, State.FAILED, None)
    metrics.record_state(task, State.FAILED, None)
    metrics.remove(task)
    metrics.record_start(task)
    metrics.record_state(task, State.RUNNING, "1.0")
    metrics.record_state(task, State.FAILED, None)
    page = shown(snapshot({}), metrics)
    kinds = ("attempts_total", "success_total", "failure_total", "success_percentage", "failure_percentage")
    assert [page.value(f"{CONNECT}connector_startup_{kind}") for kind in kinds] == [1, 1, 0, 1, 0]
    assert [page.value(f"{CONNECT}task_startup_{kind}") for kind in kinds] == [2, 1, 1, 0.5, 0.5]


def test_removed_instances_leave_no_series() -> None:
    metrics, task = metrics_of(A, TaskId(A, 0)), TaskId(A, 0)
    meter = TaskMeter(task, is_source=False, time=Watch(), windows=Windows(), publish=metrics.publish)
    meter.record_state(State.RUNNING)
    metrics.has_partitions(task, 3)
    metrics.record_state(task, State.RUNNING, "1")
    metrics.remove(task)
    current = metrics.current()
    assert (current.living, current.tasks, current.partitions) == ({A: None}, {}, {})


def test_a_group() -> None:
    metrics = metrics_of(in_group=True)
    assert metrics.group is not None
    metrics.group = replace(metrics.group.on_rebalance_began(900), connectors=2, tasks=5)
    name = "kafka_connect_connect_worker_rebalance_metrics"
    page = shown(snapshot({}, generation=Generation(0)), metrics)
    assert page.value(f"{name}_rebalancing") == 1
    assert page.value(f"{name}_time_since_last_rebalance_ms") == float("inf")
    assert page.value(f"{name}_completed_rebalances_total") == 0
    assert name not in page.types, "neither protocol nor leader is known"

    metrics.group = metrics.group.on_rebalance_ended(902.5).on_rebalance_began(950).on_rebalance_ended(950.5)
    reported = snapshot(
        {}, generation=Generation(7), protocol=GroupProtocol.DEFAULT, leader_url="http://other:8083/"
    )
    page = shown(reported, metrics, 951.0)
    assert page.value(name, connect_protocol="EAGER") == 1
    assert page.value(name, leader_name="http://other:8083/") == 1
    assert page.value(f"{name}_epoch") == 7
    assert page.value(f"{name}_rebalancing") == 0
    assert page.value(f"{name}_completed_rebalances_total") == 2
    assert page.value(f"{name}_rebalance_max_time_ms") == 2500
    assert page.value(f"{name}_rebalance_avg_time_ms") == 1500
    assert page.value(f"{name}_time_since_last_rebalance_ms") == 500
    coordinator = "kafka_connect_connect_coordinator_metrics"
    assert page.value(f"{coordinator}_assigned_connectors", client_id="connect-1") == 2
    assert page.value(f"{coordinator}_assigned_tasks", client_id="connect-1") == 5


def test_the_backlog_of_running_sinks_is_shown() -> None:
    states = {A: [State.RUNNING, State.RUNNING, State.PAUSED, State.RUNNING, State.RUNNING]}
    tasks = [TaskId(A, number) for number in range(4)]
    metrics = metrics_of(A, *tasks)
    for number, task in enumerate(tasks):
        metrics.has_backlog(task, number * 100)
    metrics.remove(tasks[3])
    metrics.record_start(tasks[3])

    def series() -> dict[str, float]:
        rows = shown(snapshot(states, "sink"), metrics).all_of("kraal_task_backlog_records")
        return {dict(labels)["task"]: value for labels, value in rows.items()}

    assert series() == {"0": 0, "2": 200}, "a paused task reads nothing, a new one has told nothing"
    metrics.has_partitions(tasks[2], 0)
    assert series() == {"0": 0}, "it has no partitions any more"


def test_rebalance_without_a_start_does_not_end() -> None:
    metrics = metrics_of(in_group=True)
    assert metrics.group is not None
    assert metrics.group.on_rebalance_ended(5) is metrics.group


def test_totals_are_counters_and_all_else_gauges() -> None:
    metrics, task = metrics_of(TaskId(A, 0)), TaskId(A, 0)
    TaskMeter(task, is_source=True, time=Watch(), windows=Windows(), publish=metrics.publish).record_state(
        State.RUNNING
    )
    page = shown(snapshot({}), metrics)
    counters = {name for name, kind in page.types.items() if kind == "counter"}
    assert counters == {
        *(name for name in page.types if name.endswith("_total")),
        *(f"kafka_connect_task_error_metrics_total_{each}" for each in ("records_skipped", "retries")),
        "kafka_connect_task_error_metrics_total_record_failures",
        "kafka_connect_task_error_metrics_total_record_errors",
        "kafka_connect_task_error_metrics_total_errors_logged",
        "kafka_connect_task_error_metrics_deadletterqueue_produce_requests",
        "kafka_connect_task_error_metrics_deadletterqueue_produce_failures",
    }


def test_a_thousand_connectors_take_little_time_and_come_in_pieces() -> None:
    connectors = [ConnectorName(f"connector-{n}") for n in range(1000)]
    tasks = [TaskId(name, 0) for name in connectors]
    metrics = metrics_of(*connectors, *tasks)
    for task in tasks:
        meter = TaskMeter(task, is_source=True, time=Watch(), windows=Windows(), publish=metrics.publish)
        meter.record_state(State.RUNNING)
        meter.record_batch(records=5, duration_s=0.1, poll_s=0.01)
        meter.record_commit_start()
        meter.record_commit()
    state = snapshot({name: [State.RUNNING, State.RUNNING] for name in connectors})
    began_s = time.thread_time()
    pieces = [
        "".join(map(render, [each]))
        for each in families(state, metrics.current(), IDENTITY, lambda name: name, 1000.0)
    ]
    took_s = time.thread_time() - began_s
    assert took_s < 1.0, "of the processor; it is some fifty milliseconds on an idle machine"
    assert max(map(len, pieces)) < sum(map(len, pieces)) / 5
    assert scraped("".join(pieces)).value(CONNECT + "task_count") == 1000

"""Tests for the conversion of published metrics to Prometheus families."""

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
from tests.fakes.workers.prometheus import Scraped, parse_scrape

WORKER = WorkerId("worker:8083")
IDENTITY = Identity(client_id="connect-1", version="4.3.0", commit="abc", started_ms=1_700_000_000_000)
A, B = ConnectorName("a"), ConnectorName("b")
CLASS_NAMES = {"alias": "org.example.FullName"}
WORKER_METRICS = "kafka_connect_connect_worker_metrics_"


@dataclass
class FakeClock:
    """A clock set by a test."""

    seconds: float = 1000.0

    def now(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return 0


def status(state: State) -> Status:
    return Status(state=state, worker_id=WORKER, generation=Generation(1), trace=None, version="1.0")


def snapshot(
    states: Mapping[ConnectorName, list[State]], kind: str = "source", **changes: object
) -> Snapshot:
    """Return a snapshot. Each list has the state of a connector first, then the states of its tasks."""
    entries = {name: ConnectorEntry(name=name, config={"connector.class": "alias"}) for name in states}
    statuses_by_name = {
        name: ConnectorStatuses(
            connector=status(instance_states[0]),
            tasks={n: status(s) for n, s in enumerate(instance_states[1:])},
        )
        for name, instance_states in states.items()
    }
    base_snapshot = Snapshot(
        worker_id=WORKER,
        live=True,
        config=ClusterState(offset=1, connectors=entries),
        status=StatusState(statuses=statuses_by_name),
        types=dict.fromkeys(states, kind),
    )
    return replace(base_snapshot, **changes)  # type: ignore[arg-type]


def create_metrics(*instances: Instance, in_group: bool = False) -> MetricsRegistry:
    metrics = MetricsRegistry(FakeClock(), Windows(), in_group=in_group)
    for instance in instances:
        metrics.record_start(instance)
    return metrics


def rendered_metrics(state: Snapshot, metrics: MetricsRegistry, now_s: float = 1000.0) -> Scraped:
    return parse_scrape(
        "".join(
            map(
                render,
                families(state, metrics.current(), IDENTITY, lambda name: CLASS_NAMES.get(name, name), now_s),
            )
        )
    )


def test_empty_worker_exports_zero_counts() -> None:
    page = rendered_metrics(snapshot({}), create_metrics())
    assert page.value(WORKER_METRICS + "connector_count") == 0
    assert page.value(WORKER_METRICS + "task_count") == 0
    assert page.value(WORKER_METRICS + "task_startup_success_percentage") == 0
    assert page.value("kafka_connect_app_info", client_id="connect-1", version="4.3.0") == 1
    assert page.value("kafka_connect_app_info", client_id="connect-1", commit_id="abc") == 1
    assert page.value("kafka_connect_app_info", client_id="connect-1", start_time_ms="1700000000000") == 1
    assert not any("rebalance" in name or "coordinator" in name for name in page.types), (
        "a standalone worker has no group"
    )


def test_only_local_instances_are_exported() -> None:
    states = {A: [State.RUNNING, State.RUNNING, State.RUNNING], B: [State.RUNNING, State.RUNNING]}
    page = rendered_metrics(snapshot(states), create_metrics(A, TaskId(A, 1)))
    assert page.value(WORKER_METRICS + "connector_count") == 1
    assert page.value(WORKER_METRICS + "task_count") == 1
    assert page.label_of("kafka_connect_connector_metrics", "connector") == {"a"}
    assert page.label_of("kafka_connect_connector_task_metrics", "task") == {"1"}
    assert page.value(WORKER_METRICS + "connector_total_task_count", connector="a") == 1


@pytest.mark.parametrize("state", [state for state in State if state is not State.STOPPED])
def test_task_states_are_exported_and_counted(state: State) -> None:
    page = rendered_metrics(snapshot({A: [State.RUNNING, state]}), create_metrics(A, TaskId(A, 0)))
    status_text = state.value.lower()
    labels = {"connector": "a", "task": "0", "status": status_text}
    assert page.value("kafka_connect_connector_task_metrics", **labels) == 1
    assert page.value("kafka_connect_connector_task_status", **labels) == 1
    task_counts = {
        state_name: page.value(f"{WORKER_METRICS}connector_{state_name}_task_count", connector="a")
        for state_name in ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
    }
    assert task_counts == {**dict.fromkeys(task_counts, 0), status_text: 1}


def test_restarting_is_exported_as_in_rest() -> None:
    restarting_instances = frozenset({A, TaskId(A, 0)})
    states = {A: [State.RUNNING, State.FAILED, State.RUNNING]}
    page = rendered_metrics(
        snapshot(states, restarting=restarting_instances), create_metrics(A, TaskId(A, 0), TaskId(A, 1))
    )
    assert page.label_of("kafka_connect_connector_metrics", "status") == {"restarting"}
    assert page.value(WORKER_METRICS + "connector_restarting_task_count", connector="a") == 1
    assert page.value(WORKER_METRICS + "connector_running_task_count", connector="a") == 1
    assert page.value(WORKER_METRICS + "connector_failed_task_count", connector="a") == 0


def test_connector_type_class_version_and_status_are_exported() -> None:
    metrics = create_metrics(A)
    metrics.record_state(A, State.RUNNING, "2.1")
    page = rendered_metrics(snapshot({A: [State.STOPPED]}, kind="sink"), metrics)
    name = "kafka_connect_connector_metrics"
    assert page.all_of(name) == {
        frozenset({("connector", "a"), label}): 1
        for label in [
            ("connector_type", "sink"),
            ("connector_class", "org.example.FullName"),
            ("connector_version", "2.1"),
            ("status", "stopped"),
        ]
    }


def test_unknown_values_are_omitted_or_unassigned() -> None:
    page = rendered_metrics(snapshot({}), create_metrics(A, TaskId(A, 0)))
    assert page.label_of("kafka_connect_connector_metrics", "connector_class") == set()
    assert page.label_of("kafka_connect_connector_metrics", "connector_version") == set()
    assert page.label_of("kafka_connect_connector_metrics", "status") == {"unassigned"}
    assert page.label_of("kafka_connect_connector_task_metrics", "status") == {"unassigned"}


def test_startup_is_counted_once_per_incarnation() -> None:
    metrics, task = create_metrics(A, TaskId(A, 0)), TaskId(A, 0)
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
    page = rendered_metrics(snapshot({}), metrics)
    kinds = ("attempts_total", "success_total", "failure_total", "success_percentage", "failure_percentage")
    assert [page.value(f"{WORKER_METRICS}connector_startup_{kind}") for kind in kinds] == [1, 1, 0, 1, 0]
    assert [page.value(f"{WORKER_METRICS}task_startup_{kind}") for kind in kinds] == [2, 1, 1, 0.5, 0.5]


def test_removed_instances_have_no_series() -> None:
    metrics, task = create_metrics(A, TaskId(A, 0)), TaskId(A, 0)
    meter = TaskMeter(task, is_source=False, time=FakeClock(), windows=Windows(), publish=metrics.publish)
    meter.record_state(State.RUNNING)
    metrics.record_partitions(task, 3)
    metrics.record_state(task, State.RUNNING, "1")
    metrics.remove(task)
    current_metrics = metrics.current()
    assert (current_metrics.plugin_versions, current_metrics.tasks, current_metrics.partitions) == (
        {A: None},
        {},
        {},
    )


def test_group_metrics_are_exported() -> None:
    metrics = create_metrics(in_group=True)
    assert metrics.group is not None
    metrics.group = replace(metrics.group.on_rebalance_began(900), connectors=2, tasks=5)
    name = "kafka_connect_connect_worker_rebalance_metrics"
    page = rendered_metrics(snapshot({}, generation=Generation(0)), metrics)
    assert page.value(f"{name}_rebalancing") == 1
    assert page.value(f"{name}_time_since_last_rebalance_ms") == float("inf")
    assert page.value(f"{name}_completed_rebalances_total") == 0
    assert name not in page.types, "the protocol and the leader are unknown"

    metrics.group = metrics.group.on_rebalance_ended(902.5).on_rebalance_began(950).on_rebalance_ended(950.5)
    reported_snapshot = snapshot(
        {}, generation=Generation(7), protocol=GroupProtocol.DEFAULT, leader_url="http://other:8083/"
    )
    page = rendered_metrics(reported_snapshot, metrics, 951.0)
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


def test_backlog_of_running_sinks_is_exported() -> None:
    states = {A: [State.RUNNING, State.RUNNING, State.PAUSED, State.RUNNING, State.RUNNING]}
    tasks = [TaskId(A, number) for number in range(4)]
    metrics = create_metrics(A, *tasks)
    for number, task in enumerate(tasks):
        metrics.record_backlog(task, number * 100)
    metrics.remove(tasks[3])
    metrics.record_start(tasks[3])

    def series() -> dict[str, float]:
        rows = rendered_metrics(snapshot(states, "sink"), metrics).all_of("kraal_task_backlog_records")
        return {dict(labels)["task"]: value for labels, value in rows.items()}

    assert series() == {"0": 0, "2": 200}, "a paused task reads no records, and a new task has not reported"
    metrics.record_partitions(tasks[2], 0)
    assert series() == {"0": 0}, "the task has lost its partitions"


def test_rebalance_without_a_start_is_not_recorded() -> None:
    metrics = create_metrics(in_group=True)
    assert metrics.group is not None
    group = metrics.group.on_rebalance_ended(5)
    assert (group.completed_count, group.ended_s, group.waiting_since_s) == (0, None, None)
    assert group.on_rebalance_ended(6) is group


def test_only_totals_are_counters() -> None:
    metrics, task = create_metrics(TaskId(A, 0)), TaskId(A, 0)
    TaskMeter(
        task, is_source=True, time=FakeClock(), windows=Windows(), publish=metrics.publish
    ).record_state(State.RUNNING)
    page = rendered_metrics(snapshot({}), metrics)
    counters = {name for name, kind in page.types.items() if kind == "counter"}
    assert counters == {
        *(name for name in page.types if name.endswith("_total")),
        *(f"kafka_connect_task_error_metrics_total_{suffix}" for suffix in ("records_skipped", "retries")),
        "kafka_connect_task_error_metrics_total_record_failures",
        "kafka_connect_task_error_metrics_total_record_errors",
        "kafka_connect_task_error_metrics_total_errors_logged",
        "kafka_connect_task_error_metrics_deadletterqueue_produce_requests",
        "kafka_connect_task_error_metrics_deadletterqueue_produce_failures",
    }


def test_scrape_of_a_thousand_connectors_is_fast_and_incremental() -> None:
    connectors = [ConnectorName(f"connector-{n}") for n in range(1000)]
    tasks = [TaskId(name, 0) for name in connectors]
    metrics = create_metrics(*connectors, *tasks)
    for task in tasks:
        meter = TaskMeter(task, is_source=True, time=FakeClock(), windows=Windows(), publish=metrics.publish)
        meter.record_state(State.RUNNING)
        meter.record_batch(records=5, duration_s=0.1, poll_s=0.01)
        meter.record_commit_start()
        meter.record_commit()
    state = snapshot({name: [State.RUNNING, State.RUNNING] for name in connectors})
    began_s = time.thread_time()
    rendered_families = [
        "".join(map(render, [family]))
        for family in families(state, metrics.current(), IDENTITY, lambda name: name, 1000.0)
    ]
    elapsed_s = time.thread_time() - began_s
    assert elapsed_s < 1.0, "the CPU time on an idle machine is about 50 ms"
    assert max(map(len, rendered_families)) < sum(map(len, rendered_families)) / 5
    assert parse_scrape("".join(rendered_families)).value(WORKER_METRICS + "task_count") == 1000

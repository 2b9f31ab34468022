"""Tests that failed instances are restarted once per failure despite actor deaths, unless a user intervenes."""

from __future__ import annotations

import json

import pytest

from actors.messages.herder import (
    DeleteConnector,
    PatchConfig,
    PutConfig,
    RestartConnector,
    RestartTask,
    SetTargetState,
)
from kraal.cluster.decisions.auto_restart import FailureHistory, NoRestartReason
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.protocol.status_records import status_key
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.plugins import FAKE_SOURCE, FakeSourceConnector
from kraal.testing._simulation.worker import EmbeddedWorker
from tests.fakes.workers.prometheus import parse_scrape

NAME = ConnectorName("numbers")
T0, T1 = TaskId(NAME, 0), TaskId(NAME, 1)
CONFIG: dict[str, str | None] = {
    "connector.class": FAKE_SOURCE,
    "tasks.max": "2",
    "errors.auto.restart": "task",
    "errors.auto.restart.max": "3",
    "errors.auto.restart.window.ms": "600000",
    "errors.auto.restart.backoff.ms": "8000",
}
FAILURE_TRACE = "OSError: the disk is full\n  in task numbers-0"
SEEDS = range(8)


def create_worker(seed: int = 0, **properties: str) -> EmbeddedWorker:
    """Return a worker whose connector has two tasks."""
    worker = EmbeddedWorker(seed=seed, properties=properties)
    worker.create(NAME, CONFIG)
    return worker


def fail_first_task(worker: EmbeddedWorker, trace: str = FAILURE_TRACE) -> FailureHistory:
    """Fail the first task; return its failure history."""
    worker.fake.fail(T0, trace)
    worker.run()
    return worker.snapshot.watched[T0]


def written_states(worker: EmbeddedWorker) -> list[str]:
    """Return the states of the first task in the status topic, in order."""
    records = [r for r in worker.status_log.read(0, 10_000) if r.key == status_key(T0)]
    return [json.loads(r.value)["state"] for r in records if r.value is not None]


def open_count(worker: EmbeddedWorker) -> int:
    return worker.fake.opened.count(T0)


def test_failed_task_is_restarted_automatically() -> None:
    worker = create_worker()
    history = fail_first_task(worker)
    assert worker.states(NAME) == ["RUNNING", "FAILED", "RUNNING"]
    assert history.due_s is not None
    assert 4.0 <= history.due_s <= 8.0, "the backoff, reduced by at most half"
    worker.advance(3.9)
    assert worker.states(NAME) == ["RUNNING", "FAILED", "RUNNING"]
    worker.fake.feed(T0, 3)
    worker.advance(4.2)
    assert worker.states(NAME) == ["RUNNING"] * 3
    assert worker.fake.written[T0] == [0, 1, 2]
    assert written_states(worker)[-4:] == ["RUNNING", "FAILED", "RESTARTING", "RUNNING"]
    assert worker.fake.opened.count(T1) == 1, "one restart per failure"
    assert worker.snapshot.watched[T0].total == 1


def test_unsupervised_task_stays_failed_as_in_connect() -> None:
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
    worker.fake.fail(T0, FAILURE_TRACE)
    worker.advance(100_000)
    assert worker.states(NAME) == ["RUNNING", "FAILED", "RUNNING"]


def test_worker_policy_is_the_default_of_connectors() -> None:
    worker = EmbeddedWorker(properties={"errors.auto.restart": "task"})
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
    worker.create("other", {"connector.class": FAKE_SOURCE, "errors.auto.restart": "none"})
    worker.fake.fail(T0, FAILURE_TRACE)
    worker.fake.fail(TaskId(ConnectorName("other"), 0), FAILURE_TRACE)
    worker.advance(2)
    assert worker.states(NAME) == ["RUNNING"] * 3
    assert worker.states("other") == ["RUNNING", "FAILED"]


def test_exhausted_budget_is_logged_and_task_stays_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = create_worker()
    worker.fake.fail_opening(T0, FAILURE_TRACE)
    fail_first_task(worker)
    worker.advance(500)
    assert worker.states(NAME) == ["RUNNING", "FAILED", "RUNNING"]
    assert open_count(worker) == 1 + 3
    history = worker.snapshot.watched[T0]
    assert (history.total, history.given_up, history.due_s) == (3, NoRestartReason.TOO_OFTEN, None)
    assert "numbers-0 stays FAILED. It was restarted 3 times within 600 s" in caplog.text
    worker.fake.fail_opening(T0, None)
    worker.advance(100_000)
    assert worker.states(NAME) == ["RUNNING", "FAILED", "RUNNING"]
    worker.ask(RestartTask(task=T0))
    worker.run()
    assert worker.states(NAME) == ["RUNNING"] * 3
    assert fail_first_task(worker).due_s is not None, "a restart over REST resets the count"


def test_permanent_failure_is_not_restarted() -> None:
    worker = create_worker()
    assert fail_first_task(worker, "PermissionError: not yours").given_up is NoRestartReason.PERMANENT
    worker.advance(100_000)
    assert open_count(worker) == 1


def test_repeated_failure_of_a_record_is_not_restarted() -> None:
    worker = create_worker()
    trace = "The value of orders-0@41 cannot be converted: it is no JSON"
    worker.fake.fail_opening(T0, trace)
    fail_first_task(worker, trace)
    worker.advance(100_000)
    assert open_count(worker) == 2
    assert worker.snapshot.watched[T0].given_up is NoRestartReason.SAME_RECORD


@pytest.mark.parametrize("scope", ["task", "all"])
def test_connector_is_restarted_only_with_scope_all(scope: str) -> None:
    worker = EmbeddedWorker()
    worker.create(NAME, {**CONFIG, "errors.auto.restart": scope, "fail.in": "start"})
    assert worker.states(NAME)[0] == "FAILED"
    FakeSourceConnector.calls.clear()
    worker.advance(100_000)
    starts = FakeSourceConnector.calls.count((NAME, "start"))
    assert starts == (3 if scope == "all" else 0)
    assert worker.states(NAME)[0] == "FAILED"


def test_tasks_that_recover_with_spark_have_no_automatic_restart() -> None:
    worker = create_worker()
    worker.fake.lose("Spark's JVM ended (killed by signal 9)")
    worker.run()
    assert worker.states(NAME) == ["RUNNING", "FAILED", "FAILED"]
    worker.advance(100)
    worker.fake.recover()
    worker.run()
    assert worker.states(NAME) == ["RUNNING"] * 3
    assert worker.snapshot.watched == {}
    assert open_count(worker) == 2


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(RestartTask(task=T0), id="restart"),
        pytest.param(RestartConnector(name=NAME, include_tasks=True, only_failed=True), id="restart failed instances"),
        pytest.param(PatchConfig(name=NAME, patch={"tasks.max": "1"}), id="reconfigure"),
        pytest.param(SetTargetState(name=NAME, target=TargetState.PAUSED), id="pause"),
        pytest.param(SetTargetState(name=NAME, target=TargetState.STOPPED), id="stop"),
        pytest.param(DeleteConnector(name=NAME), id="delete"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("seed", SEEDS)
def test_user_request_cancels_a_planned_restart(seed: int, message: object) -> None:
    worker = create_worker(seed)
    fail_first_task(worker)
    worker.ask(message)  # type: ignore[arg-type]
    worker.run()
    history = worker.snapshot.watched.get(T0)
    assert history is None or history.due_s is None
    opened_before = open_count(worker)
    worker.advance(1_000)
    assert open_count(worker) == opened_before
    if isinstance(message, DeleteConnector):
        assert T0 not in worker.snapshot.watched


def test_failed_task_is_restarted_after_a_resume() -> None:
    worker = create_worker()
    fail_first_task(worker)
    worker.ask(SetTargetState(name=NAME, target=TargetState.PAUSED))
    worker.advance(100)
    assert worker.states(NAME) == ["PAUSED", "FAILED", "PAUSED"]
    worker.ask(SetTargetState(name=NAME, target=TargetState.STARTED))
    worker.advance(10)
    assert worker.states(NAME) == ["RUNNING"] * 3


def test_new_policy_applies_to_failed_instances() -> None:
    worker = EmbeddedWorker()
    worker.create(NAME, {**CONFIG, "errors.auto.restart": "none"})
    worker.fake.fail(T0, FAILURE_TRACE)
    worker.advance(100)
    assert worker.states(NAME) == ["RUNNING", "FAILED", "RUNNING"]
    worker.ask(PutConfig(name=NAME, config=CONFIG))
    worker.advance(10)
    assert worker.states(NAME) == ["RUNNING"] * 3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("actor", ["herder", "worker", "status writer", "status reader"])
@pytest.mark.parametrize("steps", [0, 1, 2, 4, 7, 12])
def test_actor_death_neither_loses_nor_duplicates_a_restart(seed: int, actor: str, steps: int) -> None:
    worker = create_worker(seed)
    worker.fake.fail(T0, FAILURE_TRACE)
    for _ in range(steps):
        worker.scheduler.step()
    worker.crash(actor)
    worker.advance(20)
    assert worker.states(NAME) == ["RUNNING"] * 3
    assert open_count(worker) == 2, "the task was opened once more"
    assert worker.given_up == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("actor", ["herder", "worker"])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13])
def test_actor_death_during_a_restart_does_not_duplicate_the_restart(
    seed: int, actor: str, steps: int
) -> None:
    worker = create_worker(seed)
    due_s = fail_first_task(worker).due_s
    assert due_s is not None
    worker.scheduler.clock.advance_to(due_s + 0.01)
    for _ in range(steps):
        worker.scheduler.step()
    worker.crash(actor)
    worker.advance(60)
    assert worker.states(NAME) == ["RUNNING"] * 3
    assert open_count(worker) == 2
    assert worker.snapshot.watched[T0].due_s is None


@pytest.mark.parametrize("seed", range(4))
def test_owner_restarts_a_failed_task_in_a_cluster(seed: int) -> None:
    cluster = EmbeddedCluster(2, seed=seed)
    cluster.settle()
    cluster.create(NAME, {k: v for k, v in CONFIG.items() if v is not None})
    cluster.settle()
    [owner] = [worker for worker in cluster.alive if T0 in worker.engine.running]
    [other_worker] = [worker for worker in cluster.alive if worker is not owner]
    opened_before = {worker.name: worker.engine.opened.count(T0) for worker in cluster.alive}
    owner.engine.fail(T0, FAILURE_TRACE)
    cluster.advance(20)
    assert T0 in owner.engine.running
    assert owner.engine.opened.count(T0) == opened_before[owner.name] + 1
    assert other_worker.engine.opened.count(T0) == opened_before[other_worker.name]
    assert T0 not in other_worker.snapshot.watched


@pytest.mark.parametrize("seed", range(4))
def test_reassigned_instance_is_not_restarted_by_its_new_owner(seed: int) -> None:
    cluster = EmbeddedCluster(2, seed=seed)
    cluster.settle()
    cluster.create(
        NAME,
        {**{k: v for k, v in CONFIG.items() if v is not None}, "errors.auto.restart.backoff.ms": "3600000"},
    )
    cluster.settle()
    [owner] = [worker for worker in cluster.alive if T0 in worker.engine.running]
    owner.engine.fail(T0, FAILURE_TRACE)
    cluster.advance(1)
    assert owner.snapshot.watched[T0].due_s is not None
    owner.kill()
    cluster.settle()
    cluster.advance(600)
    [new_owner] = cluster.alive
    assert T0 in new_owner.engine.running
    assert new_owner.snapshot.watched.get(T0) is None
    assert cluster.bugs == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("moment", ["before", "while it stops", "after"])
def test_restarted_herder_keeps_the_restart_count(seed: int, moment: str) -> None:
    worker = create_worker(seed)
    first_failure = fail_first_task(worker)
    [task] = [address for address in worker.scheduler.addresses() if address.name == "task numbers-0"]
    if moment == "before":
        worker.crash("herder")
        worker.advance(1)
        assert worker.snapshot.watched[T0] == first_failure, "the time of the planned restart is unchanged"
    worker.scheduler.freeze(task)
    worker.advance(8)
    if moment == "while it stops":
        worker.crash("herder")
        worker.advance(1)
    worker.scheduler.freeze(task, frozen=False)
    worker.advance(1)
    if moment == "after":
        worker.crash("herder")
        worker.advance(1)
    assert worker.states(NAME) == ["RUNNING"] * 3
    history = worker.snapshot.watched[T0]
    assert (history.total, len(history.restarts), history.incarnation.restarts) == (1, 1, 1)
    now_s = worker.scheduler.clock.now()
    second_failure = fail_first_task(worker)
    assert second_failure.due_s is not None
    assert 8 <= second_failure.due_s - now_s <= 16, "the second backoff, reduced by at most half"


def test_metrics_report_automatic_restarts() -> None:
    worker = create_worker()
    labels = {"connector": NAME, "task": "0"}

    def value(name: str) -> float | None:
        return parse_scrape(worker.metrics()).value(name, **labels)

    assert value("kraal_task_auto_restarts_total") == 0
    history = fail_first_task(worker)
    assert history.due_ms is not None
    assert value("kraal_task_next_restart_timestamp_ms") == history.due_ms
    worker.advance(9)
    assert value("kraal_task_auto_restarts_total") == 1
    assert value("kraal_task_auto_restart_given_up") == 0
    fail_first_task(worker, "PermissionError: x")
    assert value("kraal_task_auto_restart_given_up") == 1
    assert parse_scrape(worker.metrics()).value("kraal_connector_auto_restarts_total", connector=NAME) == 0


def test_task_whose_actor_died_too_often_is_restarted_automatically() -> None:
    worker = create_worker()
    for _ in range(6):
        worker.crash("task numbers-0")
        worker.advance(0.5)
    assert worker.states(NAME) == ["RUNNING", "FAILED", "RUNNING"]
    worker.advance(10)
    assert worker.states(NAME) == ["RUNNING"] * 3


@pytest.mark.parametrize("seed", range(6))
def test_failed_task_runs_after_a_rebalance_during_its_backoff(seed: int) -> None:
    cluster = EmbeddedCluster(2, seed=seed)
    cluster.settle()
    cluster.create(NAME, {k: v for k, v in CONFIG.items() if v is not None})
    cluster.settle()
    [owner] = [worker for worker in cluster.alive if T0 in worker.engine.running]
    owner.engine.fail(T0, FAILURE_TRACE)
    cluster.advance(3)
    cluster.add()
    cluster.advance(60)
    cluster.settle()
    assert [worker.name for worker in cluster.alive if T0 in worker.engine.running] != []
    assert cluster.bugs == []
    assert all(
        history.due_s is None for worker in cluster.alive for history in worker.snapshot.watched.values()
    )

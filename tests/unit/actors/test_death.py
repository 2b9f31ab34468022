"""Tests for the recovery from actor deaths without lost records, under the seeded scheduler."""

from __future__ import annotations

import pytest

from actors.messages.herder import CreateConnector, PatchConfig, RestartTask, SetTargetState
from actors.messages.supervisor import CrashActor, ListActors
from kraal.cluster.views import rest as view
from kraal.core.errors import KraalError
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.testing._simulation.plugins import FAKE_SOURCE, FakeSourceConnector
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
T0 = TaskId(NAME, 0)
SEEDS = range(8)


def config(**overrides: str) -> dict[str, str | None]:
    return {"connector.class": FAKE_SOURCE, "tasks.max": "2", **overrides}


@pytest.fixture(autouse=True)
def _clear_calls() -> None:
    FakeSourceConnector.calls.clear()


@pytest.mark.parametrize("seed", SEEDS)
def test_restarted_herder_adopts_running_instances(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, config())
    worker.ask(RestartTask(task=T0))
    opened_tasks, calls = list(worker.fake.opened), list(FakeSourceConnector.calls)
    worker.crash("herder")
    worker.advance(1)
    assert worker.fake.opened == opened_tasks
    assert FakeSourceConnector.calls == calls
    worker.ask(PatchConfig(name=NAME, patch={"tasks.max": "1"}))
    worker.run()
    assert worker.states(NAME) == ["RUNNING", "RUNNING"]


def test_deprecated_actor_name_crashes_the_renamed_actor() -> None:
    worker = EmbeddedWorker()
    supervisor = worker.assembly.supervisor
    worker.crash("offset desk")
    worker.advance(1)
    supervisor.question(CrashActor("offset desk", "a test killed it"))
    worker.advance(1)
    restarts = supervisor.question(ListActors())
    worker.run()
    assert restarts.result(0)["offset service"] == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_herder_death_fails_pending_requests_with_the_cause(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.crash("herder", "struck by lightning")
    with pytest.raises(KraalError, match="struck by lightning"):
        worker.ask(CreateConnector(name=NAME, config=config()))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "actor",
    [
        "herder", "worker", "validator", "offsets", "config writer", "config reader",
        "status writer", "status reader", "task numbers-0", "connector numbers",
    ],
)  # fmt: skip
def test_restarted_actors_lose_no_records(seed: int, actor: str) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, config())
    for _ in range(3):
        worker.fake.feed(T0, 7)
        worker.crash(actor)
        worker.advance(1)
    worker.fake.feed(T0, 7)
    worker.advance(5)
    assert sorted(set(worker.fake.written[T0])) == list(range(28))
    assert worker.states(NAME) == ["RUNNING"] * 3
    worker.create("other", config())
    assert worker.states("other") == ["RUNNING"] * 3
    assert worker.given_up == []


def test_actor_exceeding_its_restart_budget_is_reported() -> None:
    worker = EmbeddedWorker()
    for _ in range(6):
        worker.crash("herder")
        worker.advance(1)
    assert worker.given_up == ["herder"]


def test_task_that_exhausts_its_restart_budget_fails_alone() -> None:
    worker = EmbeddedWorker()
    worker.create(NAME, config())
    for _ in range(6):
        worker.crash("task numbers-0")
        worker.advance(1)
    assert worker.states(NAME) == ["RUNNING", "FAILED", "RUNNING"]
    worker.ask(RestartTask(task=T0))
    worker.run()
    assert worker.states(NAME) == ["RUNNING"] * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_resume_automatically_when_spark_is_back(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, config())
    worker.fake.lose("Spark's JVM ended (killed by signal 9)")
    worker.run()
    assert worker.states(NAME) == ["RUNNING", "FAILED", "FAILED"]
    assert "killed by signal 9" in worker.status(NAME)["tasks"][0]["trace"]
    worker.fake.feed(T0, 3)
    worker.fake.recover()
    worker.run()
    assert worker.states(NAME) == ["RUNNING"] * 3
    assert worker.fake.written[T0] == [0, 1, 2]


@pytest.mark.parametrize("seed", SEEDS)
def test_paused_tasks_stay_paused_when_spark_is_lost(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, config())
    worker.ask(SetTargetState(name=NAME, target=TargetState.PAUSED))
    worker.run()
    worker.fake.lose("Spark's JVM ended (killed by signal 9)")
    worker.run()
    assert worker.states(NAME) == ["PAUSED"] * 3
    worker.fake.recover()
    worker.run()
    assert worker.fake.find_run(T0) is None, "a new run would read records before it is paused"
    worker.fake.feed(T0, 3)
    worker.ask(SetTargetState(name=NAME, target=TargetState.STARTED))
    worker.run()
    assert worker.states(NAME) == ["RUNNING"] * 3
    assert worker.fake.written[T0] == [0, 1, 2]


@pytest.mark.parametrize("seed", SEEDS)
def test_topic_record_lost_with_the_status_writer_is_written_later(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, config())
    worker.crash("status writer")
    worker.fake.feed(T0, 1)
    worker.advance(1)
    worker.fake.feed(T0, 1)
    worker.advance(1)
    assert view.active_topics(worker.snapshot, NAME) == {NAME: {"topics": ["fake"]}}

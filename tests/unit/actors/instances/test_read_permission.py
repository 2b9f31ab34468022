"""Tests that a changed config or target state is in effect when the request that changes it returns."""

from __future__ import annotations

import pytest

from actors.instances.read_permission import NEW_TASKS_TIMEOUT_S
from actors.messages.herder import DeleteConnector, PutConfig, SetTargetState
from actors.runtime.mailbox import Ask
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
T0 = TaskId(NAME, 0)
SEEDS = range(6)
SOURCE_CONFIG: dict[str, str | None] = {"name": NAME, "connector.class": FAKE_SOURCE}
SINK_CONFIG: dict[str, str | None] = {"name": NAME, "connector.class": FAKE_SINK, "topics": "t"}


def create_worker(config: dict[str, str | None], seed: int) -> EmbeddedWorker:
    """Return a worker with a connector whose task has written one record."""
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, config)
    worker.fake.feed(T0, 1)
    worker.run()
    assert worker.fake.written[T0] == [0]
    return worker


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("config", [SOURCE_CONFIG, SINK_CONFIG], ids=["source", "sink"])
@pytest.mark.parametrize(
    "message",
    [
        SetTargetState(name=NAME, target=TargetState.PAUSED),
        SetTargetState(name=NAME, target=TargetState.STOPPED),
        DeleteConnector(name=NAME),
    ],
    ids=["pause", "stop", "delete"],
)
def test_task_writes_no_records_after_the_response(
    config: dict[str, str | None], message: Ask[None], seed: int
) -> None:
    worker = create_worker(config, seed)
    worker.ask(message)
    worker.fake.feed(T0, 1)
    assert worker.fake.written[T0] == [0]
    worker.run()
    assert worker.fake.written[T0] == [0]


@pytest.mark.parametrize("seed", SEEDS)
def test_new_config_applies_to_records_after_the_response(seed: int) -> None:
    worker = create_worker(SOURCE_CONFIG, seed)
    previous_run = worker.fake.find_run(T0)
    worker.ask(PutConfig(name=NAME, config={**SOURCE_CONFIG, "topic": "another"}))
    worker.fake.feed(T0, 1)
    assert worker.fake.written[T0] == [0]
    worker.run()
    assert worker.fake.written[T0] == [0, 1]
    run = worker.fake.find_run(T0)
    assert run is not None
    assert run is not previous_run
    assert run.spec.connector_config["topic"] == "another"


def test_identical_config_stops_no_task() -> None:
    worker = create_worker(SOURCE_CONFIG, 0)
    worker.ask(PutConfig(name=NAME, config=SOURCE_CONFIG))
    worker.fake.feed(T0, 1)
    assert worker.fake.written[T0] == [0, 1]


def test_resumed_task_writes_records_that_arrived_during_the_pause() -> None:
    worker = create_worker(SOURCE_CONFIG, 0)
    for target in (TargetState.PAUSED, TargetState.STARTED):
        worker.ask(SetTargetState(name=NAME, target=target))
        worker.fake.feed(T0, 1)
    worker.run()
    assert worker.fake.written[T0] == [0, 1, 2]


def test_tasks_continue_after_a_timeout_without_new_task_configs(caplog: pytest.LogCaptureFixture) -> None:
    worker = create_worker(SOURCE_CONFIG, 0)
    worker.ask(PutConfig(name=NAME, config={**SOURCE_CONFIG, "fail.in": "start"}))
    worker.fake.feed(T0, 1)
    worker.run()
    assert worker.states(NAME) == ["FAILED", "RUNNING"]
    assert worker.fake.written[T0] == [0]
    worker.advance(NEW_TASKS_TIMEOUT_S)
    worker.fake.poll_now(T0)
    worker.run()
    assert worker.fake.written[T0] == [0, 1]
    assert "Continuing under the previous config of connector numbers" in caplog.text

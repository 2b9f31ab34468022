"""A connector's plugin object is stopped once, whatever it did while it ran."""

from __future__ import annotations

import logging

import pytest

from actors.messages.herder import DeleteConnector
from kraal.core.errors import Unavailable
from kraal.core.ids import ConnectorName
from kraal.testing._simulation.plugins import FAKE_SOURCE, FakeSourceConnector
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")


@pytest.fixture
def calls() -> list[tuple[str, str]]:
    FakeSourceConnector.calls.clear()
    return FakeSourceConnector.calls


@pytest.mark.parametrize("fails_in", ["", "stop"])
def test_a_connector_with_too_many_tasks_fails_and_is_stopped(
    calls: list[tuple[str, str]], fails_in: str
) -> None:
    worker = EmbeddedWorker()
    worker.create(
        NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "2", "fake.tasks": "3", "fail.in": fails_in}
    )
    assert worker.states(NAME) == ["FAILED"]
    assert "has generated 3 tasks, which is greater than 2" in worker.status(NAME)["connector"]["trace"]
    assert [method for _, method in calls] == ["start", "task_configs", "stop"]
    worker.ask(DeleteConnector(name=NAME))
    worker.run()
    assert [method for _, method in calls] == ["start", "task_configs", "stop"]


def test_a_connector_whose_plugin_is_still_starting_is_asked_again_without_a_warning(
    calls: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [Unavailable("the JVM of Java plugins is starting")]

    def task_configs(_connector: FakeSourceConnector, _most: int) -> list[dict[str, str]]:
        if answers:
            raise answers.pop()
        return [{}]

    monkeypatch.setattr(FakeSourceConnector, "task_configs", task_configs)
    caplog.set_level(logging.INFO)
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    worker.advance(1)
    assert worker.states(NAME) == ["RUNNING", "RUNNING"]
    [line] = [each for each in caplog.records if "retrying" in each.getMessage()]
    assert (line.levelname, line.getMessage()) == (
        "INFO",
        "generating task configs for connector numbers: the JVM of Java plugins is starting; retrying in 0.25 s",
    )
    assert [method for _, method in calls] == ["start"]

"""A connector's plugin object is stopped once, whatever it did while it ran."""

from __future__ import annotations

import pytest

from actors.messages.herder import DeleteConnector
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

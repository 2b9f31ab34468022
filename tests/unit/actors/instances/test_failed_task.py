"""Tests that the run of a failed task remains in the engine until the task is restarted or deleted."""

from __future__ import annotations

import pytest

from actors.messages.herder import DeleteConnector, RestartTask
from kraal.core.ids import ConnectorName, TaskId
from kraal.testing._simulation.engine import FakeRun
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
TASK = TaskId(NAME, 0)


@pytest.mark.parametrize("message", [DeleteConnector(name=NAME), RestartTask(task=TASK)])
def test_run_of_a_failed_task_is_cancelled_on_stop(
    message: DeleteConnector | RestartTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled_runs: list[FakeRun] = []

    def cancel(run: FakeRun) -> None:
        cancelled_runs.append(run)

    monkeypatch.setattr(FakeRun, "cancel", cancel)
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    worker.run()
    run = worker.fake.find_run(TASK)
    assert run is not None
    run.fail("java.lang.Error: x")
    worker.run()
    assert (worker.states(NAME), cancelled_runs) == (["RUNNING", "FAILED"], [])
    worker.ask(message)
    worker.run()
    assert cancelled_runs == [run]

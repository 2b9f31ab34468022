"""Tests that the status of a task that waits for its engine contains the reason why the engine fails to start."""

from __future__ import annotations

from kraal.core.ids import ConnectorName, TaskId
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
TASK = TaskId(NAME, 0)
REASON = "Failed to start Spark, retrying: no memory"


def test_task_is_unassigned_with_the_reason_until_the_engine_has_started() -> None:
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    worker.run()
    run = worker.fake.find_run(TASK)
    assert run is not None
    run.await_engine(REASON)
    worker.run()
    assert worker.states(NAME) == ["RUNNING", "UNASSIGNED"]
    assert worker.status(NAME)["tasks"][0]["trace"] == REASON
    run.end_wait()
    worker.run()
    assert worker.states(NAME) == ["RUNNING", "RUNNING"]
    assert "trace" not in worker.status(NAME)["tasks"][0]

"""Tests that the herder and the worker log each decision with the affected instances and the reason."""

from __future__ import annotations

import logging

import pytest

from actors.messages.herder import DeleteConnector, RestartConnector
from kraal.core.errors import NotFound
from kraal.core.ids import ConnectorName, TaskId
from kraal.testing._simulation.engine import FakeRun
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
T0 = TaskId(NAME, 0)


@pytest.fixture
def worker(caplog: pytest.LogCaptureFixture) -> EmbeddedWorker:
    caplog.set_level(logging.DEBUG, logger="actors")
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "errors.auto.restart": "task"})
    return worker


def texts(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in [*caplog.get_records("setup"), *caplog.records]]


def test_restart_request_is_logged_with_its_instances(
    worker: EmbeddedWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker.ask(RestartConnector(name=NAME, include_tasks=True, only_failed=False))
    worker.run()
    request = "RestartRequest(name='numbers', include_tasks=True, only_failed=False)"
    assert f"Received {request}; connectors and tasks to restart: numbers, numbers-0" in texts(caplog)
    execution_message = "Executing a restart of the connectors and tasks on this worker: numbers, numbers-0"
    assert execution_message in texts(caplog)


def test_task_configs_and_assigned_work_are_logged(
    worker: EmbeddedWorker, caplog: pytest.LogCaptureFixture
) -> None:
    assert "Publishing the configs of 1 tasks of numbers" in texts(caplog)
    [line] = [text for text in texts(caplog) if text.endswith("to start: numbers-0; to stop: none")]
    assert line.startswith("Starting connectors and tasks of generation ")
    worker.ask(RestartConnector(name=NAME, include_tasks=False, only_failed=False))
    worker.run()
    assert "Skipped the task configs of numbers, which are unchanged" in texts(caplog)


def test_rejected_command_is_logged(worker: EmbeddedWorker, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(NotFound):
        worker.ask(DeleteConnector(name=ConnectorName("missing")))
    assert "Rejected DeleteConnector: Connector missing not found" in texts(caplog)


def test_scheduled_automatic_restart_is_logged(
    worker: EmbeddedWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker.fake.fail(T0, "OSError: the disk is full\n  in task numbers-0")
    worker.run()
    assert [
        text for text in texts(caplog) if text.startswith("Scheduling an automatic restart of numbers-0 in ")
    ]


def test_cancelled_task_is_logged_with_its_recent_events(
    worker: EmbeddedWorker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeRun, "stop_if_idle", lambda _: True)
    worker.ask(DeleteConnector(name=NAME))
    worker.advance(10)
    [line] = [text for text in texts(caplog) if text.startswith("Cancelling numbers-0")]
    events = line.partition("; last events: ")[2].split("; ")
    assert [event.partition(": ")[2].partition(",")[0] for event in events] == [
        "wanted STARTED",
        "started",
        "RUNNING",
        "no longer wanted",
        "stop requested",
    ]

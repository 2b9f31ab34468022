"""Tests for the lifecycle of connector plugins: start, retries, failures, and a single stop."""

from __future__ import annotations

import logging

import pytest

from actors.messages.herder import DeleteConnector, SetTargetState
from kraal.core.errors import Unavailable
from kraal.core.ids import ConnectorName, TargetState
from kraal.plugins.api import ConnectorContext
from kraal.testing._simulation.plugins import FAKE_SOURCE, FakeSourceConnector
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")


@pytest.fixture
def calls() -> list[tuple[str, str]]:
    FakeSourceConnector.calls.clear()
    return FakeSourceConnector.calls


@pytest.mark.parametrize("fails_in", ["", "stop"])
def test_connector_with_too_many_tasks_fails_and_is_stopped(
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


def test_starting_plugin_is_retried_without_a_warning(
    calls: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors = [Unavailable("the JVM of Java plugins is starting")]

    def task_configs(_connector: FakeSourceConnector, _max_tasks: int) -> list[dict[str, str]]:
        if errors:
            raise errors.pop()
        return [{}]

    monkeypatch.setattr(FakeSourceConnector, "task_configs", task_configs)
    caplog.set_level(logging.INFO)
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    worker.advance(1)
    assert worker.states(NAME) == ["RUNNING", "RUNNING"]
    [line] = [record for record in caplog.records if "retrying" in record.getMessage()]
    assert (line.levelname, line.getMessage()) == (
        "INFO",
        "generating task configs for connector numbers: the JVM of Java plugins is starting; retrying in 0.25 s",
    )
    assert [method for _, method in calls] == ["start"]


def test_connector_without_its_process_is_unassigned_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reasons = ["the JVM of Java plugins is starting"]

    def raise_unavailable(*_: object) -> list[dict[str, str]]:
        if reasons:
            raise Unavailable(reasons[-1])
        return [{}]

    monkeypatch.setattr(FakeSourceConnector, "start", raise_unavailable)
    monkeypatch.setattr(FakeSourceConnector, "task_configs", raise_unavailable)
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    connector = worker.status(NAME)["connector"]
    assert (connector["state"], connector["trace"]) == ("UNASSIGNED", reasons[0])
    reasons.append("Java plugins are not available: exit code 1, after: Unrecognized VM option")
    worker.advance(1)
    assert worker.status(NAME)["connector"]["trace"] == reasons[1]
    reasons.clear()
    worker.advance(10)
    assert worker.states(NAME) == ["RUNNING", "RUNNING"]
    assert "trace" not in worker.status(NAME)["connector"]


def test_connector_is_unassigned_with_the_reason_after_its_process_exits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reasons: list[str] = []
    contexts: list[ConnectorContext] = []
    config_requests: list[object] = []
    worker = EmbeddedWorker()

    def start(_connector: object, _config: object, context: ConnectorContext) -> None:
        contexts.append(context)

    def task_configs(*arguments: object) -> list[dict[str, str]]:
        config_requests.append(arguments)
        if reasons:
            raise Unavailable(reasons[-1])
        return [{}]

    monkeypatch.setattr(FakeSourceConnector, "start", start)
    monkeypatch.setattr(FakeSourceConnector, "task_configs", task_configs)
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    for reason in ("the JVM of Java plugins ended", "Java plugins are not available: no memory"):
        reasons.append(reason)
        contexts[0].request_task_reconfiguration()
        worker.run()
        connector = worker.status(NAME)["connector"]
        assert (connector["state"], connector["trace"]) == ("UNASSIGNED", reason)
    config_requests.clear()
    worker.advance(0.3)
    assert len(config_requests) == 1, "a later request replaces the retries of an earlier request"
    reasons.clear()
    contexts[0].request_task_reconfiguration()
    worker.run()
    connector = worker.status(NAME)["connector"]
    assert (connector["state"], connector.get("trace")) == ("RUNNING", None)


def test_waiting_connector_can_be_paused_and_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raise_unavailable(*_: object) -> None:
        raise Unavailable("the JVM of Java plugins is starting")

    monkeypatch.setattr(FakeSourceConnector, "start", raise_unavailable)
    monkeypatch.setattr(FakeSourceConnector, "stop", lambda _: None)
    monkeypatch.setattr(FakeSourceConnector, "task_configs", raise_unavailable)
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE})
    for target, state in (
        (TargetState.PAUSED, "PAUSED"),
        (TargetState.STARTED, "UNASSIGNED"),
        (TargetState.STOPPED, "STOPPED"),
    ):
        worker.ask(SetTargetState(name=NAME, target=target))
        worker.run()
        assert worker.states(NAME) == [state]


def test_invalid_transition_is_logged_with_recent_events(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "fail.in": "start"})
    worker.advance(2)
    worker.ask(SetTargetState(name=NAME, target=TargetState.PAUSED))
    worker.run()
    [line] = [message for message in caplog.messages if "Cannot transition" in message]
    text, _, events = line.partition("; last events: ")
    assert text == "WorkerConnector{id=numbers} Cannot transition connector to PAUSED since it has failed"
    failure, target = events.split("; ")
    assert failure.startswith("2 s ago: FAILED: ")
    assert target == "0 s ago: target state PAUSED"

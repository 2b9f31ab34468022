"""Tests for log lines about state changes.

Each line has the log context of its instance. Failures are logged at ERROR with their cause and a remedy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from actors.messages.herder import RestartTask, SetTargetState
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.core.logging import ContextFilter
from kraal.core.secrets import secrets
from kraal.core.traces import MAX_LENGTH
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("num bers")
T0 = TaskId(NAME, 0)
TRACE = "DataException: the value is no number:\n  in task num bers-0, batch 3\nTraceback …"


@pytest.fixture(autouse=True)
def _log_context(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    context_filter = ContextFilter()
    caplog.handler.addFilter(context_filter)
    yield
    caplog.handler.removeFilter(context_filter)


def create_worker(**overrides: str) -> EmbeddedWorker:
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "2", **overrides})
    return worker


def log_lines(
    caplog: pytest.LogCaptureFixture, level: int = logging.ERROR
) -> list[tuple[str, int | None, str]]:
    """Return the connector, the task and the message of each log line."""
    return [
        (record.__dict__["connector"], record.__dict__["task"], record.getMessage())
        for record in caplog.records
        if record.levelno == level and record.name == "actors.instances.state_lines"
    ]


def test_each_state_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    worker = create_worker(**{"tasks.max": "1"})
    worker.crash("herder")  # all states are reported again
    worker.advance(1)
    for target in (TargetState.PAUSED, TargetState.STARTED, TargetState.STOPPED):
        worker.ask(SetTargetState(name=NAME, target=target))
        worker.run()
    connector_lines = [
        f"Connector num bers is {state}" for state in ("RUNNING", "PAUSED", "RUNNING", "STOPPED")
    ]
    task_lines = [
        f"Task num bers-0 {change}" for change in ("is RUNNING", "is PAUSED", "is RUNNING", "has stopped")
    ]
    messages = log_lines(caplog, logging.INFO)
    assert [line for line in messages if line[1] is None] == [(NAME, None, text) for text in connector_lines]
    assert [line for line in messages if line[1] is not None] == [(NAME, 0, text) for text in task_lines]


def test_task_failure_is_logged_once_with_cause_and_remedy(caplog: pytest.LogCaptureFixture) -> None:
    worker = create_worker()
    assert log_lines(caplog) == []
    worker.fake.fail(T0, TRACE)
    worker.run()
    worker.crash("herder")  # all states are reported again
    worker.advance(1)
    text = (
        "Task num bers-0 failed: DataException: the value is no number. It stays FAILED until it is restarted "
        "(POST /connectors/num%20bers/tasks/0/restart); see its status for the trace"
    )
    assert log_lines(caplog) == [(NAME, 0, text)]
    worker.ask(RestartTask(task=T0))
    worker.run()
    worker.fake.fail(T0, TRACE)
    worker.run()
    assert log_lines(caplog) == [(NAME, 0, text)] * 2


def test_root_cause_of_a_java_trace_is_the_last_cause(caplog: pytest.LogCaptureFixture) -> None:
    worker = create_worker()
    worker.fake.fail(
        T0, "a.ConnectException: Tolerance exceeded\n\tat b.C\nCaused by: d.E: no JSON\n\tat f.G"
    )
    worker.run()
    ((_, _, text),) = log_lines(caplog)
    assert text.startswith("Task num bers-0 failed: d.E: no JSON. It stays FAILED")


def test_secret_at_the_end_of_a_long_cause_is_hidden(caplog: pytest.LogCaptureFixture) -> None:
    worker = create_worker()
    secrets.add("pa55-of-the-table")
    worker.fake.fail(T0, f"{'x' * (MAX_LENGTH - 5)}pa55-of-the-table")
    worker.run()
    ((_, _, text),) = log_lines(caplog)
    assert "pa55" not in text


def test_logged_cause_is_scrubbed_and_truncated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = create_worker()
    secrets.add("pa55-of-the-table")
    worker.fake.fail(T0, f"OSError: pa55-of-the-table\x1b[2J{'x' * 2000}")
    worker.run()
    ((_, _, text),) = log_lines(caplog)
    assert "pa55" not in text
    assert r"\x1b[2Jxxx" in text
    assert len(text) < 1200


def test_connector_failure_is_logged_in_its_context(caplog: pytest.LogCaptureFixture) -> None:
    create_worker(**{"fake.tasks": "3"})
    ((connector, task, text),) = log_lines(caplog)
    assert (connector, task) == (NAME, None)
    assert text.startswith("Connector num bers failed: The connector num bers has generated 3 tasks")
    assert "(POST /connectors/num%20bers/restart)" in text


def test_loss_of_spark_is_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    worker = create_worker()
    worker.fake.lose("Spark's JVM has ended")
    worker.run()
    assert log_lines(caplog) == []
    assert (
        NAME,
        0,
        "Task num bers-0 was interrupted and will resume automatically: Spark's JVM has ended",
    ) in log_lines(caplog, logging.WARNING)


def test_repeatedly_dying_task_actor_logs_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    worker = create_worker()
    for _ in range(30):
        if log_lines(caplog):
            break
        worker.crash(f"task {T0}", "struck by lightning")
        worker.advance(0.5)
    ((connector, task, text),) = log_lines(caplog)
    assert (connector, task) == (NAME, 0)
    assert "struck by lightning" in text

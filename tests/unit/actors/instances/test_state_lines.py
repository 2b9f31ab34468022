"""A change of state is a line of the instance; a failure is one at ERROR, with the cause, and with what to do."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from actors.messages.herder import RestartTask, SetTargetState
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.core.logging import Who
from kraal.core.secrets import secrets
from kraal.core.traces import MAX_LENGTH
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("num bers")
T0 = TaskId(NAME, 0)
TRACE = "DataException: the value is no number:\n  in task num bers-0, batch 3\nTraceback …"


@pytest.fixture(autouse=True)
def _subjects(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    who = Who()
    caplog.handler.addFilter(who)
    yield
    caplog.handler.removeFilter(who)


def made(**more: str) -> EmbeddedWorker:
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "2", **more})
    return worker


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.ERROR) -> list[tuple[str, int | None, str]]:
    """Return connector, task and text of the lines of failures."""
    return [
        (record.__dict__["connector"], record.__dict__["task"], record.getMessage())
        for record in caplog.records
        if record.levelno == level and record.name == "actors.instances.state_lines"
    ]


def test_each_state_is_a_line_of_its_instance_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    worker = made(**{"tasks.max": "1"})
    worker.crash("herder")  # everything is reported again
    worker.advance(1)
    for target in (TargetState.PAUSED, TargetState.STARTED, TargetState.STOPPED):
        worker.ask(SetTargetState(name=NAME, target=target))
        worker.run()
    of_connector = [f"Connector num bers is {state}" for state in ("RUNNING", "PAUSED", "RUNNING", "STOPPED")]
    of_task = [f"Task num bers-0 {what}" for what in ("is RUNNING", "is PAUSED", "is RUNNING", "has stopped")]
    messages = lines(caplog, logging.INFO)
    assert [line for line in messages if line[1] is None] == [(NAME, None, text) for text in of_connector]
    assert [line for line in messages if line[1] is not None] == [(NAME, 0, text) for text in of_task]


def test_a_task_s_failure_names_cause_and_remedy_once(caplog: pytest.LogCaptureFixture) -> None:
    worker = made()
    assert lines(caplog) == []
    worker.fake.fail(T0, TRACE)
    worker.run()
    worker.crash("herder")  # everything is reported again
    worker.advance(1)
    text = (
        "Task num bers-0 failed: DataException: the value is no number. It stays FAILED until it is restarted "
        "(POST /connectors/num%20bers/tasks/0/restart); its status has the whole trace"
    )
    assert lines(caplog) == [(NAME, 0, text)]
    worker.ask(RestartTask(task=T0))
    worker.run()
    worker.fake.fail(T0, TRACE)
    worker.run()
    assert lines(caplog) == [(NAME, 0, text)] * 2


def test_the_cause_of_a_trace_of_javas_is_its_last(caplog: pytest.LogCaptureFixture) -> None:
    worker = made()
    worker.fake.fail(
        T0, "a.ConnectException: Tolerance exceeded\n\tat b.C\nCaused by: d.E: no JSON\n\tat f.G"
    )
    worker.run()
    ((_, _, text),) = lines(caplog)
    assert text.startswith("Task num bers-0 failed: d.E: no JSON. It stays FAILED")


def test_a_secret_at_the_end_of_a_long_cause_is_hidden_whole(caplog: pytest.LogCaptureFixture) -> None:
    worker = made()
    secrets.add("pa55-of-the-table")
    worker.fake.fail(T0, f"{'x' * (MAX_LENGTH - 5)}pa55-of-the-table")
    worker.run()
    ((_, _, text),) = lines(caplog)
    assert "pa55" not in text


def test_a_cause_is_shown_without_secrets_and_controls_and_has_an_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = made()
    secrets.add("pa55-of-the-table")
    worker.fake.fail(T0, f"OSError: pa55-of-the-table\x1b[2J{'x' * 2000}")
    worker.run()
    ((_, _, text),) = lines(caplog)
    assert "pa55" not in text
    assert r"\x1b[2Jxxx" in text
    assert len(text) < 1200


def test_a_connector_s_failure_is_a_line_of_the_connector(caplog: pytest.LogCaptureFixture) -> None:
    made(**{"fake.tasks": "3"})
    ((connector, task, text),) = lines(caplog)
    assert (connector, task) == (NAME, None)
    assert text.startswith("Connector num bers failed: The connector num bers has generated 3 tasks")
    assert "(POST /connectors/num%20bers/restart)" in text


def test_the_loss_of_spark_is_a_warning_because_tasks_come_back(caplog: pytest.LogCaptureFixture) -> None:
    worker = made()
    worker.fake.lose("Spark's JVM has ended")
    worker.run()
    assert lines(caplog) == []
    assert (
        NAME,
        0,
        "Task num bers-0 is interrupted and will continue by itself: Spark's JVM has ended",
    ) in lines(caplog, logging.WARNING)


def test_a_task_whose_actor_dies_again_and_again_fails_with_a_line(caplog: pytest.LogCaptureFixture) -> None:
    worker = made()
    for _ in range(30):
        if lines(caplog):
            break
        worker.crash(f"task {T0}", "struck by lightning")
        worker.advance(0.5)
    ((connector, task, text),) = lines(caplog)
    assert (connector, task) == (NAME, 0)
    assert "struck by lightning" in text

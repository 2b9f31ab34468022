"""Tests that errors of a connector do not affect other connectors. Mirrors ErrorHandlingIntegrationTest."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import RUNNING, Pipe, create_topic

pytestmark = pytest.mark.ci


@pytest.fixture
def healthy_pipe(pipe: Pipe) -> Iterator[Pipe]:
    """Run a pipe that failing connectors must not affect."""
    pipe.write(10)
    yield pipe
    pipe.write(10)
    pipe.worker.wait_until("all lines were transferred", pipe.is_through_exactly)
    assert pipe.states() == [*RUNNING, *RUNNING]
    assert pipe.worker.get("/health").status == 200


def create_failing_connector(worker: WorkerProcess, config: dict[str, str]) -> tuple[str, str]:
    """Create a connector whose task must fail. Return the first line of the trace, and the trace."""
    name = f"bad-{uuid.uuid4().hex[:8]}"
    worker.create(name, config)
    worker.wait_for_states(name, ["RUNNING", "FAILED"])
    (trace,) = worker.traces(name)
    assert worker.delete(f"/connectors/{name}").status == 204
    return trace.splitlines()[0], trace


def source_config(file: Path, topic: str, **settings: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(file), "topic": topic, **settings}


def sink_config(file: Path, topic: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSink", "file": str(file), "topics": topic}


def test_unreadable_source_file_fails_task(healthy_pipe: Pipe, tmp_path: Path) -> None:
    """The errors do not depend on permissions, because tests may run as root."""
    regular_file = tmp_path / "regular"
    regular_file.touch()
    path_below_file = regular_file / "below"
    first_line, trace = create_failing_connector(
        healthy_pipe.worker, source_config(path_below_file, healthy_pipe.topic)
    )
    assert first_line == f"NotADirectoryError: [Errno 20] Not a directory: '{path_below_file}'"
    assert f"cannot read the attributes of {path_below_file}: Not a directory" in trace
    first_line, _ = create_failing_connector(healthy_pipe.worker, source_config(tmp_path, healthy_pipe.topic))
    assert f"{tmp_path} is not a regular file" in first_line


def test_unwritable_sink_file_fails_task(healthy_pipe: Pipe, tmp_path: Path) -> None:
    file = tmp_path / "no" / "file"
    first_line, trace = create_failing_connector(healthy_pipe.worker, sink_config(file, healthy_pipe.topic))
    assert first_line == f"FileNotFoundError: [Errno 2] No such file or directory: '{file}'"
    assert f"cannot write to {file}: No such file or directory" in trace
    first_line, trace = create_failing_connector(
        healthy_pipe.worker, sink_config(tmp_path, healthy_pipe.topic)
    )
    assert first_line == f"IsADirectoryError: [Errno 21] Is a directory: '{tmp_path}'"


def test_sink_with_auto_restart_recovers_after_directory_is_created(pipe: Pipe, tmp_path: Path) -> None:
    worker, file, name = pipe.worker, tmp_path / "later" / "file", f"late-{uuid.uuid4().hex[:8]}"
    restart_config = {"errors.auto.restart": "task", "errors.auto.restart.max": "100"}
    pipe.write(10)
    worker.create(name, {**sink_config(file, pipe.topic), **restart_config})
    worker.wait_for_states(name, ["RUNNING", "FAILED"])
    file.parent.mkdir()
    worker.wait_for_states(name, RUNNING)
    worker.wait_until(
        "the lines were transferred",
        lambda: file.exists() and file.read_bytes() == pipe.source_file.read_bytes(),
    )
    tasks: list[dict[str, Any]] = []

    def is_batch_reported() -> bool:
        tasks[:] = worker.get(f"/connectors/{name}/status?expand=supervision").body["supervision"]["tasks"]
        return all(task["last_batch_age_ms"] is not None for task in tasks)

    worker.wait_until("the batch was reported", is_batch_reported)
    (task,) = tasks
    assert task["restarts"] >= 1
    assert (task["next_restart_ms"], task["given_up"], task["stalled"]) == (None, None, False)
    assert task["last_batch_age_ms"] >= 0
    assert task["last_batch_way"] == "read by the consumer, without a job: few new records"
    assert worker.delete(f"/connectors/{name}").status == 204


def test_invalid_topic_name_fails_task(healthy_pipe: Pipe) -> None:
    first_line, _ = create_failing_connector(
        healthy_pipe.worker, source_config(healthy_pipe.source_file, "no topic!")
    )
    assert "InvalidTopicException" in first_line
    assert "no topic!" in first_line


def test_oversized_record_fails_task(healthy_pipe: Pipe, tmp_path: Path, kafka: Broker) -> None:
    topic = f"{healthy_pipe.topic}-small"
    create_topic(kafka.bootstrap, topic, {"max.message.bytes": "2000"})
    file = tmp_path / "large"
    file.write_text(secrets.token_hex(5000) + "\n")  # compressible records would fit
    first_line, _ = create_failing_connector(healthy_pipe.worker, source_config(file, topic))
    assert "RecordTooLargeException: A record of 10000 bytes for the topic" in first_line
    assert f"{topic!r} is larger than max.message.bytes=2000 of the topic" in first_line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"connector.class": "NoSuch"}, "NoSuch", id="unknown class"),
        pytest.param({"topic": None}, 'Missing required configuration "topic"', id="no topic"),
        pytest.param({"tasks.max": "0"}, "Invalid value 0 for configuration tasks.max", id="no tasks"),
        pytest.param({"tasks.max": "many"}, "Invalid value many for configuration tasks.max", id="not a number"),
        pytest.param({"value.converter": "NoSuch"}, "Invalid value NoSuch for configuration value.converter",
                     id="unknown converter"),
        pytest.param({"name": "other"}, "doesn't match", id="another name"),
    ],
)  # fmt: skip
def test_invalid_value_is_rejected_with_reason(
    worker: WorkerProcess, tmp_path: Path, change: dict[str, str | None], message: str
) -> None:
    name = f"bad-{uuid.uuid4().hex[:8]}"
    changed_config: dict[str, str | None] = {**source_config(tmp_path / "f", "t"), **change}
    config = {key: value for key, value in changed_config.items() if value is not None}
    response = worker.post("/connectors", {"name": name, "config": config})
    assert response.status == 400, response
    assert message in response.body["message"]
    assert worker.get(f"/connectors/{name}").status == 404

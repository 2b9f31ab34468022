"""What is wrong with one connector is told of that one, and no other notices. Mirrors ErrorHandlingIntegrationTest."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import RUNNING, Pipe, create_topic

pytestmark = pytest.mark.ci


@pytest.fixture
def healthy(pipe: Pipe) -> Iterator[Pipe]:
    """A pipe that must not notice what fails next to it."""
    pipe.write(10)
    yield pipe
    pipe.write(10)
    pipe.worker.wait_until("lines still came out", pipe.is_through_exactly)
    assert pipe.states() == [*RUNNING, *RUNNING]
    assert pipe.worker.get("/health").status == 200


def failed(worker: WorkerProcess, config: dict[str, str]) -> tuple[str, str]:
    """Create a connector whose task fails; return the first line of the trace, and all of it."""
    name = f"bad-{uuid.uuid4().hex[:8]}"
    worker.create(name, config)
    worker.wait_for_states(name, ["RUNNING", "FAILED"])
    (trace,) = worker.traces(name)
    assert worker.delete(f"/connectors/{name}").status == 204
    return trace.splitlines()[0], trace


def source(file: Path, topic: str, **more: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(file), "topic": topic, **more}


def sink(file: Path, topic: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSink", "file": str(file), "topics": topic}


def test_a_source_file_that_cannot_be_read(healthy: Pipe, tmp_path: Path) -> None:
    """Tests may run as root, whom no permission stops: these fail for everybody."""
    regular = tmp_path / "regular"
    regular.touch()
    below = regular / "below"
    first, trace = failed(healthy.worker, source(below, healthy.topic))
    assert first == f"NotADirectoryError: [Errno 20] Not a directory: '{below}'"
    assert f"cannot read the attributes of {below}: Not a directory" in trace
    first, _ = failed(healthy.worker, source(tmp_path, healthy.topic))
    assert f"{tmp_path} is not a regular file" in first


def test_a_sink_file_that_cannot_be_written(healthy: Pipe, tmp_path: Path) -> None:
    file = tmp_path / "no" / "file"
    first, trace = failed(healthy.worker, sink(file, healthy.topic))
    assert first == f"FileNotFoundError: [Errno 2] No such file or directory: '{file}'"
    assert f"cannot write to {file}: No such file or directory" in trace
    first, trace = failed(healthy.worker, sink(tmp_path, healthy.topic))
    assert first == f"IsADirectoryError: [Errno 21] Is a directory: '{tmp_path}'"


def test_a_sink_that_may_be_restarted_comes_back_when_its_directory_is_there(
    pipe: Pipe, tmp_path: Path
) -> None:
    worker, file, name = pipe.worker, tmp_path / "later" / "file", f"late-{uuid.uuid4().hex[:8]}"
    supervised = {"errors.auto.restart": "task", "errors.auto.restart.max": "100"}
    pipe.write(10)
    worker.create(name, {**sink(file, pipe.topic), **supervised})
    worker.wait_for_states(name, ["RUNNING", "FAILED"])
    file.parent.mkdir()
    worker.wait_for_states(name, RUNNING)
    worker.wait_until(
        "its lines came", lambda: file.exists() and file.read_bytes() == pipe.source_file.read_bytes()
    )
    (task,) = worker.get(f"/connectors/{name}/status?expand=supervision").body["supervision"]["tasks"]
    assert task["restarts"] >= 1
    assert (task["next_restart_ms"], task["given_up"], task["stalled"]) == (None, None, False)
    assert task["last_batch_age_ms"] >= 0
    assert task["last_batch_way"] == "read by the consumer, without a job: few records wait"
    assert worker.delete(f"/connectors/{name}").status == 204


def test_a_topic_with_a_name_that_no_topic_may_have(healthy: Pipe) -> None:
    first, _ = failed(healthy.worker, source(healthy.source_file, "no topic!"))
    assert "InvalidTopicException" in first
    assert "no topic!" in first


def test_a_record_that_is_larger_than_the_topic_takes(healthy: Pipe, tmp_path: Path, kafka: Broker) -> None:
    topic = f"{healthy.topic}-small"
    create_topic(kafka.bootstrap, topic, {"max.message.bytes": "2000"})
    file = tmp_path / "large"
    file.write_text(secrets.token_hex(5000) + "\n")  # what is easily compressed would fit
    first, _ = failed(healthy.worker, source(file, topic))
    assert "RecordTooLargeException: A record of 10000 bytes for the topic" in first
    assert f"{topic!r} is larger than max.message.bytes=2000 of the topic" in first


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
def test_a_bad_value_is_refused_with_the_reason(
    worker: WorkerProcess, tmp_path: Path, change: dict[str, str | None], message: str
) -> None:
    name = f"bad-{uuid.uuid4().hex[:8]}"
    wanted: dict[str, str | None] = {**source(tmp_path / "f", "t"), **change}
    config = {key: value for key, value in wanted.items() if value is not None}
    answer = worker.post("/connectors", {"name": name, "config": config})
    assert answer.status == 400, answer
    assert message in answer.body["message"]
    assert worker.get(f"/connectors/{name}").status == 404

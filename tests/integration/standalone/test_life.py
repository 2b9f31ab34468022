"""Tests for the lifecycle of connectors over REST. Mirrors ConnectWorkerIntegrationTest, KIP-875 and KIP-980."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import RUNNING, Pipe, create_topic


def wait_until_equal(pipe: Pipe) -> None:
    pipe.worker.wait_until("both files were equal", pipe.is_through_exactly)


def test_lines_arrive_once_and_in_order(pipe: Pipe) -> None:
    pipe.write(3000)
    wait_until_equal(pipe)
    pipe.write(1)
    wait_until_equal(pipe)
    pipe.wait_until_running()


def test_responses_describe_running_connector(pipe: Pipe) -> None:
    worker = pipe.worker
    info = worker.get(f"/connectors/{pipe.source}").body
    assert info == {
        "name": pipe.source,
        "config": pipe.source_config,
        "tasks": [{"connector": pipe.source, "task": 0}],
        "type": "source",
    }
    status = worker.get(f"/connectors/{pipe.sink}/status").body
    worker_id = worker.url.removeprefix("http://")
    assert status["connector"].items() >= {"state": "RUNNING", "worker_id": worker_id}.items()
    assert status["type"] == "sink"
    assert {pipe.source, pipe.sink} <= set(worker.get("/connectors").body)
    assert worker.get("/connectors?expand=status").body[pipe.sink]["status"] == status
    tasks = worker.get(f"/connectors/{pipe.source}/tasks").body
    assert tasks[0]["config"].items() >= {"file": str(pipe.source_file), "topic": pipe.topic}.items()


def test_paused_source_sends_records_after_resume(pipe: Pipe, worker: WorkerProcess) -> None:
    pipe.write(10)
    wait_until_equal(pipe)
    assert worker.put(f"/connectors/{pipe.source}/pause").status == 202
    worker.wait_for_states(pipe.source, ["PAUSED", "PAUSED"])
    pipe.write(10)
    wait_for_other_source(worker, pipe)
    assert [line[:12] for line in pipe.sink_lines()[10:]] == []
    assert worker.put(f"/connectors/{pipe.source}/resume").status == 202
    wait_until_equal(pipe)
    worker.wait_for_states(pipe.source, RUNNING)  # lines may arrive before the state


def wait_for_other_source(worker: WorkerProcess, pipe: Pipe) -> None:
    """Wait until another source has read the same file, so that a running source would also have sent records."""
    other_source = f"{pipe.source}-other"
    topic = f"{pipe.topic}-other"
    sink_file = pipe.sink_file.with_suffix(".other")
    worker.create(other_source, {**pipe.source_config, "name": other_source, "topic": topic})
    sink = {**pipe.sink_config, "name": f"{other_source}-sink", "topics": topic, "file": str(sink_file)}
    worker.create(sink["name"], sink)
    size = pipe.source_file.stat().st_size
    worker.wait_until(
        "the other source had read the file", lambda: sink_file.exists() and sink_file.stat().st_size == size
    )
    for name in (other_source, sink["name"]):
        assert worker.delete(f"/connectors/{name}").status == 204


def test_stopped_connector_has_no_tasks_and_resumes_at_its_offset(pipe: Pipe, worker: WorkerProcess) -> None:
    pipe.write(10)
    wait_until_equal(pipe)
    for name in (pipe.source, pipe.sink):
        assert worker.put(f"/connectors/{name}/stop").status == 204
        worker.wait_for_states(name, ["STOPPED"])
        assert worker.get(f"/connectors/{name}/tasks").body == []
    pipe.write(10)
    for name in (pipe.source, pipe.sink):
        assert worker.put(f"/connectors/{name}/resume").status == 202
    pipe.wait_until_running()
    wait_until_equal(pipe)


def test_source_keeps_its_position_when_its_topic_changes(
    pipe: Pipe, worker: WorkerProcess, kafka: Broker
) -> None:
    pipe.write(10)
    wait_until_equal(pipe)
    topic = f"{pipe.topic}-moved"
    create_topic(kafka.bootstrap, topic)
    response = worker.put(f"/connectors/{pipe.source}/config", {**pipe.source_config, "topic": topic})
    assert (response.status, response.body["config"]["topic"]) == (200, topic)
    sink_config = {**pipe.sink_config, "topics": f"{pipe.topic},{topic}"}
    assert worker.put(f"/connectors/{pipe.sink}/config", sink_config).status == 200
    both_topics = {pipe.source: {"topics": [pipe.topic, topic]}}

    def has_both_topics() -> bool:
        pipe.write(1)  # the stopping task of the old config may still read some lines
        return bool(worker.get(f"/connectors/{pipe.source}/topics").body == both_topics)

    worker.wait_until("both topics were listed", has_both_topics)
    pipe.wait_until_through()
    assert pipe.assert_at_least_once() == 0, "the new task must continue at the position of the old task"
    assert worker.put(f"/connectors/{pipe.source}/pause").status == 202
    worker.wait_for_states(pipe.source, ["PAUSED", "PAUSED"])  # no records are in flight
    assert worker.put(f"/connectors/{pipe.source}/topics/reset").status == 200
    assert worker.get(f"/connectors/{pipe.source}/topics").body == {pipe.source: {"topics": []}}


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param("", 204, id="the connector alone"),
        pytest.param("?includeTasks=true", 202, id="with its tasks"),
        pytest.param("?includeTasks=true&onlyFailed=true", 202, id="only failed instances"),
    ],
)
def test_restart_neither_repeats_nor_loses_records(
    pipe: Pipe, worker: WorkerProcess, query: str, code: int
) -> None:
    pipe.write(10)
    wait_until_equal(pipe)
    for name in (pipe.source, pipe.sink):
        assert worker.post(f"/connectors/{name}/restart{query}").status == code
    pipe.write(10)
    pipe.wait_until_running()
    wait_until_equal(pipe)


def test_task_restart_neither_repeats_nor_loses_records(pipe: Pipe, worker: WorkerProcess) -> None:
    pipe.write(10)
    for name in (pipe.source, pipe.sink):
        assert worker.post(f"/connectors/{name}/tasks/0/restart").status == 204
    pipe.wait_until_running()
    wait_until_equal(pipe)
    assert worker.post(f"/connectors/{pipe.source}/tasks/1/restart").status == 404


def test_recreated_connector_continues_at_stored_offsets(pipe: Pipe, worker: WorkerProcess) -> None:
    pipe.write(10)
    wait_until_equal(pipe)
    assert worker.delete(f"/connectors/{pipe.source}").status == 204
    assert worker.get(f"/connectors/{pipe.source}").status == 404
    worker.wait_for_states(pipe.source, [])  # as in Connect, the status is deleted after the task has stopped
    assert worker.delete(f"/connectors/{pipe.source}").status == 404
    pipe.write(10)
    worker.create(pipe.source, pipe.source_config)
    wait_until_equal(pipe)


@pytest.mark.parametrize("state", ["STOPPED", "PAUSED"])
def test_connector_created_stopped_or_paused_has_no_tasks(
    worker: WorkerProcess, tmp_path: Path, state: str
) -> None:
    name = f"resting-{uuid.uuid4().hex[:8]}"
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "none"), "topic": name}
    worker.create(name, config, initial_state=state)
    worker.wait_for_states(name, [state])
    assert worker.put(f"/connectors/{name}/resume").status == 202
    worker.wait_for_states(name, RUNNING)
    assert worker.delete(f"/connectors/{name}").status == 204


def test_worker_reports_identity_and_health(worker: WorkerProcess, kafka: Broker) -> None:
    assert set(worker.get("/").body) == {"version", "commit", "kafka_cluster_id"}
    worker.wait_until(
        "the Kafka cluster id was returned", lambda: bool(worker.get("/").body["kafka_cluster_id"])
    )
    assert worker.get("/health").body["status"] == "healthy"
    assert kafka.status().is_ready

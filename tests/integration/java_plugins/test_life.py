"""Tests for the lifecycle of Java connectors: data flow, pause, stop, restart and failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.integration.java_plugins.flows import (
    FILE_SINK,
    RUNNING,
    append,
    faulty_config,
    has_restarted,
    kraal_worker,
    source_config,
    unique_name,
    wait_for_values,
)


@pytest.mark.releases
def test_lines_flow_through_java_connectors(cluster: ProcessCluster, tmp_path: Path) -> None:
    name, file, out = unique_name("lines"), tmp_path / "in.txt", tmp_path / "out.txt"
    append(file, "one", "two")
    worker = cluster.alive[0]
    cluster.create(name, source_config(file, name))
    cluster.create(f"{name}-sink", {"connector.class": FILE_SINK, "file": str(out), "topics": name})
    worker.wait_for_states(name, RUNNING)
    worker.wait_until("the lines were written", lambda: out.exists() and out.read_text() == "one\ntwo\n")
    worker.wait_until(
        "the topic was tracked",
        lambda: worker.get(f"/connectors/{name}/topics").body[name]["topics"] == [name],
    )
    expected_offsets = [{"partition": {"filename": str(file)}, "offset": {"position": 8}}]
    worker.wait_until(
        "the offset was stored",
        lambda: worker.get(f"/connectors/{name}/offsets").body["offsets"] == expected_offsets,
    )
    for connector in (name, f"{name}-sink"):
        cluster.delete(connector)


def test_paused_source_reads_no_records_until_it_is_resumed(cluster: ProcessCluster, tmp_path: Path) -> None:
    name, file = unique_name("paused"), tmp_path / "in.txt"
    append(file, "before")
    worker = cluster.alive[0]
    cluster.create(name, source_config(file, name))
    wait_for_values(cluster, name, ["before"])
    cluster.pause(name)
    worker.wait_for_states(name, ["PAUSED", "PAUSED"])
    append(file, "meanwhile")
    cluster.restart(name)
    worker.wait_until("the connector had restarted", lambda: has_restarted(cluster, name, 1, "PAUSED"))
    worker.wait_for_states(name, ["PAUSED", "PAUSED"])
    assert cluster.values(name) == ["before"]
    cluster.resume(name)
    wait_for_values(cluster, name, ["before", "meanwhile"])
    cluster.stop(name)
    worker.wait_for_states(name, ["STOPPED"])
    reset = worker.ask("DELETE", f"/connectors/{name}/offsets")
    assert reset.status == 200, reset
    cluster.resume(name)
    wait_for_values(cluster, name, ["before", "meanwhile"] * 2)
    cluster.delete(name)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("throw", "org.apache.kafka.connect.errors.ConnectException: task.poll fails"),
        ("exit", "java.lang.SecurityException: The plugin called System.exit(3)"),
        ("memory", "java.lang.OutOfMemoryError: as if there were no memory"),
    ],
)
def test_task_fault_fails_only_its_task(cluster: ProcessCluster, fault: str, expected: str) -> None:
    name, healthy_name = unique_name(fault), unique_name("healthy")
    worker = cluster.alive[0]
    cluster.create(healthy_name, faulty_config(healthy_name))
    worker.wait_for_states(healthy_name, RUNNING)
    cluster.create(name, faulty_config(name, fault, "task.poll"))
    worker.wait_for_states(name, ["RUNNING", "FAILED"])
    assert worker.traces(name)[0].startswith(expected)
    count = len(cluster.records(healthy_name))
    worker.wait_until("the other task continued", lambda: len(cluster.records(healthy_name)) > count)
    assert worker.states(healthy_name) == RUNNING
    for connector in (name, healthy_name):
        cluster.delete(connector)


def test_source_of_standard_input_can_be_stopped_and_replaced(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    name, worker, file = unique_name("console"), cluster.alive[0], tmp_path / "in"
    config = source_config(file, name)
    del config["file"]
    cluster.create(name, config)
    worker.wait_for_states(name, RUNNING)
    cluster.stop(name)
    worker.wait_for_states(name, ["STOPPED"])
    cluster.delete(name)
    cluster.create(name, source_config(file, name))
    append(file, "a line")
    wait_for_values(cluster, name, ["a line"])
    cluster.delete(name)


def test_failed_task_is_restarted_automatically(cluster: ProcessCluster) -> None:
    name, worker = unique_name("supervised"), cluster.alive[0]
    restart_config = {"errors.auto.restart": "task", "errors.auto.restart.backoff.ms": "100"}
    cluster.create(name, faulty_config(name, "throw", "task.poll") | restart_config)

    def count_restarts() -> int:
        status = worker.get(f"/connectors/{name}/status?expand=supervision").body
        tasks = (
            status["supervision"]["tasks"] if "supervision" in status else []
        )  # 404 before the first status
        return int(sum(task["restarts"] for task in tasks))

    worker.wait_until("the task had been restarted three times", lambda: count_restarts() >= 3)
    cluster.delete(name)


def test_failed_connector_start_has_the_java_trace(cluster: ProcessCluster) -> None:
    name = unique_name("no-start")
    worker = cluster.alive[0]
    cluster.create(name, faulty_config(name, "throw", "connector.start"))
    worker.wait_for_states(name, ["FAILED"])
    trace = worker.get(f"/connectors/{name}/status").body["connector"]["trace"]
    assert trace.startswith("org.apache.kafka.connect.errors.ConnectException: connector.start fails\n\tat ")
    cluster.delete(name)


def test_connector_with_too_many_tasks_fails_and_is_stopped(cluster: ProcessCluster) -> None:
    name, worker = unique_name("too-many"), cluster.alive[0]
    cluster.create(name, faulty_config(name, "tasks"))
    worker.wait_for_states(name, ["FAILED"])
    trace = worker.get(f"/connectors/{name}/status").body["connector"]["trace"]
    assert trace.startswith("org.apache.kafka.connect.runtime.TooManyTasksException")
    stop_line = f"Stopped the connector of topic {name}"
    worker.wait_until("the plugin was stopped", lambda: stop_line in worker.log_text())
    cluster.delete(name)
    assert worker.log_text().count(stop_line) == 1


def test_invalid_config_is_rejected_with_the_plugin_error(cluster: ProcessCluster) -> None:
    response = cluster.alive[0].post(
        "/connectors", {"name": "no", "config": faulty_config("t", "unheard of")}
    )
    assert response.status == 400
    assert (
        "Invalid value unheard of for configuration fault: String must be one of" in response.body["message"]
    )


def test_java_log_levels_can_be_set_over_rest(cluster: ProcessCluster) -> None:
    name, worker = unique_name("levels"), cluster.alive[0]
    logger = "org.apache.kafka.connect.runtime.WorkerSourceTask"
    assert worker.put(f"/admin/loggers/{logger}", {"level": "TRACE"}).status == 200
    try:
        cluster.create(name, faulty_config(name))
        worker.wait_for_states(name, RUNNING)
        worker.wait_until(
            "the line was logged", lambda: f"TRACE [{worker.url.rpartition('/')[2]}" in worker.log_text()
        )
    finally:
        worker.put(f"/admin/loggers/{logger}", {"level": "INFO"})
        cluster.delete(name)


@pytest.mark.slow
def test_distributed_worker_starts_spark_when_a_python_connector_is_created(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    name, texts = unique_name("java"), tmp_path / "texts"
    texts.mkdir()
    (texts / "one.txt").write_text("text\n")
    with kraal_worker(tmp_path, kafka.bootstrap, worker_properties) as cluster:
        cluster.create(name, faulty_config(name))
        cluster.wait_for_states(name, RUNNING)
        assert cluster.alive[0].end() == 0
        cluster.start_worker(0)  # joins the group without Spark
        worker = cluster.alive[0]
        cluster.wait_for_states(name, RUNNING)
        assert worker.jvm() is None
        python_config = {"connector.class": "SparkSource", "spark.format": "text", "path": str(texts)}
        cluster.create(f"{name}-python", python_config | {"topic": f"{name}-python"})
        wait_for_values(cluster, f"{name}-python", ["text"])
        assert worker.jvm() is not None

"""Tests that faults in plugin methods are reported with Java's trace, and do not affect other connectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx2
import pytest

from kraal.core.traces import root_cause
from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    FAULTY_SINK,
    RUNNING,
    faulty_config,
    unique_name,
)

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
ERRORS_PACKAGE = "org.apache.kafka.connect.errors"
FAULTY_CONVERTER = "kraal.testing.FaultyConverter"
WAIT_TIMEOUT_S = 3.0
BLOCKED_TRANSFORMS = 20
"""Number of blocked transforms, which exceeds the number of threads that call Java plugins."""


@pytest.fixture
def cluster(cluster_for_blocking_plugins: ProcessCluster) -> ProcessCluster:
    return cluster_for_blocking_plugins


def transform_config(topic: str, fault: str, at: str) -> dict[str, str]:
    return faulty_config(topic) | {
        "transforms": "t",
        "transforms.t.type": "kraal.testing.FaultyTransform",
        "transforms.t.fault": fault,
        "transforms.t.fault.at": at,
    }


def predicate_config(topic: str, fault: str, at: str) -> dict[str, str]:
    return transform_config(topic, "", "") | {
        "transforms.t.predicate": "p",
        "predicates": "p",
        "predicates.p.type": "kraal.testing.FaultyPredicate",
        "predicates.p.fault": fault,
        "predicates.p.fault.at": at,
    }


def converter_config(topic: str, fault: str, at: str, kind: str = "value") -> dict[str, str]:
    return faulty_config(topic) | {
        f"{kind}.converter": FAULTY_CONVERTER,
        f"{kind}.converter.fault": fault,
        f"{kind}.converter.fault.at": at,
    }


def sink_config(topic: str, fault: str, at: str) -> dict[str, str]:
    return {"connector.class": FAULTY_SINK, "topics": topic, "fault": fault, "fault.at": at}


def sink_converter_config(topic: str, fault: str, at: str) -> dict[str, str]:
    return converter_config(topic, fault, at) | {"connector.class": FAULTY_SINK, "topics": topic}


ConfigFactory = Callable[[str, str, str], dict[str, str]]
FATAL_METHODS: dict[str, ConfigFactory] = {
    "connector.start": faulty_config,
    "task.initialize": faulty_config,
    "task.start": faulty_config,
    "task.poll": faulty_config,
    "transform.configure": transform_config,
    "transform.apply": transform_config,
    "predicate.configure": predicate_config,
    "predicate.test": predicate_config,
    "converter.configure": converter_config,
    "converter.fromConnectData": converter_config,
    "sink task.initialize": sink_config,
    "sink task.start": sink_config,
    "sink task.open": sink_config,
    "sink task.put": sink_config,
    "sink converter.toConnectData": sink_converter_config,
}
HARMLESS_METHODS: dict[str, ConfigFactory] = {
    "task.commitRecord": faulty_config,
    "task.commit": faulty_config,
    "sink task.preCommit": sink_config,
    "sink task.flush": sink_config,
}
"""Methods whose errors Kafka's worker only logs."""
RETRIED_METHODS = {"task.poll", "sink task.put"}
"""Methods that Kafka's worker retries after a RetriableException."""
CONFIG_FACTORIES: dict[str, ConfigFactory] = {**FATAL_METHODS, **HARMLESS_METHODS}


def method_name(label: str) -> str:
    return label.removeprefix("sink ")


@pytest.mark.parametrize(
    "fault", ["throw", "error", "memory", pytest.param("retriable", marks=pytest.mark.ci)]
)
def test_fault_reports_match_java(cluster: ProcessCluster, java_cluster: MixedCluster, fault: str) -> None:
    methods = ["task.poll", "task.start", "transform.apply", "sink task.put"]
    if fault == "throw":
        methods = [*FATAL_METHODS, *HARMLESS_METHODS]
    harmless, message = {*HARMLESS_METHODS}, "fails"
    if fault == "retriable":
        harmless, message = {*HARMLESS_METHODS, *RETRIED_METHODS}, "fails for now"

    def report_faults(tested_cluster: ProcessCluster) -> dict[str, tuple[list[str], list[str]]]:
        worker, topic = tested_cluster.alive[0], unique_name("faults")
        tested_cluster.write(topic, "a record")
        names = {label: unique_name(fault) for label in methods}
        for label, name in names.items():
            make_config = CONFIG_FACTORIES[label]
            tested_cluster.create(
                name, make_config(topic if label.startswith("sink") else name, fault, method_name(label))
            )

        def is_reported(label: str) -> bool:
            states = worker.states(names[label])
            if label in harmless:
                return states == RUNNING and f"{method_name(label)} {message}" in worker.log_text()
            return "FAILED" in states

        for label in methods:
            worker.wait_until(f"the fault in {label} was reported", partial(is_reported, label))
        reports = {label: status_report(worker, name) for label, name in names.items()}
        for name in names.values():
            tested_cluster.delete(name)
        return reports

    assert report_faults(cluster) == report_faults(java_cluster)


@pytest.mark.ci
def test_invalid_json_fails_a_sink_with_the_same_cause_as_in_java(
    cluster: ProcessCluster, java_cluster: MixedCluster
) -> None:
    def read_cause(tested_cluster: ProcessCluster) -> str:
        worker, name = tested_cluster.alive[0], unique_name("parsed")
        tested_cluster.write(name, '{"a": xyz}')
        converter = {"value.converter": JSON_CONVERTER, "value.converter.schemas.enable": "false"}
        tested_cluster.create(name, {"connector.class": FAULTY_SINK, "topics": name, **converter})
        worker.wait_for_states(name, ["RUNNING", "FAILED"])
        (trace,) = worker.traces(name)
        tested_cluster.delete(name)
        assert trace.startswith(
            f"{ERRORS_PACKAGE}.ConnectException: Tolerance exceeded in error handler\n\tat "
        )
        assert (
            f"\nCaused by: {ERRORS_PACKAGE}.DataException: Converting byte[] to Kafka Connect data failed"
            in trace
        )
        if tested_cluster is cluster:
            assert root_cause(trace) in worker.log_text()
        return root_cause(trace)

    cause = read_cause(cluster)
    assert cause == read_cause(java_cluster)
    assert cause.startswith(
        "com.fasterxml.jackson.core.JsonParseException: Unrecognized token 'xyz': was expecting "
    )
    assert cause.endswith(" (line 1, column 7)")


def status_report(worker: WorkerProcess, name: str) -> tuple[list[str], list[str]]:
    """Return the states of a connector and its tasks, and the first line of each trace."""
    return worker.states(name), [trace.splitlines()[0] for trace in worker.traces(name)]


@pytest.mark.ci
@pytest.mark.parametrize(
    ("label", "action", "states"),
    [
        ("connector.stop", "pause", ["FAILED", "PAUSED"]),
        ("connector.stop", "stop", ["STOPPED"]),
        ("task.stop", "stop", ["STOPPED"]),
        ("sink task.close", "stop", ["STOPPED"]),
        ("sink task.stop", "stop", ["STOPPED"]),
    ],
)
def test_fault_reports_during_stop_match_java(
    cluster: ProcessCluster,
    java_cluster: MixedCluster,
    tmp_path: Path,
    label: str,
    action: str,
    states: list[str],
) -> None:
    make_config = sink_config if label.startswith("sink") else faulty_config

    def report_faults(tested_cluster: ProcessCluster) -> tuple[list[str], list[str]]:
        worker, name = tested_cluster.alive[0], unique_name("ends")
        tested_cluster.write(name, "a record")
        file = tmp_path / name
        tested_cluster.create(
            name,
            make_config(name, "throw", method_name(label))
            | ({"file": str(file)} if make_config is sink_config else {}),
        )
        worker.wait_for_states(name, RUNNING)
        worker.wait_until(
            "the sink had opened its partition", lambda: make_config is not sink_config or file.exists()
        )
        log_size = len(worker.log_text())
        {"pause": tested_cluster.pause, "stop": tested_cluster.stop}[action](name)
        worker.wait_until(
            "the fault was logged", lambda: f"{method_name(label)} fails" in worker.log_text()[log_size:]
        )
        worker.wait_for_states(name, states, timeout_s=30)
        report = status_report(worker, name)
        tested_cluster.delete(name)
        return report

    assert report_faults(cluster) == report_faults(java_cluster)


@pytest.mark.ci
def test_connector_with_failing_task_configs_runs_without_tasks_as_in_java(
    cluster: ProcessCluster, java_cluster: MixedCluster
) -> None:
    def report_faults(tested_cluster: ProcessCluster) -> tuple[list[str], list[str]]:
        worker, name = tested_cluster.alive[0], unique_name("no-tasks")
        tested_cluster.create(name, faulty_config(name, "throw", "connector.taskConfigs"))
        worker.wait_until("the fault was logged", lambda: "connector.taskConfigs fails" in worker.log_text())
        worker.wait_for_states(name, ["RUNNING"])
        report = status_report(worker, name)
        tested_cluster.delete(name)
        return report

    assert report_faults(cluster) == report_faults(java_cluster) == (["RUNNING"], [])


def assert_connector_runs(cluster: ProcessCluster) -> None:
    """Assert that a new connector runs while other connectors are blocked."""
    name, worker = unique_name("healthy"), cluster.alive[0]
    cluster.create(name, faulty_config(name))
    worker.wait_for_states(name, RUNNING)
    worker.wait_until("the connector wrote records", lambda: len(cluster.records(name)) > 5)
    cluster.delete(name)


def test_plugins_that_would_block_the_java_herder_do_not_affect_others(cluster: ProcessCluster) -> None:
    worker = cluster.alive[0]
    blocked_plugins: list[tuple[ConfigFactory, str]] = [
        (faulty_config, "connector.taskClass"),
        (faulty_config, "connector.taskConfigs"),
        (converter_config, "converter.configure"),
        (predicate_config, "predicate.configure"),
        *[(transform_config, "transform.configure")] * BLOCKED_TRANSFORMS,
    ]
    names = {unique_name("blocked"): plugin for plugin in blocked_plugins}
    for name, (make_config, at) in names.items():
        cluster.create(name, make_config(name, "block", at))
    assert_connector_runs(cluster)
    for name in names:
        worker.wait_for_states(name, ["RUNNING"])  # the connector has no task yet
    for name in names:
        cluster.delete(name)
    assert_connector_runs(cluster)


@pytest.mark.parametrize("at", ["connector.validate", "connector.exactlyOnceSupport"])
def test_request_blocked_by_a_plugin_does_not_block_others(cluster: ProcessCluster, at: str) -> None:
    worker, name = cluster.alive[0], unique_name("blocked")
    config = faulty_config(name, "block", at) | {"exactly.once.support": "required", "name": name}
    with httpx2.Client(base_url=worker.url, timeout=WAIT_TIMEOUT_S, trust_env=False) as client:
        path = f"/connector-plugins/{config['connector.class']}/config/validate"
        with pytest.raises(httpx2.TimeoutException):  # 500 after 90 seconds, as in Java
            client.put(path, json=config)
    assert_connector_runs(cluster)


@pytest.mark.parametrize("at", ["task.stop", "task.poll"])
def test_hung_plugin_is_abandoned_and_not_started_twice(cluster: ProcessCluster, at: str) -> None:
    name, worker = unique_name("blocks"), cluster.alive[0]
    cluster.create(name, faulty_config(name, "block", at))
    worker.wait_for_states(name, RUNNING)
    cluster.restart(name)
    worker.wait_until(
        "the second run of the task waited for the first",
        lambda: "has not ended" in str(worker.get(f"/connectors/{name}/status").body),
    )
    values = cluster.values(name)
    assert_connector_runs(cluster)
    assert cluster.values(name) == values == [str(number) for number in range(len(values))]
    cluster.delete(name)
    worker.wait_until("the connector was deleted", lambda: name not in worker.get("/connectors").body)

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

JSON = "org.apache.kafka.connect.json.JsonConverter"
ERRORS = "org.apache.kafka.connect.errors"
CONVERTER = "kraal.testing.FaultyConverter"
WAIT_TIMEOUT_S = 3.0
BLOCKED_TRANSFORMS = 20
"""More than the number of threads that call Java plugins."""


@pytest.fixture
def cluster(blocked_cluster: ProcessCluster) -> ProcessCluster:
    return blocked_cluster


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
        f"{kind}.converter": CONVERTER,
        f"{kind}.converter.fault": fault,
        f"{kind}.converter.fault.at": at,
    }


def sink_config(topic: str, fault: str, at: str) -> dict[str, str]:
    return {"connector.class": FAULTY_SINK, "topics": topic, "fault": fault, "fault.at": at}


def sink_converter_config(topic: str, fault: str, at: str) -> dict[str, str]:
    return converter_config(topic, fault, at) | {"connector.class": FAULTY_SINK, "topics": topic}


ConfigFactory = Callable[[str, str, str], dict[str, str]]
FATAL: dict[str, ConfigFactory] = {
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
HARMLESS: dict[str, ConfigFactory] = {
    "task.commitRecord": faulty_config,
    "task.commit": faulty_config,
    "sink task.preCommit": sink_config,
    "sink task.flush": sink_config,
}
"""Methods whose errors Kafka's worker only logs."""
RETRIED = {"task.poll", "sink task.put"}
"""Methods that Kafka's worker retries after a RetriableException."""
CONFIG_FACTORIES: dict[str, ConfigFactory] = {**FATAL, **HARMLESS}


def method_name(where: str) -> str:
    return where.removeprefix("sink ")


@pytest.mark.parametrize(
    "fault", ["throw", "error", "memory", pytest.param("retriable", marks=pytest.mark.ci)]
)
def test_fault_reports_match_java(cluster: ProcessCluster, java: MixedCluster, fault: str) -> None:
    methods = ["task.poll", "task.start", "transform.apply", "sink task.put"]
    if fault == "throw":
        methods = [*FATAL, *HARMLESS]
    harmless, message = {*HARMLESS}, "fails"
    if fault == "retriable":
        harmless, message = {*HARMLESS, *RETRIED}, "fails for now"

    def report_faults(side: ProcessCluster) -> dict[str, tuple[list[str], list[str]]]:
        worker, topic = side.alive[0], unique_name("faults")
        side.write(topic, "a record")
        names = {where: unique_name(fault) for where in methods}
        for where, name in names.items():
            make = CONFIG_FACTORIES[where]
            side.create(name, make(topic if where.startswith("sink") else name, fault, method_name(where)))

        def is_reported(where: str) -> bool:
            states = worker.states(names[where])
            if where in harmless:
                return states == RUNNING and f"{method_name(where)} {message}" in worker.log_text()
            return "FAILED" in states

        for where in methods:
            worker.wait_until(f"the fault in {where} was reported", partial(is_reported, where))
        reports = {where: status_report(worker, name) for where, name in names.items()}
        for name in names.values():
            side.delete(name)
        return reports

    assert report_faults(cluster) == report_faults(java)


@pytest.mark.ci
def test_invalid_json_fails_a_sink_with_the_same_cause_as_in_java(
    cluster: ProcessCluster, java: MixedCluster
) -> None:
    def read_cause(side: ProcessCluster) -> str:
        worker, name = side.alive[0], unique_name("parsed")
        side.write(name, '{"a": xyz}')
        converter = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
        side.create(name, {"connector.class": FAULTY_SINK, "topics": name, **converter})
        worker.wait_for_states(name, ["RUNNING", "FAILED"])
        (trace,) = worker.traces(name)
        side.delete(name)
        assert trace.startswith(f"{ERRORS}.ConnectException: Tolerance exceeded in error handler\n\tat ")
        assert f"\nCaused by: {ERRORS}.DataException: Converting byte[] to Kafka Connect data failed" in trace
        if side is cluster:
            assert root_cause(trace) in worker.log_text()
        return root_cause(trace)

    cause = read_cause(cluster)
    assert cause == read_cause(java)
    assert cause.startswith(
        "com.fasterxml.jackson.core.JsonParseException: Unrecognized token 'xyz': was expecting "
    )
    assert cause.endswith(" (line 1, column 7)")


def status_report(worker: WorkerProcess, name: str) -> tuple[list[str], list[str]]:
    """Return the states of a connector and its tasks, and the first line of each trace."""
    return worker.states(name), [trace.splitlines()[0] for trace in worker.traces(name)]


@pytest.mark.ci
@pytest.mark.parametrize(
    ("where", "end", "states"),
    [
        ("connector.stop", "pause", ["FAILED", "PAUSED"]),
        ("connector.stop", "stop", ["STOPPED"]),
        ("task.stop", "stop", ["STOPPED"]),
        ("sink task.close", "stop", ["STOPPED"]),
        ("sink task.stop", "stop", ["STOPPED"]),
    ],
)
def test_fault_reports_during_stop_match_java(
    cluster: ProcessCluster, java: MixedCluster, tmp_path: Path, where: str, end: str, states: list[str]
) -> None:
    make = sink_config if where.startswith("sink") else faulty_config

    def report_faults(side: ProcessCluster) -> tuple[list[str], list[str]]:
        worker, name = side.alive[0], unique_name("ends")
        side.write(name, "a record")
        file = tmp_path / name
        side.create(
            name,
            make(name, "throw", method_name(where)) | ({"file": str(file)} if make is sink_config else {}),
        )
        worker.wait_for_states(name, RUNNING)
        worker.wait_until(
            "the sink had opened its partition", lambda: make is not sink_config or file.exists()
        )
        logged = len(worker.log_text())
        {"pause": side.pause, "stop": side.stop}[end](name)
        worker.wait_until(
            "the fault was logged", lambda: f"{method_name(where)} fails" in worker.log_text()[logged:]
        )
        worker.wait_for_states(name, states, timeout_s=30)
        report = status_report(worker, name)
        side.delete(name)
        return report

    assert report_faults(cluster) == report_faults(java)


@pytest.mark.ci
def test_connector_with_failing_task_configs_runs_without_tasks_as_in_java(
    cluster: ProcessCluster, java: MixedCluster
) -> None:
    def report_faults(side: ProcessCluster) -> tuple[list[str], list[str]]:
        worker, name = side.alive[0], unique_name("no-tasks")
        side.create(name, faulty_config(name, "throw", "connector.taskConfigs"))
        worker.wait_until("the fault was logged", lambda: "connector.taskConfigs fails" in worker.log_text())
        worker.wait_until("the connector had a state", lambda: bool(worker.states(name)))
        report = status_report(worker, name)
        side.delete(name)
        return report

    assert report_faults(cluster) == report_faults(java) == (["RUNNING"], [])


def assert_connector_runs(cluster: ProcessCluster) -> None:
    """Assert that a new connector runs while other connectors are blocked."""
    name, worker = unique_name("healthy"), cluster.alive[0]
    cluster.create(name, faulty_config(name))
    worker.wait_for_states(name, RUNNING)
    worker.wait_until("the connector wrote records", lambda: len(cluster.records(name)) > 5)
    cluster.delete(name)


def test_plugins_that_would_block_the_java_herder_do_not_affect_others(cluster: ProcessCluster) -> None:
    worker = cluster.alive[0]
    blocked: list[tuple[ConfigFactory, str]] = [
        (faulty_config, "connector.taskClass"),
        (faulty_config, "connector.taskConfigs"),
        (converter_config, "converter.configure"),
        (predicate_config, "predicate.configure"),
        *[(transform_config, "transform.configure")] * BLOCKED_TRANSFORMS,
    ]
    names = {unique_name("blocked"): each for each in blocked}
    for name, (make, at) in names.items():
        cluster.create(name, make(name, "block", at))
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
        "the second task waited for the first",
        lambda: "has not ended" in str(worker.get(f"/connectors/{name}/status").body),
    )
    values = cluster.values(name)
    assert_connector_runs(cluster)
    assert cluster.values(name) == values == [str(number) for number in range(len(values))]
    cluster.delete(name)
    worker.wait_until("the connector was deleted", lambda: name not in worker.get("/connectors").body)

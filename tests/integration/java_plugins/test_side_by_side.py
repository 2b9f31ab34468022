"""Tests that Java plugins have equal responses, records and offsets on Kraal and on a Java worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.client.target import parse_target
from kraal.doctor.finding import Level
from kraal.doctor.running import check_running
from kraal.testing import ProcessCluster
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    FAULTY_SINK,
    FAULTY_SOURCE,
    FILE_SINK,
    FILE_SOURCE,
    RUNNING,
    append,
    describe_keys,
    faulty_config,
    list_plugins,
    source_config,
    stored_offsets,
    unique_name,
    validate_config,
)
from tests.integration.java_plugins.kafka_tests import FAULTY_TRANSFORM, MANIFESTS, TOOLS

CONNECTOR_INTERFACES = ("source.SourceConnector", "sink.SinkConnector")
LOCAL_CONNECTORS = (FAULTY_SOURCE, FAULTY_SINK, FILE_SINK, FILE_SOURCE)
KAFKA_CONNECTORS = tuple(
    name
    for manifests in (MANIFESTS, TOOLS)
    for kind in CONNECTOR_INTERFACES
    for name in manifests.get(kind, ())
)
PLUGINS = (*LOCAL_CONNECTORS, *(pytest.param(plugin, marks=pytest.mark.ci) for plugin in KAFKA_CONNECTORS))
INVALID_VALUES = {
    "topic": "",
    "topics": "t",
    "tasks.max": "0",
    "errors.tolerance": "some",
    "fault": "unheard of",
    "batch.size": "many",
    "value.converter": "of.Nobody",
    "transforms": "none,fails",
    "transforms.none.type": "of.Nobody",
    "transforms.fails.type": FAULTY_TRANSFORM,
}


def test_plugin_listing_matches_java(cluster: ProcessCluster, java_cluster: MixedCluster) -> None:
    actual = list_plugins(cluster.alive[0], (*LOCAL_CONNECTORS, *KAFKA_CONNECTORS))
    assert len(actual) == len(LOCAL_CONNECTORS) + len(KAFKA_CONNECTORS) > 15
    assert actual == list_plugins(java_cluster.alive[0], (*LOCAL_CONNECTORS, *KAFKA_CONNECTORS))


@pytest.mark.parametrize("plugin", PLUGINS)
def test_config_keys_match_java(cluster: ProcessCluster, java_cluster: MixedCluster, plugin: str) -> None:
    actual = describe_keys(cluster.alive[0], plugin)
    assert {"name", "connector.class", "tasks.max"} < {key["name"] for key in actual}
    assert actual == describe_keys(java_cluster.alive[0], plugin)


@pytest.mark.parametrize(
    "config",
    [
        {"connector.class": FAULTY_SOURCE},
        {"connector.class": FAULTY_SOURCE, "topic": "t", "fault": "unheard of"},
        {"connector.class": FILE_SOURCE, "topic": "t", "batch.size": "many"},
        {"connector.class": FILE_SINK, "topics": "t"},
        *(
            pytest.param(
                {"connector.class": plugin} | extra_config,
                marks=pytest.mark.ci,
                id=f"{plugin.rpartition('.')[2]}-{'invalid' if extra_config else 'empty'}",
            )
            for plugin in (*LOCAL_CONNECTORS, *KAFKA_CONNECTORS)
            if "ValidateBlocking" not in plugin  # the method never returns
            for extra_config in ({}, INVALID_VALUES)
        ),
    ],
)
def test_config_validation_matches_java(
    cluster: ProcessCluster, java_cluster: MixedCluster, config: dict[str, str]
) -> None:
    actual = validate_config(cluster.alive[0], config)
    assert {"name", "connector.class", "tasks.max"} < actual["configs"].keys()
    assert actual == validate_config(java_cluster.alive[0], config)
    if config.items() > INVALID_VALUES.items():
        assert actual["error_count"] >= 4


TRANSFORM_CONFIG = {
    "transforms": "hoist,stamp",
    "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.stamp.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.stamp.static.field": "origin",
    "transforms.stamp.static.value": "here",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


def run_source(tested_cluster: ProcessCluster, file: Path) -> tuple[list[object], tuple[bytes, bytes | None]]:
    """Run a file source on a cluster. Return the records, and the stored offset without the connector's name."""
    name, worker = unique_name("alike"), tested_cluster.alive[0]
    tested_cluster.create(name, source_config(file, name) | TRANSFORM_CONFIG)
    worker.wait_for_states(name, RUNNING)
    worker.wait_until("all lines arrived", lambda: len(tested_cluster.records(name)) == 3)

    worker.wait_until("the offset was stored", lambda: bool(stored_offsets(tested_cluster, name)))
    records = [
        (record.partition, record.key, record.value, record.headers)
        for record in tested_cluster.records(name)
    ]
    last = stored_offsets(tested_cluster, name)[-1]
    tested_cluster.delete(name)
    return [*records], last


def test_records_and_offsets_match_java(
    cluster: ProcessCluster, java_cluster: MixedCluster, tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    append(file, "first", "", "déjà vu")
    assert run_source(cluster, file) == run_source(java_cluster, file)


@pytest.mark.ci
def test_number_of_tasks_matches_java(
    cluster: ProcessCluster, java_cluster: MixedCluster, tmp_path: Path
) -> None:
    for tested_cluster in (cluster, java_cluster):
        name, worker, file = unique_name("grows"), tested_cluster.alive[0], tmp_path / "tasks"
        file.write_text("1")
        tested_cluster.create(name, faulty_config(name, tasks=3) | {"tasks.file": str(file)})
        for count in (1, 3, 2):
            replace_file(file, count)
            worker.wait_for_states(name, ["RUNNING"] * (1 + count), timeout_s=60)
        task_numbers = [task["id"]["task"] for task in worker.get(f"/connectors/{name}/tasks").body]
        assert task_numbers == [0, 1]
        tested_cluster.delete(name)


def replace_file(file: Path, number: int) -> None:
    """Atomically replace a file with one that contains this number."""
    new_file = file.with_suffix(".new")
    new_file.write_text(str(number))
    new_file.replace(file)


@pytest.mark.ci
@pytest.mark.parametrize("worker_kind", ["kraal", "java"])
def test_doctor_reports_problems_of_a_running_worker(
    request: pytest.FixtureRequest, worker_kind: str
) -> None:
    cluster: ProcessCluster = request.getfixturevalue("cluster" if worker_kind == "kraal" else "java_cluster")
    name, worker = unique_name("fails"), cluster.alive[0]
    cluster.create(name, faulty_config(name, "throw", "task.poll"))
    worker.wait_for_states(name, ["RUNNING", "FAILED"], timeout_s=60)
    findings = {finding.id: finding for finding in check_running(parse_target(worker.url))}
    cluster.delete(name)
    assert findings["worker.reachable"].level is Level.OK
    assert (", Kraal " in findings["worker.reachable"].what) == (worker_kind == "kraal")
    assert f"1 of 1 tasks of {name} have failed" in findings["connectors.failed"].what
    assert "fails" in findings["connectors.failed"].what.partition(": ")[2], findings["connectors.failed"]
    assert {check: finding.level for check, finding in findings.items()} == {
        "worker.reachable": Level.OK,
        "worker.health": Level.OK,
        "clock.worker": Level.OK,
        "connectors.failed": Level.ERROR,
        "connectors.stalled": Level.OK if worker_kind == "kraal" else Level.SKIPPED,
        "connectors.plugins": Level.OK,
    }

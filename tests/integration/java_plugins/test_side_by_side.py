"""The same Java plugins on a Java worker and on Kraal: equal answers, equal records, equal offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.client.target import parse_target
from kraal.doctor.finding import Level
from kraal.doctor.running import check_running
from kraal.testing import ProcessCluster
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    FAULTY,
    FAULTY_SINK,
    FILE_SINK,
    FILE_SOURCE,
    RUNNING,
    a_name,
    append,
    described,
    faulty_config,
    listed,
    source_config,
    stored_offsets,
    validated,
)
from tests.integration.java_plugins.kafka_tests import FAULTY_TRANSFORM, MANIFESTS, TOOLS

CONNECTORS = ("source.SourceConnector", "sink.SinkConnector")
OURS = (FAULTY, FAULTY_SINK, FILE_SINK, FILE_SOURCE)
KAFKAS = tuple(each for moved in (MANIFESTS, TOOLS) for kind in CONNECTORS for each in moved.get(kind, ()))
PLUGINS = (*OURS, *(pytest.param(each, marks=pytest.mark.ci) for each in KAFKAS))
WRONG = {
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


def test_plugins_are_listed_alike(cluster: ProcessCluster, java: MixedCluster) -> None:
    mine = listed(cluster.alive[0], (*OURS, *KAFKAS))
    assert len(mine) == len(OURS) + len(KAFKAS) > 15
    assert mine == listed(java.alive[0], (*OURS, *KAFKAS))


@pytest.mark.parametrize("plugin", PLUGINS)
def test_config_keys_are_described_alike(cluster: ProcessCluster, java: MixedCluster, plugin: str) -> None:
    mine = described(cluster.alive[0], plugin)
    assert {"name", "connector.class", "tasks.max"} < {each["name"] for each in mine}
    assert mine == described(java.alive[0], plugin)


@pytest.mark.parametrize(
    "config",
    [
        {"connector.class": FAULTY},
        {"connector.class": FAULTY, "topic": "t", "fault": "unheard of"},
        {"connector.class": FILE_SOURCE, "topic": "t", "batch.size": "many"},
        {"connector.class": FILE_SINK, "topics": "t"},
        *(
            pytest.param(
                {"connector.class": plugin} | more,
                marks=pytest.mark.ci,
                id=f"{plugin.rpartition('.')[2]}-{'wrong' if more else 'empty'}",
            )
            for plugin in (*OURS, *KAFKAS)
            if "ValidateBlocking" not in plugin  # it never answers
            for more in ({}, WRONG)
        ),
    ],
)
def test_configs_are_validated_alike(
    cluster: ProcessCluster, java: MixedCluster, config: dict[str, str]
) -> None:
    mine = validated(cluster.alive[0], config)
    assert {"name", "connector.class", "tasks.max"} < mine["configs"].keys()
    assert mine == validated(java.alive[0], config)
    if config.items() > WRONG.items():
        assert mine["error_count"] >= 4


TRANSFORMED = {
    "transforms": "hoist,stamp",
    "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.stamp.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.stamp.static.field": "origin",
    "transforms.stamp.static.value": "here",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


def written(side: ProcessCluster, file: Path) -> tuple[list[object], tuple[bytes, bytes | None]]:
    """Let a cluster read the file; return the records, and the stored offset without the connector's name."""
    name, worker = a_name("alike"), side.alive[0]
    side.create(name, source_config(file, name) | TRANSFORMED)
    worker.wait_for_states(name, RUNNING)
    worker.wait_until("all lines were there", lambda: len(side.records(name)) == 3)

    worker.wait_until("the offset was stored", lambda: bool(stored_offsets(side, name)))
    records = [(each.partition, each.key, each.value, each.headers) for each in side.records(name)]
    last = stored_offsets(side, name)[-1]
    side.delete(name)
    return [*records], last


def test_records_and_offsets_are_the_same(
    cluster: ProcessCluster, java: MixedCluster, tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    append(file, "first", "", "déjà vu")
    assert written(cluster, file) == written(java, file)


@pytest.mark.ci
def test_a_connector_that_asks_for_it_gets_as_many_tasks(
    cluster: ProcessCluster, java: MixedCluster, tmp_path: Path
) -> None:
    for side in (cluster, java):
        name, worker, file = a_name("grows"), side.alive[0], tmp_path / "tasks"
        file.write_text("1")
        side.create(name, faulty_config(name, tasks=3) | {"tasks.file": str(file)})
        for wanted in (1, 3, 2):
            replaced(file, wanted)
            worker.wait_for_states(name, ["RUNNING"] * (1 + wanted), timeout_s=60)
        numbered = [each["id"]["task"] for each in worker.get(f"/connectors/{name}/tasks").body]
        assert numbered == [0, 1]
        side.delete(name)


def replaced(file: Path, number: int) -> None:
    """Replace a file with one that has this number; a reader sees one of them whole."""
    other = file.with_suffix(".new")
    other.write_text(str(number))
    other.replace(file)


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["kraal", "java"])
def test_doctor_tells_what_a_running_worker_suffers_from(request: pytest.FixtureRequest, kind: str) -> None:
    side: ProcessCluster = request.getfixturevalue("cluster" if kind == "kraal" else "java")
    name, worker = a_name("fails"), side.alive[0]
    side.create(name, faulty_config(name, "throw", "task.poll"))
    worker.wait_for_states(name, ["RUNNING", "FAILED"], timeout_s=60)
    found = {each.id: each for each in check_running(parse_target(worker.url))}
    side.delete(name)
    assert found["worker.reachable"].level is Level.OK
    assert (", Kraal " in found["worker.reachable"].what) == (kind == "kraal")
    assert f"1 of 1 tasks of {name} have failed" in found["connectors.failed"].what
    assert "fails" in found["connectors.failed"].what.partition(": ")[2], found["connectors.failed"]
    assert {check: each.level for check, each in found.items()} == {
        "worker.reachable": Level.OK,
        "worker.health": Level.OK,
        "clock.worker": Level.OK,
        "connectors.failed": Level.ERROR,
        "connectors.stalled": Level.OK if kind == "kraal" else Level.SKIPPED,
        "connectors.plugins": Level.OK,
    }

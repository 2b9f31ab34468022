"""The same Java plugins on a Java worker and on Kraal: equal answers, equal records, equal offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    FAULTY,
    FILE_SINK,
    FILE_SOURCE,
    RUNNING,
    a_name,
    append,
    source_config,
)


def plugins_of(worker: WorkerProcess) -> list[dict[str, str]]:
    named = (FAULTY, FILE_SINK, FILE_SOURCE)
    return [each for each in worker.get("/connector-plugins").body if each["class"] in named]


def test_plugins_are_listed_alike(cluster: ProcessCluster, java: MixedCluster) -> None:
    mine = plugins_of(cluster.alive[0])
    assert len(mine) == 3
    assert mine == plugins_of(java.alive[0])


@pytest.mark.parametrize("plugin", [FILE_SOURCE, FILE_SINK, FAULTY])
def test_config_keys_are_described_alike(cluster: ProcessCluster, java: MixedCluster, plugin: str) -> None:
    own = {each["name"]: each for each in cluster.alive[0].get(f"/connector-plugins/{plugin}/config").body}
    for key in java.alive[0].get(f"/connector-plugins/{plugin}/config").body:
        if (
            key["documentation"] and key["group"] is None
        ):  # the plugin's own; texts of Connect's keys are Kraal's
            assert own[key["name"]] == key


@pytest.mark.parametrize(
    "config",
    [
        {"connector.class": FAULTY},
        {"connector.class": FAULTY, "topic": "t", "fault": "unheard of"},
        {"connector.class": FILE_SOURCE, "topic": "t", "batch.size": "many"},
        {"connector.class": FILE_SINK, "topics": "t"},
    ],
)
def test_configs_are_validated_alike(
    cluster: ProcessCluster, java: MixedCluster, config: dict[str, str]
) -> None:
    path = f"/connector-plugins/{config['connector.class']}/config/validate"
    sent = {"name": "any", **config}

    def values(worker: WorkerProcess) -> dict[str, object]:
        found = worker.put(path, sent).body["configs"]
        return {each["value"]["name"]: each["value"] for each in found if each["value"]["name"] in own_keys}

    own_keys = {"topic", "fault", "batch.size", "file", "topics"}
    assert values(cluster.alive[0]) == values(java.alive[0])


TRANSFORMED = {
    "transforms": "hoist,stamp",
    "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.stamp.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.stamp.static.field": "origin",
    "transforms.stamp.static.value": "here",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


def written(side: ProcessCluster, file: Path) -> tuple[list[object], tuple[bytes | None, bytes | None]]:
    """Let a cluster read the file; return the records, and the stored offset without the connector's name."""
    name, worker = a_name("alike"), side.alive[0]
    side.create(name, source_config(file, name) | TRANSFORMED)
    worker.wait_for_states(name, RUNNING)
    worker.wait_until("all lines were there", lambda: len(side.records(name)) == 3)

    def stored() -> list[tuple[bytes | None, bytes | None]]:
        return [
            (each.key.replace(name.encode(), b"NAME"), each.value)
            for each in side.records(worker.properties["offset.storage.topic"])
            if each.key is not None and name.encode() in each.key
        ]

    worker.wait_until("the offset was stored", lambda: bool(stored()))
    records = [(each.partition, each.key, each.value, each.headers) for each in side.records(name)]
    last = stored()[-1]
    side.delete(name)
    return [*records], last


def test_records_and_offsets_are_the_same(
    cluster: ProcessCluster, java: MixedCluster, tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    append(file, "first", "", "déjà vu")
    assert written(cluster, file) == written(java, file)

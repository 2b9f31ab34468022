"""Tests that Kraal and a Java worker handle two versions of Java plugins alike."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    RUNNING,
    VERSIONED_PREFIX,
    VERSIONS,
    kraal_worker,
    unique_name,
    wait_for_plugins,
)

SOURCE, TRANSFORM, CONVERTER = (f"{VERSIONED_PREFIX}{kind}" for kind in ("Source", "Transform", "Converter"))
PREDICATE = f"{VERSIONED_PREFIX}Predicate"
REQUESTED_VERSIONS = (
    None,
    "1.0",
    "latest",
    "[1.0,2.0)",
    "(1.0,)",
    "[1.0,1.5),[3,)",
    "1.5",
    "[3,4]",
    "",
    "[1,",
)
CONFIG = {
    "name": "any",
    "connector.class": SOURCE,
    "topic": "t",
    "transforms": "t",
    "transforms.t.type": TRANSFORM,
    "transforms.t.predicate": "p",
    "predicates": "p",
    "predicates.p.type": PREDICATE,
    "key.converter": CONVERTER,
    "value.converter": CONVERTER,
    "header.converter": CONVERTER,
}


def test_version_listing_matches_java(cluster: ProcessCluster, java_cluster: MixedCluster) -> None:
    for query in ("", "?connectorsOnly=false"):
        listings = []
        for tested_cluster in (cluster, java_cluster):
            listing = tested_cluster.alive[0].get(f"/connector-plugins{query}").body
            listings.append([plugin for plugin in listing if plugin["class"].startswith(VERSIONED_PREFIX)])
        assert listings[0] == listings[1]
        assert len(listings[0]) == (10 if query else 2)


def describe_version(worker: WorkerProcess, plugin: str, requested_version: str | None) -> object:
    query = "" if requested_version is None else f"?version={quote(requested_version)}"
    response = worker.get(f"/connector-plugins/{plugin}/config{query}")
    if response.status != 200:
        return response.status, response.body
    shown_keys = ("size", "topic", "connector.plugin.version")
    return [
        (key["name"], key["default_value"])
        for key in response.body
        if key["name"] in shown_keys or key["name"].startswith("key.of.")
    ]


@pytest.mark.parametrize("plugin", [SOURCE, TRANSFORM, PREDICATE, CONVERTER])
def test_keys_by_version_match_java(cluster: ProcessCluster, java_cluster: MixedCluster, plugin: str) -> None:
    for requested_version in REQUESTED_VERSIONS:
        actual, expected = (
            describe_version(tested_cluster.alive[0], plugin, requested_version)
            for tested_cluster in (cluster, java_cluster)
        )
        assert actual == expected, requested_version


def validate_version(worker: WorkerProcess, config: dict[str, str]) -> tuple[object, ...]:
    """Return the number of errors of a validation, the values of versions and versioned keys, and all other errors."""
    body: Any = worker.put(f"/connector-plugins/{SOURCE}/config/validate", config).body
    values: dict[str, object] = {}
    for entry in body["configs"]:
        value, definition = entry["value"], entry["definition"] or {}
        name = value["name"]
        if name.endswith(".plugin.version") or "key.of." in name:
            values[name] = (value, definition.get("default_value"))
        elif value["errors"]:  # other values differ: Kraal also recommends its own classes
            values[name] = value["errors"]
    return body["error_count"], values


@pytest.mark.parametrize(
    "prefix",
    ["connector", "transforms.t", "predicates.p", "key.converter", "value.converter", "header.converter"],
)
def test_config_validation_by_version_matches_java(
    cluster: ProcessCluster, java_cluster: MixedCluster, prefix: str
) -> None:
    connector_version = {} if prefix == "connector" else {"connector.plugin.version": "1.0"}
    for requested_version in REQUESTED_VERSIONS:
        if prefix == "connector" and requested_version in ("1.5", "[3,4]", "", "[1,"):
            continue  # tested by the next test
        config = (
            CONFIG
            | connector_version
            | ({} if requested_version is None else {f"{prefix}.plugin.version": requested_version})
        )
        actual, expected = (
            validate_version(tested_cluster.alive[0], config) for tested_cluster in (cluster, java_cluster)
        )
        assert actual == expected, requested_version


@pytest.mark.parametrize("requested_version", ["1.5", "[3,4]", ""])
def test_unavailable_connector_version_error_matches_java(
    cluster: ProcessCluster, java_cluster: MixedCluster, requested_version: str
) -> None:
    config = {
        "name": "any",
        "connector.class": SOURCE,
        "topic": "t",
        "connector.plugin.version": requested_version,
    }
    actual, expected = (
        validate_version(tested_cluster.alive[0], config) for tested_cluster in (cluster, java_cluster)
    )
    assert actual == expected
    assert actual[0] == 2


def has_records(cluster: ProcessCluster, topic: str) -> bool:
    return bool(cluster.records(topic))


@pytest.mark.parametrize(
    "versions",
    [
        {},
        {"connector": "1.0"},
        {"connector": "1.0", "transforms.t": "2.0"},
        {"connector": "[1.0,2.0)", "value.converter": "2.0", "predicates.p": "1.0"},
        {"transforms.t": "1.0", "value.converter": "1.0", "predicates.p": "1.0"},
    ],
)
def test_required_plugin_versions_run(
    cluster: ProcessCluster, java_cluster: MixedCluster, versions: dict[str, str]
) -> None:
    version_config = {f"{prefix}.plugin.version": version for prefix, version in versions.items()}
    results = []
    for tested_cluster in (cluster, java_cluster):
        name, worker = unique_name("versioned"), tested_cluster.alive[0]
        tested_cluster.create(name, CONFIG | version_config | {"name": name, "topic": name})
        worker.wait_for_states(name, RUNNING)
        worker.wait_until("the record arrived", partial(has_records, tested_cluster, name))
        status = worker.get(f"/connectors/{name}/status").body
        running_versions = (status["connector"]["version"], status["tasks"][0]["version"])
        results.append((running_versions, [record.value for record in tested_cluster.records(name)]))
        tested_cluster.delete(name)
    assert results[0] == results[1]
    expected_version = "1.0" if "connector" in versions else "2.0"
    assert results[0][0] == (expected_version, expected_version)


@pytest.mark.slow
def test_task_with_an_uninstalled_version_fails_and_lists_available_versions(
    kafka: Broker, tmp_path: Path, plugin_path: Path, worker_properties: dict[str, str]
) -> None:
    directory, name = tmp_path / "plugins", unique_name("gone")
    for plugin in ("faulty", *VERSIONS):  # `faulty` contains the config provider of `worker_properties`
        shutil.copytree(plugin_path / plugin, directory / plugin)
    properties = {"plugin.path": str(directory), "mixed.group.missing.plugins": "fail-task"}
    with kraal_worker(tmp_path, kafka.bootstrap, worker_properties | properties) as cluster:
        worker = cluster.alive[0]
        cluster.create(name, CONFIG | {"name": name, "topic": name, "connector.plugin.version": "1.0"})
        worker.wait_for_states(name, RUNNING)
        assert worker.end() == 0
        shutil.rmtree(directory / "1.0")
        cluster.start_worker(0)
        wait_for_plugins(cluster.alive[0])
        cluster.wait_for_states(name, ["FAILED", "FAILED"])
        error = r"VersionedSource not found that matches the version range \[1\.0,1\.0\], available versions: \[2\.0\]"
        status = cluster.alive[0].get(f"/connectors/{name}/status").body
        for status_entry in (status["connector"], *status["tasks"]):
            assert re.search(error, status_entry["trace"]), status_entry["trace"]

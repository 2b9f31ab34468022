"""Two versions of Java plugins on a Java worker and on Kraal: equal responses, and the same versions run."""

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
    VERSIONED,
    VERSIONS,
    kraal_worker,
    unique_name,
    wait_for_plugins,
)

SOURCE, TRANSFORM, CONVERTER = (f"{VERSIONED}{kind}" for kind in ("Source", "Transform", "Converter"))
PREDICATE = f"{VERSIONED}Predicate"
WANTED = (None, "1.0", "latest", "[1.0,2.0)", "(1.0,)", "[1.0,1.5),[3,)", "1.5", "[3,4]", "", "[1,")
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


def test_version_listing_matches_java(cluster: ProcessCluster, java: MixedCluster) -> None:
    for query in ("", "?connectorsOnly=false"):
        listings = []
        for side in (cluster, java):
            listed = side.alive[0].get(f"/connector-plugins{query}").body
            listings.append([each for each in listed if each["class"].startswith(VERSIONED)])
        assert listings[0] == listings[1]
        assert len(listings[0]) == (10 if query else 2)


def describe_version(worker: WorkerProcess, plugin: str, wanted: str | None) -> object:
    query = "" if wanted is None else f"?version={quote(wanted)}"
    response = worker.get(f"/connector-plugins/{plugin}/config{query}")
    if response.status != 200:
        return response.status, response.body
    own = ("size", "topic", "connector.plugin.version")
    return [
        (each["name"], each["default_value"])
        for each in response.body
        if each["name"] in own or each["name"].startswith("key.of.")
    ]


@pytest.mark.parametrize("plugin", [SOURCE, TRANSFORM, PREDICATE, CONVERTER])
def test_keys_by_version_match_java(cluster: ProcessCluster, java: MixedCluster, plugin: str) -> None:
    for wanted in WANTED:
        mine, its = (describe_version(side.alive[0], plugin, wanted) for side in (cluster, java))
        assert mine == its, wanted


def validate_version(worker: WorkerProcess, config: dict[str, str]) -> tuple[object, ...]:
    """Return the number of errors, the versions, and the version-specific keys of a validation."""
    body: Any = worker.put(f"/connector-plugins/{SOURCE}/config/validate", config).body
    values: dict[str, object] = {}
    for each in body["configs"]:
        value, definition = each["value"], each["definition"] or {}
        name = value["name"]
        if name.endswith(".plugin.version") or "key.of." in name:
            values[name] = (value, definition.get("default_value"))
        elif value["errors"]:  # of a class, for which Kraal recommends its own, too
            values[name] = value["errors"]
    return body["error_count"], values


@pytest.mark.parametrize(
    "named",
    ["connector", "transforms.t", "predicates.p", "key.converter", "value.converter", "header.converter"],
)
def test_config_validation_by_version_matches_java(
    cluster: ProcessCluster, java: MixedCluster, named: str
) -> None:
    others = {} if named == "connector" else {"connector.plugin.version": "1.0"}
    for wanted in WANTED:
        if named == "connector" and wanted in ("1.5", "[3,4]", "", "[1,"):
            continue  # see below
        config = CONFIG | others | ({} if wanted is None else {f"{named}.plugin.version": wanted})
        mine, its = (validate_version(side.alive[0], config) for side in (cluster, java))
        assert mine == its, wanted


@pytest.mark.parametrize("wanted", ["1.5", "[3,4]", ""])
def test_unavailable_connector_version_error_matches_java(
    cluster: ProcessCluster, java: MixedCluster, wanted: str
) -> None:
    config = {"name": "any", "connector.class": SOURCE, "topic": "t", "connector.plugin.version": wanted}
    mine, its = (validate_version(side.alive[0], config) for side in (cluster, java))
    assert mine == its
    assert mine[0] == 2


def has_records(side: ProcessCluster, topic: str) -> bool:
    return bool(side.records(topic))


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
    cluster: ProcessCluster, java: MixedCluster, versions: dict[str, str]
) -> None:
    wanted = {f"{named}.plugin.version": version for named, version in versions.items()}
    results = []
    for side in (cluster, java):
        name, worker = unique_name("versioned"), side.alive[0]
        side.create(name, CONFIG | wanted | {"name": name, "topic": name})
        worker.wait_for_states(name, RUNNING)
        worker.wait_until("the record arrived", partial(has_records, side, name))
        status = worker.get(f"/connectors/{name}/status").body
        shown = (status["connector"]["version"], status["tasks"][0]["version"])
        results.append((shown, [each.value for each in side.records(name)]))
        side.delete(name)
    assert results[0] == results[1]
    connector = "1.0" if "connector" in versions else "2.0"
    assert results[0][0] == (connector, connector)


@pytest.mark.slow
def test_task_with_an_uninstalled_version_fails_and_lists_available_versions(
    kafka: Broker, tmp_path: Path, plugin_path: Path, worker_properties: dict[str, str]
) -> None:
    directory, name = tmp_path / "plugins", unique_name("gone")
    for plugin in ("faulty", *VERSIONS):  # the first has the shared workers' config provider
        shutil.copytree(plugin_path / plugin, directory / plugin)
    properties = {"plugin.path": str(directory), "mixed.group.missing.plugins": "fail-task"}
    with kraal_worker(tmp_path, kafka.bootstrap, worker_properties | properties) as own:
        worker = own.alive[0]
        own.create(name, CONFIG | {"name": name, "topic": name, "connector.plugin.version": "1.0"})
        worker.wait_for_states(name, RUNNING)
        assert worker.end() == 0
        shutil.rmtree(directory / "1.0")
        own.start_worker(0)
        wait_for_plugins(own.alive[0])
        own.wait_for_states(name, ["FAILED", "FAILED"])
        text = r"VersionedSource not found that matches the version range \[1\.0,1\.0\], available versions: \[2\.0\]"
        status = own.alive[0].get(f"/connectors/{name}/status").body
        for each in (status["connector"], *status["tasks"]):
            assert re.search(text, each["trace"]), each["trace"]

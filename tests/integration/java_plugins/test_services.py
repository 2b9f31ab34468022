"""Tests that config providers and an override policy in `plugin.path` behave the same on a Java worker and on Kraal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    FAULTY_SINK,
    FAULTY_SOURCE,
    FILE_SOURCE,
    POLICY,
    PROVIDER,
    RUNNING,
    append,
    faulty_config,
    plugin_jvm,
    unique_name,
    wait_for_values,
)


def write_values(values_file: Path, **values: str) -> None:
    """Write the values that the provider returns."""
    new_file = values_file.with_suffix(".fresh")
    new_file.write_text("".join(f"{key.replace('__', '.')}={value}\n" for key, value in values.items()))
    new_file.replace(values_file)


def make_variables(file: Path, *keys: str) -> dict[str, str]:
    """Return a config in which the value of each key is a variable of the same name."""
    return {key: f"${{rotating:{file}:{key}}}" for key in keys}


def test_provider_values_are_resolved_for_connectors(
    cluster: ProcessCluster, java_cluster: MixedCluster, tmp_path: Path
) -> None:
    values_file, lines = tmp_path / "kept.properties", tmp_path / "in.txt"
    append(lines, "one")
    for tested_cluster in (cluster, java_cluster):
        name, worker = unique_name("provided"), tested_cluster.alive[0]
        write_values(values_file, file=str(lines), topic=name)
        config = {
            "connector.class": FILE_SOURCE,
            "tasks.max": "1",
            **make_variables(values_file, "file", "topic"),
        }
        tested_cluster.create(name, config)
        worker.wait_for_states(name, RUNNING)
        wait_for_values(tested_cluster, name, ["one"])
        [task] = worker.get(f"/connectors/{name}/tasks").body
        assert {key: task["config"][key] for key in ("file", "topic")} == make_variables(
            values_file, "file", "topic"
        )
        tested_cluster.delete(name)


def test_provider_failure_fails_the_connector(cluster: ProcessCluster, tmp_path: Path) -> None:
    name, values_file, worker = unique_name("unprovided"), tmp_path / "kept.properties", cluster.alive[0]
    write_values(values_file, topic=name)
    cluster.create(name, faulty_config(name) | make_variables(values_file, "topic"))
    worker.wait_for_states(name, RUNNING)
    values_file.unlink()
    worker.post(f"/connectors/{name}/restart")
    worker.wait_until("the connector failed", lambda: worker.states(name)[0] == "FAILED")
    trace = worker.traces(name)[0]
    assert f"RuntimeError: The file {values_file} cannot be read" in trace
    assert "at kraal.testing.RotatingConfigProvider.get" in trace
    cluster.delete(name)


def test_source_uses_new_provider_values_after_the_old_ones_expire(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    name, values_file, lines = unique_name("rotated"), tmp_path / "kept.properties", tmp_path / "in.txt"
    append(lines, "one")
    write_values(values_file, topic=name, ttl__ms="1000")
    config = {"connector.class": FILE_SOURCE, "file": str(lines), **make_variables(values_file, "topic")}
    cluster.create(name, config)
    wait_for_values(cluster, name, ["one"])
    write_values(values_file, topic=f"{name}-2")

    def has_arrived() -> bool:
        append(lines, "more")
        return bool(cluster.values(f"{name}-2"))

    cluster.alive[0].wait_until("lines arrived in the new topic", has_arrived)
    cluster.delete(name)


def test_validation_of_provider_values_matches_java(
    cluster: ProcessCluster, java_cluster: MixedCluster, tmp_path: Path
) -> None:
    values_file = tmp_path / "kept.properties"
    write_values(values_file, batch__size="countless")
    config = {"name": "any", "connector.class": FILE_SOURCE, "topic": "t"}
    path = f"/connector-plugins/{FILE_SOURCE}/config/validate"
    for key in ("batch.size", "no.such.key"):
        invalid_config = config | {"batch.size": f"${{rotating:{values_file}:{key}}}"}
        counts = {
            tested_cluster.alive[0].put(path, invalid_config).body["error_count"]
            for tested_cluster in (cluster, java_cluster)
        }
        assert counts == {1}, key
    invalid_config = config | {"batch.size": f"${{rotating:{tmp_path}/none:x}}"}
    actual, expected = (
        tested_cluster.alive[0].put(path, invalid_config) for tested_cluster in (cluster, java_cluster)
    )
    assert (actual.status, expected.status) == (200, 500), "Kraal must return the error with its key"
    assert expected.body["message"].endswith(f"ConfigException: The file {tmp_path}/none cannot be read")
    (value,) = (entry["value"] for entry in actual.body["configs"] if entry["value"]["name"] == "batch.size")
    assert f"The file {tmp_path}/none cannot be read" in str(value["errors"])


def test_connector_can_be_created_after_the_jvm_was_killed(cluster: ProcessCluster, tmp_path: Path) -> None:
    name, values_file, worker = unique_name("waits"), tmp_path / "kept.properties", cluster.alive[0]
    write_values(values_file, topic=name)
    plugin_jvm(worker).kill()
    config = faulty_config(name) | make_variables(values_file, "topic")
    path = f"/connectors/{name}/config"
    # On a slow machine, requests return 503 with Retry-After until the next JVM is up.
    worker.wait_until("the next JVM responded", lambda: worker.put(path, config).status in {200, 201})
    worker.wait_for_states(name, RUNNING)
    assert worker.put(f"/connectors/{name}/pause").status == 202
    cluster.delete(name)


OVERRIDE_CONFIGS = [
    {"connector.class": FAULTY_SOURCE, "producer.override.linger.ms": "7"},
    {
        "connector.class": FAULTY_SOURCE,
        "producer.override.batch.size": "7",
        "producer.override.forbidden": "1,2",
    },
    {
        "connector.class": FAULTY_SOURCE,
        "producer.override.ssl.key.password": "x",
        "admin.override.forbidden": "y",
    },
    {
        "connector.class": FAULTY_SOURCE,
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "admin.override.bootstrap.servers": "a:1,b:2",
        "admin.override.forbidden": "y",
    },
    {"connector.class": FAULTY_SINK, "topics": "t", "consumer.override.forbidden": "x"},
    {
        "connector.class": FAULTY_SINK,
        "topics": "t",
        "errors.deadletterqueue.topic.name": "d",
        "producer.override.linger.ms": "7",
        "consumer.override.linger.ms": "7",
        "admin.override.forbidden": "z",
    },
]


@pytest.mark.parametrize("config", OVERRIDE_CONFIGS, ids=range(len(OVERRIDE_CONFIGS)))
def test_override_policy_validation_matches_java(
    cluster: ProcessCluster, java_cluster: MixedCluster, config: Mapping[str, str]
) -> None:
    request = {"name": unique_name("overrides"), "topic": "t", **config}

    def validate_overrides(worker: WorkerProcess) -> tuple[object, dict[str, object], object]:
        body: Any = worker.put(
            f"/connector-plugins/{config['connector.class']}/config/validate", request
        ).body
        values = {entry["value"]["name"]: entry for entry in body["configs"]}
        override_types = {
            n: e["definition"] and e["definition"]["type"] for n, e in values.items() if ".override." in n
        }
        return body["error_count"], override_types, {n: values[n]["value"] for n in override_types}

    actual, expected = validate_overrides(cluster.alive[0]), validate_overrides(java_cluster.alive[0])
    assert actual == expected
    assert expected[1]


def test_responses_for_configs_forbidden_by_the_override_policy_match_java(
    cluster: ProcessCluster, java_cluster: MixedCluster
) -> None:
    forbidden_config = faulty_config("t") | {"producer.override.linger.ms": "7"}
    failing_config = faulty_config("t") | {"producer.override.fail": "yes"}
    for config in (forbidden_config, failing_config):
        actual, expected = (
            tested_cluster.alive[0].post("/connectors", {"name": "refused", "config": config})
            for tested_cluster in (cluster, java_cluster)
        )
        assert (actual.status, actual.body["message"]) == (expected.status, expected.body["message"])


def test_responses_for_unlisted_providers_and_policies_match_java(
    cluster: ProcessCluster, java_cluster: MixedCluster
) -> None:
    for tested_cluster in (cluster, java_cluster):
        worker = tested_cluster.alive[0]
        listing = worker.get("/connector-plugins?connectorsOnly=false").body
        assert not {PROVIDER, POLICY} & {plugin["class"] for plugin in listing}
    for name in (PROVIDER, POLICY):
        actual, expected = (
            tested_cluster.alive[0].get(f"/connector-plugins/{name}/config")
            for tested_cluster in (cluster, java_cluster)
        )
        assert (actual.status, actual.body) == (expected.status, expected.body)

"""Tests that connectors that cannot run on a Spark cluster are rejected with an error for the key."""

from __future__ import annotations

from typing import Any

import pytest

from kraal.plugins.api import ConfigDef, Transformation
from kraal.plugins.entries import PluginKind
from kraal.plugins.registry import Registry
from kraal.plugins.validation.validate import validate_connector
from tests.fakes.workers.worker_config import Defaults

CLUSTER = {"spark.master": "spark://master:7077", "spark.cluster.shared.paths": "/mnt/a, /mnt/b"}
MIRROR = {
    "connector.class": "MirrorSource",
    "source.cluster.alias": "west",
    "source.cluster.bootstrap.servers": "west:1",
    "target.cluster.bootstrap.servers": "east:1",
    "key.converter": "ByteArrayConverter",
    "value.converter": "ByteArrayConverter",
    "header.converter": "ByteArrayConverter",
}
SINK = {"connector.class": "SparkSink", "topics": "t", "spark.format": "text"}
SOURCE = {"connector.class": "SparkSource", "topic": "t", "spark.format": "text"}
STREAM = {"connector.class": "SparkSource", "topic": "t", "spark.format": "rate"}
FILE_SINK = {"connector.class": "FileStreamSink", "topics": "t", "file": "/any/file"}
JAVA_TRANSFORM = "com.example.Change"


@pytest.fixture(scope="module")
def registry() -> Registry:
    """Return a registry with the installed plugins and a Java transform."""
    transform_class: Any = type("Made", (Transformation,), {"version": "1", "config_def": ConfigDef([])})
    return Registry.load().with_java({JAVA_TRANSFORM: [((PluginKind.TRANSFORMATION,), transform_class)]})


def cluster_errors(
    registry: Registry, config: dict[str, str], worker: dict[str, str]
) -> dict[str, list[str]]:
    """Return the errors caused by the cluster, by key."""

    def find_errors(raw: dict[str, str]) -> dict[str, list[str]]:
        infos = validate_connector(registry, Defaults(raw=raw), {"name": "c", **config})
        return {info.value.name: list(info.value.errors) for info in infos.configs if info.value.errors}

    local_errors, remote_errors = find_errors({}), find_errors(worker)
    return {
        key: new_errors
        for key, key_errors in remote_errors.items()
        if (new_errors := [error for error in key_errors if error not in local_errors.get(key, [])])
    }


@pytest.mark.parametrize(
    ("config", "key", "expected"),
    [
        (
            MIRROR | {"trigger": "realtime"},
            "trigger",
            "realtime needs a local Spark, because in real-time mode",
        ),
        (SINK | {"path": "s3a://bucket/x"}, "path", "uploads files that Spark wrote on the worker's machine"),
        (SINK | {"path": "/elsewhere/x"}, "path", "/elsewhere/x must be on a file system that the worker"),
        (
            SINK | {"path": "/mnt/a/../x"},
            "path",
            "spark.cluster.shared.paths in the worker's file, which contains",
        ),
        (SINK | {"path": "/mnt/a2"}, "path", "which contains /mnt/a, /mnt/b"),
        (SOURCE | {"path": "file:///srv/in"}, "path", "/srv/in must be on a file system"),
        (
            STREAM | {"checkpoint.location": "/ck"},
            "checkpoint.location",
            "/ck must be on a file system",
        ),
        (
            FILE_SINK | {"transforms": "a", "transforms.a.type": JAVA_TRANSFORM},
            "transforms.a.type",
            "com.example.Change is a Java plugin, which needs a local Spark",
        ),
    ],
)
def test_config_that_requires_local_spark_is_rejected_on_a_cluster(
    registry: Registry, config: dict[str, str], key: str, expected: str
) -> None:
    errors = cluster_errors(registry, config, CLUSTER)
    assert list(errors) == [key]
    assert expected in errors[key][-1]
    assert cluster_errors(registry, config, {"spark.master": "local[4]"}) == {}


@pytest.mark.parametrize(
    "config",
    [
        MIRROR,
        FILE_SINK,
        SINK | {"path": "/mnt/a/x"},
        SOURCE | {"path": "file:/mnt/b/*.txt"},
        SOURCE | {"path": "s3a://bucket/x"},
        STREAM | {"checkpoint.location": "/mnt/a"},
    ],
)
def test_config_for_a_cluster_is_accepted(registry: Registry, config: dict[str, str]) -> None:
    assert cluster_errors(registry, config, CLUSTER) == {}


def test_local_cluster_accepts_any_path_but_not_real_time_mode(registry: Registry) -> None:
    worker = {"spark.master": "local-cluster[2,1,512]"}
    assert cluster_errors(registry, SINK | {"path": "/elsewhere/x"}, worker) == {}
    assert list(cluster_errors(registry, MIRROR | {"trigger": "realtime"}, worker)) == ["trigger"]

"""Tests for the detection of local Spark masters and for the master addresses of a cluster."""

from __future__ import annotations

import pytest

from kraal.config.spark_master import (
    has_remote_executors,
    is_local,
    is_standalone,
    shared_paths,
    standalone_masters,
)
from kraal.config.worker.spark_cluster import cluster_errors

SPARK = {"spark.master": "spark://m:7077"}


@pytest.mark.parametrize(
    "master", ["local", "local[4]", "local[*]", "local[4,2]", "local[*,3]", " local[2] "]
)
def test_local_master_forms_are_detected(master: str) -> None:
    assert is_local({"spark.master": master})
    assert cluster_errors({"spark.master": master}) == []


@pytest.mark.parametrize(
    "master", ["local-cluster[2,1,512]", "spark://local:7077", "yarn", "k8s://h", "localhost"]
)
def test_cluster_masters_are_not_local(master: str) -> None:
    assert not is_local({"spark.master": master})


def test_default_master_is_local() -> None:
    assert is_local({})
    assert not has_remote_executors({})


def test_only_cluster_masters_have_remote_executors() -> None:
    assert has_remote_executors(SPARK)
    assert not has_remote_executors({"spark.master": "local-cluster[2,1,512]"})
    assert is_standalone(SPARK)
    assert not is_standalone({"spark.master": "yarn"})


def test_standalone_masters_returns_addresses() -> None:
    assert standalone_masters("spark://a:1,b:22,nowhere,[::1]:7077") == [("a", 1), ("b", 22), ("::1", 7077)]


def test_shared_paths_are_split() -> None:
    assert shared_paths({"spark.cluster.shared.paths": "/a, /b/c ,"}) == ["/a", "/b/c"]
    assert shared_paths({}) == []


def test_standalone_cluster_requires_secret() -> None:
    (error,) = cluster_errors(SPARK)
    assert error.startswith("spark.authenticate.secret is missing: spark://m:7077 requires the secret")
    assert cluster_errors({**SPARK, "spark.authenticate.secret": "s"}) == []
    assert cluster_errors({**SPARK, "spark.authenticate": "false"}) == []
    assert cluster_errors({"spark.master": "yarn"}) == []


def test_cluster_deploy_mode_is_rejected() -> None:
    (error,) = cluster_errors({"spark.master": "yarn", "spark.submit.deployMode": "cluster"})
    assert error.startswith("spark.submit.deployMode must be client")


def test_shared_paths_must_be_absolute() -> None:
    (error,) = cluster_errors({"spark.master": "yarn", "spark.cluster.shared.paths": "/a,b"})
    assert error == "spark.cluster.shared.paths has b, which is not an absolute path"

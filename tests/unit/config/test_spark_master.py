"""What counts as a local Spark, and where the masters of a cluster are."""

from __future__ import annotations

import pytest

from kraal.config.spark_master import (
    has_other_machines,
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
def test_tasks_run_in_the_workers_jvm(master: str) -> None:
    assert is_local({"spark.master": master})
    assert cluster_errors({"spark.master": master}) == []


@pytest.mark.parametrize(
    "master", ["local-cluster[2,1,512]", "spark://local:7077", "yarn", "k8s://h", "localhost"]
)
def test_tasks_run_in_other_processes(master: str) -> None:
    assert not is_local({"spark.master": master})


def test_without_a_setting_spark_is_local() -> None:
    assert is_local({})
    assert not has_other_machines({})


def test_only_a_local_cluster_has_all_executors_on_this_machine() -> None:
    assert has_other_machines(SPARK)
    assert not has_other_machines({"spark.master": "local-cluster[2,1,512]"})
    assert is_standalone(SPARK)
    assert not is_standalone({"spark.master": "yarn"})


def test_each_master_of_a_standalone_cluster_has_an_address() -> None:
    assert standalone_masters("spark://a:1,b:22,nowhere,[::1]:7077") == [("a", 1), ("b", 22), ("::1", 7077)]


def test_shared_paths_are_a_list() -> None:
    assert shared_paths({"spark.cluster.shared.paths": "/a, /b/c ,"}) == ["/a", "/b/c"]
    assert shared_paths({}) == []


def test_a_standalone_cluster_requires_its_secret() -> None:
    (error,) = cluster_errors(SPARK)
    assert error.startswith("spark.authenticate.secret is missing: with spark://m:7077 it must be")
    assert cluster_errors({**SPARK, "spark.authenticate.secret": "s"}) == []
    assert cluster_errors({**SPARK, "spark.authenticate": "false"}) == []
    assert cluster_errors({"spark.master": "yarn"}) == []


def test_the_driver_runs_in_the_worker() -> None:
    (error,) = cluster_errors({"spark.master": "yarn", "spark.submit.deployMode": "cluster"})
    assert error.startswith("spark.submit.deployMode must be client")


def test_shared_paths_are_absolute() -> None:
    (error,) = cluster_errors({"spark.master": "yarn", "spark.cluster.shared.paths": "/a,b"})
    assert error == "spark.cluster.shared.paths has b, which is not an absolute path"

"""What the session's JVM is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.engine.session.session import scratch_directory
from kraal.engine.session.settings import prepare_environment, spark_settings, with_lane_slot


def test_removes_files_of_a_killed_jvm_before_the_next_start(tmp_path: Path) -> None:
    scratch = tmp_path / "a scratch"
    prepare_environment(scratch)
    local = Path(spark_settings({}, (), scratch)["spark.local.dir"])
    (local / "blockmgr-1" / "0c").mkdir(parents=True)
    (local / "libnative.so").touch()
    prepare_environment(scratch)
    assert local.is_relative_to(scratch)
    assert list(local.iterdir()) == []
    assert f'"-Djava.io.tmpdir={local}"' in spark_settings({}, (), scratch)["spark.driver.extraJavaOptions"]


def test_a_local_directory_of_the_users_own_is_left_alone(tmp_path: Path) -> None:
    directory = tmp_path / "mine"
    worker = {"spark.local.dir": str(directory)}
    (directory / "blockmgr-1").mkdir(parents=True)
    prepare_environment(tmp_path / "scratch")
    assert spark_settings(worker, (), tmp_path / "scratch")["spark.local.dir"] == str(directory)
    assert (directory / "blockmgr-1").exists()


def test_a_cluster_of_sparks_own_has_its_own_directories(tmp_path: Path) -> None:
    settings = spark_settings({"spark.master": "spark://somewhere:7077"}, (), tmp_path)
    assert "spark.local.dir" not in settings
    assert "java.io.tmpdir" not in settings["spark.driver.extraJavaOptions"]


def test_the_archive_of_sparks_classes_is_used_where_there_is_one(tmp_path: Path) -> None:
    archive = tmp_path / "an archive.jsa"
    options = spark_settings({}, (), tmp_path, archive)["spark.driver.extraJavaOptions"]
    assert f'"-XX:SharedArchiveFile={archive}"' in options
    assert "SharedArchiveFile" not in spark_settings({}, (), tmp_path)["spark.driver.extraJavaOptions"]


def test_the_jvm_uses_no_token_endpoint_that_the_operator_does_not_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, url = "org.apache.kafka.sasl.oauthbearer.allowed.urls", "https://id.example/token"
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    assert f'"-D{name}="' in spark_settings({}, (), tmp_path)["spark.driver.extraJavaOptions"]
    worker = {"sasl.oauthbearer.token.endpoint.url": url}
    assert f'"-D{name}={url}"' in spark_settings(worker, (), tmp_path)["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", ("local[2]", 1)),
        ("local[4]", ("local[5]", 4)),
        ("local[*]", ("local[9]", 8)),
        ("local[4,2]", ("local[5,2]", 4)),
        ("local-cluster[2,1,1024]", ("local-cluster[2,1,1024]", 8)),
    ],
)
def test_the_lane_has_a_core_slot_in_addition(master: str, expected: tuple[str, int]) -> None:
    assert with_lane_slot(master, 8) == expected


def test_jobs_have_as_many_partitions_by_default_as_without_a_lane(tmp_path: Path) -> None:
    settings = spark_settings({"spark.master": "local[4]"}, (), tmp_path)
    assert (settings["spark.master"], settings["spark.default.parallelism"]) == ("local[5]", "4")
    settings = {"spark.master": "local[4]", "spark.default.parallelism": "7"}
    assert spark_settings(settings, (), tmp_path)["spark.default.parallelism"] == "7"
    assert (
        spark_settings({"spark.master": "spark://h:7077"}, (), tmp_path)["spark.master"] == "spark://h:7077"
    )


def test_files_of_a_relative_directory_are_given_to_the_jvm_by_their_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = spark_settings(
        {"spark.master": "local[2]"}, [], scratch_directory("offsets.kraal/scratch"), None
    )
    assert (
        f"configurationFile={tmp_path.as_uri()}/offsets.kraal/" in settings["spark.driver.extraJavaOptions"]
    )

"""Tests for the settings and the local directory of the Spark session's JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.engine.session.session import make_scratch_directory
from kraal.engine.session.settings import prepare_environment, spark_settings, with_lane_slot


def test_files_of_a_killed_jvm_are_removed_at_the_next_start(tmp_path: Path) -> None:
    scratch = tmp_path / "a scratch"
    prepare_environment(scratch)
    local = Path(spark_settings({}, (), scratch)["spark.local.dir"])
    (local / "blockmgr-1" / "0c").mkdir(parents=True)
    (local / "libnative.so").touch()
    prepare_environment(scratch)
    assert local.is_relative_to(scratch)
    assert list(local.iterdir()) == []
    assert f'"-Djava.io.tmpdir={local}"' in spark_settings({}, (), scratch)["spark.driver.extraJavaOptions"]


def test_configured_local_directory_is_kept(tmp_path: Path) -> None:
    directory = tmp_path / "configured"
    worker = {"spark.local.dir": str(directory)}
    (directory / "blockmgr-1").mkdir(parents=True)
    prepare_environment(tmp_path / "scratch")
    assert spark_settings(worker, (), tmp_path / "scratch")["spark.local.dir"] == str(directory)
    assert (directory / "blockmgr-1").exists()


def test_local_directory_is_not_set_for_a_cluster(tmp_path: Path) -> None:
    settings = spark_settings({"spark.master": "spark://somewhere:7077"}, (), tmp_path)
    assert "spark.local.dir" not in settings
    assert "java.io.tmpdir" not in settings["spark.driver.extraJavaOptions"]


def test_class_archive_is_used_if_present(tmp_path: Path) -> None:
    archive = tmp_path / "an archive.jsa"
    options = spark_settings({}, (), tmp_path, archive)["spark.driver.extraJavaOptions"]
    assert f'"-XX:SharedArchiveFile={archive}"' in options
    assert "SharedArchiveFile" not in spark_settings({}, (), tmp_path)["spark.driver.extraJavaOptions"]


def test_jvm_is_restricted_to_allowed_token_endpoints(
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
def test_lane_has_an_additional_task_slot(master: str, expected: tuple[str, int]) -> None:
    assert with_lane_slot(master, 8) == expected


def test_default_parallelism_does_not_include_the_lane_slot(tmp_path: Path) -> None:
    settings = spark_settings({"spark.master": "local[4]"}, (), tmp_path)
    assert (settings["spark.master"], settings["spark.default.parallelism"]) == ("local[5]", "4")
    worker = {"spark.master": "local[4]", "spark.default.parallelism": "7"}
    assert spark_settings(worker, (), tmp_path)["spark.default.parallelism"] == "7"
    assert (
        spark_settings({"spark.master": "spark://h:7077"}, (), tmp_path)["spark.master"] == "spark://h:7077"
    )


def test_jvm_receives_absolute_paths_for_a_relative_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = spark_settings(
        {"spark.master": "local[2]"}, [], make_scratch_directory("offsets.kraal/scratch"), None
    )
    assert (
        f"configurationFile={tmp_path.as_uri()}/offsets.kraal/" in settings["spark.driver.extraJavaOptions"]
    )

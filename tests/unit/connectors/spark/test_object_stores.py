from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from kraal.config.key import ConfigDef
from kraal.connectors.spark import object_stores
from kraal.connectors.spark.object_stores import HADOOP_VERSION, normalize_object_url, register_jars
from kraal.connectors.spark.sink_config import SPARK_SINK
from kraal.connectors.spark.source_config import SPARK_SOURCE


@pytest.fixture(autouse=True)
def _no_registered_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "_registered_schemes", set())


def test_hadoop_version_matches_pyspark() -> None:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    assert (jars / f"hadoop-client-api-{HADOOP_VERSION}.jar").exists()


@pytest.mark.parametrize("definition", [SPARK_SOURCE, SPARK_SINK])
def test_validation_without_jars_names_the_missing_jar(definition: ConfigDef) -> None:
    def errors() -> str:
        config = {"spark.format": "text", "path": "s3a://bucket/x", "topic": "t"}
        return "".join(next(value.errors for value in definition.validate(config) if value.name == "path"))

    assert f"kraal plugins add org.apache.hadoop:hadoop-aws:{HADOOP_VERSION}" in errors()
    register_jars(["/plugins/org.apache.hadoop__hadoop-aws__3.5.0.jar"])
    assert errors() == ""


@pytest.mark.parametrize(
    "jar",
    [
        "/cache/org.apache.hadoop__hadoop-aws__3.5.0.jar",
        "https://jars/hadoop-aws-3.5.0.jar",
        "org.apache.hadoop:hadoop-aws:3.5.0",
    ],
)
def test_register_jars_accepts_files_urls_and_coordinates(jar: str) -> None:
    register_jars([jar])
    assert normalize_object_url("s3a://bucket/a b/") == "s3a://bucket/a b"


@pytest.mark.parametrize("jar", ["", "/x/my-hadoop-aws-tools.jar", "/hadoop-aws-3.5.0/other.jar"])
def test_register_jars_ignores_other_jars(jar: str) -> None:
    register_jars([jar])
    with pytest.raises(ValueError, match="has no hadoop-aws"):
        normalize_object_url("s3a://bucket/x")


@pytest.mark.parametrize("text", ["s3a:", "s3a://", "s3a:///x", "s3a:/bucket/x", "s3a://b/x\ny"])
def test_normalize_object_url_rejects_invalid_urls(text: str) -> None:
    register_jars(["hadoop-aws-3.5.0.jar"])
    with pytest.raises(ValueError, match="it must be s3a://BUCKET"):
        normalize_object_url(text)

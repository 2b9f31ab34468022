from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from kraal.config.key import ConfigDef
from kraal.connectors.spark import object_stores
from kraal.connectors.spark.object_stores import HADOOP, object_address, offer
from kraal.connectors.spark.sink_config import SPARK_SINK
from kraal.connectors.spark.source_config import SPARK_SOURCE


@pytest.fixture(autouse=True)
def _nothing_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "_offered", set())


def test_the_version_that_is_named_is_that_of_sparks_hadoop() -> None:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    assert (jars / f"hadoop-client-api-{HADOOP}.jar").exists()


@pytest.mark.parametrize("definition", [SPARK_SOURCE, SPARK_SINK])
def test_without_the_jars_the_check_of_a_config_says_what_to_add(definition: ConfigDef) -> None:
    def errors() -> str:
        config = {"spark.format": "text", "path": "s3a://bucket/x", "topic": "t"}
        return "".join(next(value.errors for value in definition.validate(config) if value.name == "path"))

    assert f"kraal plugins add org.apache.hadoop:hadoop-aws:{HADOOP}" in errors()
    offer(["/plugins/org.apache.hadoop__hadoop-aws__3.5.0.jar"])
    assert errors() == ""


@pytest.mark.parametrize(
    "jar",
    [
        "/cache/org.apache.hadoop__hadoop-aws__3.5.0.jar",
        "https://jars/hadoop-aws-3.5.0.jar",
        "org.apache.hadoop:hadoop-aws:3.5.0",
    ],
)
def test_jars_are_known_by_files_addresses_and_coordinates(jar: str) -> None:
    offer([jar])
    assert object_address("s3a://bucket/a b/") == "s3a://bucket/a b"


@pytest.mark.parametrize("jar", ["", "/x/my-hadoop-aws-tools.jar", "/hadoop-aws-3.5.0/other.jar"])
def test_other_jars_offer_nothing(jar: str) -> None:
    offer([jar])
    with pytest.raises(ValueError, match="has no hadoop-aws"):
        object_address("s3a://bucket/x")


@pytest.mark.parametrize("text", ["s3a:", "s3a://", "s3a:///x", "s3a:/bucket/x", "s3a://b/x\ny"])
def test_rejects_an_invalid_address(text: str) -> None:
    offer(["hadoop-aws-3.5.0.jar"])
    with pytest.raises(ValueError, match="it must be s3a://BUCKET"):
        object_address(text)

"""Tests for the validation of SparkSource and SparkSink configs, which does not use Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from kraal.config.key import ConfigDef
from kraal.connectors.spark.checks import parse_local_path, parse_options
from kraal.connectors.spark.sink import SparkSinkConnector
from kraal.connectors.spark.sink_config import SPARK_SINK
from kraal.connectors.spark.source import SparkSourceConnector
from kraal.connectors.spark.source_config import SPARK_SOURCE
from kraal.plugins.registry import Registry
from kraal.plugins.validation.validate import validate_for_rest
from tests.fakes.workers.examples import FOLDER, example
from tests.fakes.workers.worker_config import Defaults

BYTES_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
WORKER = Defaults(key_converter=BYTES_CONVERTER, value_converter=BYTES_CONVERTER)


def find_errors(definition: ConfigDef, config: Mapping[str, str]) -> dict[str, str]:
    return {value.name: "; ".join(value.errors) for value in definition.validate(config) if value.errors}


def source(**changes: str) -> dict[str, str]:
    config = {"spark.format": "text", "path": "/", "topic": "t"}
    config |= {name.replace("_", "."): value for name, value in changes.items()}
    return {name: value for name, value in config.items() if value}


FORMATS = "json, csv, parquet, orc, text, jdbc, python"
KNOWN_FORMATS = f"String must be one of: {FORMATS}, or a stream-only format, such as rate"
CHECKPOINT = f"{tempfile.gettempdir()}/checkpoint"
STREAM = {"spark_format": "rate", "path": "", "checkpoint_location": CHECKPOINT}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (source(), {}),
        (
            source(spark_format="avro"),
            {"spark.format": f"Invalid value avro for configuration spark.format: {KNOWN_FORMATS}"},
        ),
        (source(path=""), {"path": "Invalid value null for configuration path: it is required with spark.format=text"}),
        (
            source(path="/no/such/dir/*.txt"),
            {
                "path": "Invalid value /no/such/dir/*.txt for configuration path: /no/such/dir does not exist on "
                "this worker"
            },
        ),
        (source(path="x"), {"path": "Invalid value x for configuration path: it must be an absolute path"}),
        (
            source(path="gs://bucket/x"),
            {
                "path": "Invalid value gs://bucket/x for configuration path: the scheme gs: is not supported; "
                "use a path of a mounted file system, or a file: or s3a: URL"
            },
        ),
        (
            source(spark_format="csv"),
            {"spark.schema": "Invalid value null for configuration spark.schema: it is required with spark.format=csv"},
        ),
        (
            source(spark_format="json", spark_schema="id INTT"),
            {
                "spark.schema": "Invalid value id INTT for configuration spark.schema: it is not a schema in Spark's "
                "DDL: the column id has the unknown type INTT; use boolean, tinyint, smallint, int, bigint, "
                "float, double, decimal(p,s), string, char(n), varchar(n), binary, date, timestamp, timestamp_ntz, "
                "array<…>, map<…,…>, struct<name: type, …>"
            },
        ),
        (
            source(topic=""),
            {
                "topic": "Invalid value null for configuration topic: exactly one of topic, topic.column and "
                "topic.prefix (with jdbc) is required; got none"
            },
        ),
        (
            source(spark_format="json", spark_schema="id INT", key_columns="idd"),
            {
                "key.columns": "Invalid value [idd] for configuration key.columns: spark.schema has no column idd; "
                "its columns are id"
            },
        ),
        (
            source(spark_format="json", key_columns="id"),
            {
                "key.columns": "Invalid value [id] for configuration key.columns: it requires spark.schema"
            },
        ),
        (
            source(spark_format="jdbc", path="", jdbc_tables="a;b", jdbc_mode="timestamp"),
            {
                "jdbc.tables": "Invalid value [a;b] for configuration jdbc.tables: 'a;b' is not a valid table or "
                "column name; names with special characters must be quoted",
                "jdbc.timestamp.column": "Invalid value null for configuration jdbc.timestamp.column: it is required "
                "with jdbc.mode=timestamp",
            },
        ),
        (
            source(spark_format="python", path="", spark_python_datasource="no_such_package.x:Y"),
            {
                "spark.python.datasource": "Invalid value no_such_package.x:Y for configuration "
                "spark.python.datasource: no package no_such_package is installed on this worker"
            },
        ),
        (
            source(jdbc_tables="a"),
            {
                "jdbc.tables": "Invalid value [a] for configuration jdbc.tables: it is only valid with "
                "spark.format jdbc, not with text"
            },
        ),
        (source(**STREAM), {}),
        (source(**{**STREAM, "spark_format": "rate-micro-batch"}), {}),
        (
            source(**{**STREAM, "checkpoint_location": ""}),
            {
                "checkpoint.location": "Invalid value null for configuration checkpoint.location: it is required with "
                "spark.format=rate, which is read as a stream"
            },
        ),
        (
            source(**{**STREAM, "checkpoint_location": "hdfs://h/x", "path": "/"}),
            {
                "checkpoint.location": "Invalid value hdfs://h/x for configuration checkpoint.location: the scheme "
                "hdfs: is not supported; use a path of a mounted file system, or a file: URL",
                "path": "Invalid value / for configuration path: it is only valid with spark.format json, csv, "
                "parquet, orc, text, not with rate",
            },
        ),
        (
            source(**{**STREAM, "checkpoint_location": "s3a://bucket/x"}),
            {
                "checkpoint.location": "Invalid value s3a://bucket/x for configuration checkpoint.location: the scheme "
                "s3a: is not supported; use a path of a mounted file system, or a file: URL"
            },
        ),
        (
            source(checkpoint_location=CHECKPOINT),
            {
                "checkpoint.location": f"Invalid value {CHECKPOINT} for configuration checkpoint.location: it is "
                "only valid with stream-only formats, not with text"
            },
        ),
        (
            source(**{**STREAM, "spark_format": "kafka"}),
            {
                "spark.format": "Invalid value kafka for configuration spark.format: kafka is not supported: "
                "MirrorSource copies topics"
            },
        ),
        (
            source(**{**STREAM, "spark_format": "Rate"}),
            {"spark.format": f"Invalid value Rate for configuration spark.format: {KNOWN_FORMATS}"},
        ),
    ],
)  # fmt: skip
def test_source_config_errors_are_reported(config: Mapping[str, str], expected: Mapping[str, str]) -> None:
    assert find_errors(SPARK_SOURCE, config) == expected


def test_sink_config_errors_are_reported(tmp_path: Path) -> None:
    valid_config = {"spark.format": "parquet", "path": str(tmp_path / "new" / "folder")}
    assert find_errors(SPARK_SINK, valid_config) == {}
    (tmp_path / "file").write_text("")
    path = str(tmp_path / "file")
    assert find_errors(SPARK_SINK, {**valid_config, "path": path, "metadata.columns": "offset,value"}) == {
        "path": f"Invalid value {path} for configuration path: {path} is not a directory",
        "metadata.columns": "Invalid value [offset, value] for configuration metadata.columns: Entries must be "
        "distinct, and each one of: topic, partition, offset, timestamp, key",
    }
    assert find_errors(SPARK_SINK, {**valid_config, "spark.format": "text", "spark.schema": "a INT"}) == {
        "spark.schema": "Invalid value a INT for configuration spark.schema: spark.format=text writes one column, of "
        "type string"
    }
    assert set(find_errors(SPARK_SINK, {"spark.format": "jdbc", "jdbc.table": "(select 1) x"})) == {
        "jdbc.table"
    }


def test_sink_delivery_guarantees_are_validated(tmp_path: Path) -> None:
    exactly_once = {"delivery.guarantee": "exactly_once"}
    table_config = {"spark.format": "jdbc", "jdbc.table": "got", **exactly_once}
    assert find_errors(SPARK_SINK, table_config) == {}
    assert find_errors(SPARK_SINK, {"spark.format": "orc", "path": str(tmp_path), **exactly_once}) == {}
    assert set(find_errors(SPARK_SINK, {**table_config, "jdbc.offsets.table": "o; DROP TABLE o"})) == {
        "jdbc.offsets.table"
    }
    python_config = {
        "spark.format": "python",
        "spark.python.datasource": "tests.fakes.spark.data_sources:Folder",
    }
    assert find_errors(SPARK_SINK, {**python_config, **exactly_once}) == {
        "delivery.guarantee": "Invalid value exactly_once for configuration delivery.guarantee: a Python Data Source "
        "commits on its own, before the offsets are committed"
    }


KEYED = {
    "spark.format": "jdbc",
    "spark.option.url": "jdbc:postgresql://localhost/shop",
    "jdbc.table": "t",
    "write.mode": "upsert",
}


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({}, "", ""),
        ({"write.mode": "cdc", "id.columns": "id", "schema.evolution": "evolve"}, "", ""),
        (
            {"spark.format": "python"},
            "write.mode",
            "it is only valid with spark.format jdbc, not with python",
        ),
        (
            {"spark.schema": "n INT"},
            "write.mode",
            "the columns are the fields of the records, so spark.schema must",
        ),
        (
            {"spark.option.url": "jdbc:oracle:thin:@//localhost/x"},
            "write.mode",
            "write.mode=upsert requires PostgreSQL, MySQL or MariaDB, but spark.option.url starts with jdbc:oracle:",
        ),
        (
            {"spark.option.url": "jdbc:mariadb://localhost/x"},
            "write.mode",
            "Use jdbc:mysql:…?permitMysqlScheme and set spark.option.driver=org.mariadb.jdbc.Driver",
        ),
        (
            {"schema.evolution": "dead-letter"},
            "schema.evolution",
            "requires errors.tolerance=all and errors.dead",
        ),
    ],
)
def test_changes_by_key_are_validated(changes: Mapping[str, str], key: str, message: str) -> None:
    values = SparkSinkConnector.validate({**KEYED, **changes})
    errors = {value.name: "; ".join(value.errors) for value in values if value.errors}
    assert message in errors.get(key, "")
    assert bool(key) == (key in errors)
    assert changes.get("spark.format") or set(errors) <= {key}


@pytest.mark.parametrize("option", ["query", "dbTable", "sessionInitStatement", "path"])
def test_options_with_sql_or_config_keys_are_rejected(option: str) -> None:
    with pytest.raises(ValueError, match=rf"the option spark\.option\.{option} is not allowed: "):
        parse_options({f"spark.option.{option}": "x"})
    assert parse_options({"spark.option.fetchsize": "7", "spark.format": "jdbc"}) == {"fetchsize": "7"}


@pytest.mark.parametrize("text", ["/a b", "file:/a b", "file:///a b"])
def test_parse_local_path_accepts_paths_and_file_urls(text: str) -> None:
    assert parse_local_path(text) == "/a b"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("spark-*.properties")), ids=lambda path: path.stem)
def test_example_configs_are_valid(path: Path, tmp_path: Path) -> None:
    config = example(path.stem, {})
    if "path" in config:
        config["path"] = str(tmp_path)
    if "spark.python.datasource" in config:
        config["spark.python.datasource"] = "tests.fakes.spark.data_sources:Numbers"
    if "checkpoint.location" in config:
        config["checkpoint.location"] = str(tmp_path / "checkpoint")
    definition = SPARK_SINK if "sink" in path.stem else SPARK_SOURCE
    assert find_errors(definition, config) == {}
    assert {key for key in config if key.startswith(("jdbc", "spark", "path", "topic"))} <= {
        *(key.name for key in definition),
        *(key for key in config if key.startswith("spark.option.")),
        "topics",
    }


def test_rest_validation_reports_connector_errors() -> None:
    config = {"connector.class": "SparkSource", "name": "x", "spark.format": "csv", "path": "/nowhere/x"}
    registry = Registry.of({"kraal.connectors.spark_source.SparkSourceConnector": SparkSourceConnector})
    response = validate_for_rest(registry, WORKER, "SparkSource", config)
    errors_by_key = {info.value.name: info.value.errors for info in response.configs if info.value.errors}
    assert {"path", "spark.schema", "topic"} <= set(errors_by_key)


def test_validation_lists_configured_spark_and_batch_settings() -> None:
    registry = Registry.of({"kraal.connectors.spark_source.SparkSourceConnector": SparkSourceConnector})
    config = {"connector.class": "SparkSource", "name": "x", **source()}
    default_keys = {
        info.value.name for info in validate_for_rest(registry, WORKER, "SparkSource", config).configs
    }
    expected = {
        "spark.sql.files.ignoreMissingFiles": "true",
        "spark.sql.session.timeZone": "CET",
        "max.records.per.batch": "none",
    }
    response = validate_for_rest(registry, WORKER, "SparkSource", {**config, **expected})
    assert {info.value.name for info in response.configs} - default_keys == expected.keys()
    errors_by_key = {
        info.value.name: info.value.errors for info in response.configs if info.value.name in expected
    }
    assert [name for name, errors in errors_by_key.items() if errors] == [
        "max.records.per.batch",
        "spark.sql.session.timeZone",
    ]
    assert errors_by_key["max.records.per.batch"] == (
        "Invalid value none for configuration max.records.per.batch: Not a number of type INT",
    )

"""Tests that a connector's batch settings override the worker's, and that unsafe Spark settings are rejected."""

from __future__ import annotations

import pytest

from kraal.config.connector.batches import Batches, batch_keys, parse_batches, sql_settings
from kraal.config.key import ConfigDef, ConfigType, Key
from kraal.connectors.file.config import FILE_SOURCE

CODEC = "spark.sql.parquet.compression.codec"
COMMITTER = "spark.sql.parquet.output.committer.class"
SPARK_SETTING_ERROR = (
    "A connector may set spark.sql.avro.*, spark.sql.files.*, spark.sql.orc.*, spark.sql.parquet.*, but not classes; "
    "set other Spark settings in the worker's config"
)


@pytest.mark.parametrize(
    ("connector", "worker", "expected"),
    [
        ({}, {}, Batches(poll_s=None, max_records=1_000_000)),
        ({}, {"max.records.per.batch": "7", "poll.interval.ms": "9"}, Batches(max_records=7)),
        (
            {"max.records.per.batch": "5", "poll.interval.ms": "250"},
            {"max.records.per.batch": "7"},
            Batches(poll_s=0.25, max_records=5),
        ),
        ({"max.records.per.batch": "0", "poll.interval.ms": "x"}, {}, Batches()),
        ({"max.records.per.batch": "10000001"}, {"max.records.per.batch": "7"}, Batches(max_records=7)),
    ],
)
def test_connector_value_overrides_worker_and_invalid_values_are_ignored(
    connector: dict[str, str], worker: dict[str, str], expected: Batches
) -> None:
    assert parse_batches(connector, worker) == expected


@pytest.mark.parametrize(
    ("connector", "worker", "plain_s", "transactional_s"),
    [
        ({}, {}, 0.035, 0.4),
        ({}, {"batch.linger.ms": "500"}, 0.5, 0.5),
        ({"batch.linger.ms": "0"}, {"batch.linger.ms": "500"}, 0.0, 0.0),
    ],
)
def test_default_linger_is_longer_with_transactions(
    connector: dict[str, str], worker: dict[str, str], plain_s: float, transactional_s: float
) -> None:
    assert parse_batches(connector, worker).linger_s == plain_s
    assert parse_batches(connector, worker, transactional=True).linger_s == transactional_s


def test_responses_contain_only_configured_keys() -> None:
    assert batch_keys({"file": "f"}, FILE_SOURCE) == []
    config: dict[str, str | None] = {"poll.interval.ms": "5", CODEC: "gzip", "spark.option.a": "b"}
    assert [key.name for key in batch_keys(config, FILE_SOURCE)] == ["poll.interval.ms", CODEC]


def test_plugin_key_replaces_batch_key() -> None:
    plugin = ConfigDef([Key(name="poll.interval.ms", type=ConfigType.STRING, doc="whatever")])
    assert batch_keys({"poll.interval.ms": "5"}, plugin) == []


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        (CODEC, "gzip", None),
        ("spark.sql.files.ignoreMissingFiles", "true", None),
        (
            "spark.sql.session.timeZone",
            "CET",
            f"Invalid value CET for configuration spark.sql.session.timeZone: {SPARK_SETTING_ERROR}",
        ),
        (
            COMMITTER,
            "evil.Code",
            f"Invalid value evil.Code for configuration {COMMITTER}: {SPARK_SETTING_ERROR}",
        ),
        (
            "max.records.per.batch",
            "0",
            "Invalid value 0 for configuration max.records.per.batch: Value must be at least 1",
        ),
        (
            "poll.interval.ms",
            "0",
            "Invalid value 0 for configuration poll.interval.ms: Value must be at least 1",
        ),
    ],
)
def test_batch_values_are_validated(name: str, value: str, error: str | None) -> None:
    config: dict[str, str | None] = {name: value}
    (config_value,) = ConfigDef(batch_keys(config, FILE_SOURCE)).validate(config)
    assert list(config_value.errors) == ([] if error is None else [error])
    if name.startswith("spark."):
        assert sql_settings({name: value}) == ({} if error else {name: value})

"""Tests for the keys of Apache Iceberg's sink connector."""

from __future__ import annotations

from kraal.connectors.tables.iceberg_keys import translate_keys
from kraal.connectors.tables.sink import IcebergSinkConnector

CATALOG = {
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "https://catalog",
    "iceberg.catalog.warehouse": "lake",
}


def test_config_of_icebergs_sink_is_valid_and_means_the_same() -> None:
    config = {
        **CATALOG,
        "topics": "events",
        "iceberg.tables": "default.events",
        "iceberg.tables.default-id-columns": "id",
        "iceberg.tables.default-partition-by": "days(ts), bucket(id, 16)",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.tables.auto-create-props.write.format.default": "parquet",
        "iceberg.tables.evolve-schema-enabled": "false",
        "iceberg.tables.upsert-mode-enabled": "true",
        "iceberg.control.commit.interval-ms": "60000",
    }
    translated = translate_keys(config)
    assert {name: value for name, value in translated.items() if name not in config} == {
        "table": "default.events",
        "id.columns": "id",
        "partition.by": "days(ts), bucket(id, 16)",
        "table.properties.write.format.default": "parquet",
        "schema.evolution": "ignore",
        "write.mode": "upsert",
        "commit.interval.ms": "60000",
    }
    values = {value.name: value for value in IcebergSinkConnector.validate(config)}
    assert {name: value.errors for name, value in values.items() if value.errors} == {}
    assert values["table"].value == "default.events"


def test_route_field_names_the_table() -> None:
    config = {
        **CATALOG,
        "iceberg.tables.dynamic-enabled": "true",
        "iceberg.tables.route-field": "db_table",
        "iceberg.tables.evolve-schema-enabled": "true",
    }
    translated = translate_keys(config)
    assert (translated["table"], translated["table.route.field"]) == ("${route}", "db_table")
    assert translated["schema.evolution"] == "evolve"
    errors = {value.name: value.errors for value in IcebergSinkConnector.validate(config) if value.errors}
    assert errors == {}


def test_own_keys_take_precedence() -> None:
    assert translate_keys({"table": "a.b", "iceberg.tables": "c.d"})["table"] == "a.b"
    assert translate_keys({"x": None}) == {"x": None}

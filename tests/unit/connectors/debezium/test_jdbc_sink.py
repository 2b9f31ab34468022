"""Tests for the settings of Debezium's JDBC sink that a proof reads."""

from __future__ import annotations

import pytest

from kraal.connectors.debezium.jdbc_sink import parse_settings
from kraal.connectors.tables.settings import APPEND, CDC
from kraal.plugins.api import NotComparable

UPSERT = {
    "topics": "shop.public.orders",
    "connection.url": "jdbc:postgresql://localhost/shop",
    "insert.mode": "upsert",
    "primary.key.mode": "record_key",
}


def test_defaults_name_the_table_like_the_topic_and_keep_deleted_rows() -> None:
    settings = parse_settings(UPSERT)
    assert (settings.table, settings.deletes, settings.truncates) == ("shop_public_orders", False, False)
    assert (settings.changes.mode, settings.changes.id_columns) == (CDC, ())


def test_settings_of_the_table_and_the_key_are_read() -> None:
    settings = parse_settings(
        {
            **UPSERT,
            "collection.name.format": "sales.${topic}",
            "quote.identifiers": "true",
            "delete.enabled": "true",
            "truncate.enabled": "TRUE",
            "primary.key.mode": "record_value",
            "primary.key.fields": "id, region",
        }
    )
    assert (settings.table, settings.deletes, settings.truncates) == (
        '"sales"."shop_public_orders"',
        True,
        True,
    )
    assert settings.changes.id_columns == ("id", "region")


def test_inserted_rows_are_compared_one_by_one() -> None:
    config = {key: value for key, value in UPSERT.items() if not key.endswith(".mode")}
    assert parse_settings(config).changes.mode == APPEND


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"connection.url": "jdbc:mysql://localhost/shop"}, "only tables in PostgreSQL"),
        ({"connection.url": ""}, "only tables in PostgreSQL"),
        ({"topics": "a,b"}, "this connector writes several"),
        ({"topics": "", "topics.regex": "a.*"}, "this connector writes several"),
        ({"collection.name.format": "${source.table}"}, "may be several"),
        ({"insert.mode": "update"}, "does not support insert.mode=update"),
        ({"insert.mode": "insert", "delete.enabled": "true"}, "does not support insert.mode=insert"),
        ({"insert.mode": "insert", "truncate.enabled": "true"}, "does not support insert.mode=insert"),
        ({"primary.key.mode": "kafka"}, "with primary.key.mode=kafka"),
        ({"primary.key.mode": "record_value"}, "requires primary.key.fields"),
        ({"field.include.list": "t:id"}, "does not support field.include.list"),
    ],
)
def test_unsupported_configs_are_refused_with_the_reason(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(NotComparable, match=reason):
        parse_settings(UPSERT | changes)

"""Tests for the tables and columns that are compared, and for the queries of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kraal.connectors.debezium.catalog import CapturedTable, find_tables
from kraal.connectors.debezium.rows import make_query
from tests.unit.connectors.debezium.config import make_capture

OLD_TYPES = {"int4": "integer", "int8": "bigint", "text": "text", "interval": "interval", "uuid": "uuid"}


def column(name: str, type_name: str, key_position: int | None = None, **fields: Any) -> dict[str, Any]:
    """Return a row of the catalog."""
    return {
        "schema_name": "public",
        "table_name": "orders",
        "table_kind": "r",
        "is_partition": False,
        "column_name": name,
        "type_name": type_name,
        "type_kind": "b",
        "modifier": -1,
        "declared_type": OLD_TYPES.get(type_name, type_name),
        "is_generated": False,
        "key_position": key_position,
        **fields,
    }


def find_only_table(*rows: Mapping[str, Any], settings: Mapping[str, str] | None = None) -> CapturedTable:
    (table,), _ = find_tables(rows, make_capture(settings))
    return table


def test_tables_have_their_columns_in_order_and_the_key_in_its_own_order() -> None:
    table = find_only_table(
        column("city", "text"), column("line", "int4", 1), column("id", "int8", 0), column("note", "text")
    )
    assert (table.name, table.topic) == ("public.orders", "shop.public.orders")
    assert [each.info.name for each in table.key] == ["id", "line"]
    assert [each.info.name for each in table.columns] == ["city", "note"]


def test_columns_that_cannot_be_compared_are_named_with_the_reason() -> None:
    settings = {"column.mask.with.4.chars": "public.orders.card", "column.exclude.list": ".*secret"}
    rows = [
        column("id", "int8", 0),
        column("span", "interval"),
        column("sum", "int4", is_generated=True),
        column("card", "text"),
        column("mood", "mood", type_kind="e"),
        column("positive", "positive", type_kind="d", declared_type="positive"),
        column("secret", "text"),
    ]
    (table,), not_compared = find_tables(rows, make_capture(settings))
    assert [each.info.name for each in table.columns] == ["mood"]
    assert not_compared == [
        "public.orders.span (interval)",
        "public.orders.sum (generated)",
        "public.orders.card (masked)",
        "public.orders.positive (positive)",
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (column("id", "int8"), "no primary key"),
        (column("id", "interval", 0), "the type of id in the primary key is interval"),
        (column("id", "int8", 0, table_kind="p"), "partitioned"),
        (column("id", "int8", 0, is_partition=True), "partitioned"),
    ],
)
def test_tables_that_cannot_be_compared_are_named_with_the_reason(
    row: Mapping[str, Any], reason: str
) -> None:
    assert find_tables([row], make_capture()) == ([], [f"public.orders ({reason})"])


def test_tables_that_are_not_captured_are_not_named() -> None:
    assert find_tables([column("id", "int8")], make_capture({"table.include.list": "public.others"})) == (
        [],
        [],
    )


def test_query_selects_the_text_of_each_column_with_quoted_names() -> None:
    table = find_only_table(column("id", "int8", 0), column('a"b', "text"), column("raw", "bytea"))
    assert make_query(table, None) == (
        'SELECT "id"::text AS k0, "a""b"::text AS c0, encode("raw", \'hex\') AS c1 FROM "public"."orders"'
    )


@pytest.mark.parametrize(
    ("key", "condition"),
    [
        ('{"id":7,"name":"O\'Neil\\\\"}', "(\"id\" = '7'::bigint AND \"name\" = E'O''Neil\\\\')"),
        ('{"id":"7; DROP TABLE orders","name":"a"}', "false"),
        ('{"id":7}', "false"),
        ('{"name":"a","id":7}', "false"),
        ("not a key", "false"),
        ('"text"', "false"),
        ('{"id":7,"name":"\\u0000"}', "false"),
    ],
)
def test_query_selects_keys_by_escaped_literals(key: str, condition: str) -> None:
    table = find_only_table(column("id", "int8", 0), column("name", "text", 1))
    assert make_query(table, [key]).endswith(f' FROM "public"."orders" WHERE {condition}')


def test_query_of_keys_without_literals_selects_all_rows() -> None:
    table = find_only_table(column("id", "uuid", 0), column("day", "date", 1))
    assert "WHERE" not in make_query(table, ['{"id":"x","day":"1"}'])
    only_uuid = find_only_table(column("id", "uuid", 0))
    uuid = "00000000-0000-0000-0000-000000000001"
    assert make_query(only_uuid, [f'{{"id":"{uuid}"}}', '{"id":"x"}']).endswith(f"WHERE (\"id\" = '{uuid}')")

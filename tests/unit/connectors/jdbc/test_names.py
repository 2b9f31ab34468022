"""Tests that a name cannot break out of its quotes, regardless of the quote and escape characters of the database."""

from __future__ import annotations

import re

import pytest

from kraal.connectors.jdbc.exactly_once import Tables
from kraal.connectors.jdbc.names import get_database_kind, quote, to_sql
from kraal.connectors.spark.checks import validate_identifiers

INJECTED_NAME = '"a\\"." UNION SELECT password FROM users -- "'
"""A schema and a table name in a config. MySQL would parse the text as the string literal `a"."` followed by SQL."""


def test_backslash_in_name_is_quoted_or_rejected() -> None:
    assert validate_identifiers("jdbc.table", INJECTED_NAME) is None, "a valid name"
    assert to_sql("mysql", INJECTED_NAME) == "`a\\`.` UNION SELECT password FROM users -- `"
    assert to_sql("postgresql", INJECTED_NAME) == INJECTED_NAME
    for kind in ("clickhouse", "unheard-of"):
        with pytest.raises(
            ValueError, match=re.escape(repr("a\\")) + " cannot be quoted safely: .* a backslash may escape"
        ):
            to_sql(kind, INJECTED_NAME)


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("mysql", "Shop.orders", "Shop.orders"),
        ("mysql", 'shop."My Orders"', "shop.`My Orders`"),
        ("mysql", '"a`b"', "`a``b`"),
        ("mariadb", "[a.b].`c`", "`a.b`.`c`"),
        ("postgresql", '`a"b`.c', '"a""b".c'),
        ("sqlserver", "dbo.[My Orders]", "dbo.[My Orders]"),
        ("sqlserver", "`My Orders`", '"My Orders"'),
        ("derby", "[Orders]", '"Orders"'),
    ],
)
def test_names_are_converted_to_the_quotes_of_the_database(kind: str, name: str, expected: str) -> None:
    assert to_sql(kind, name) == expected


def test_quote_doubles_quotes_within_names() -> None:
    assert quote("mysql", 'a`b"c') == '`a``b"c`'
    assert quote("oracle", 'a`b"c') == '"a`b""c"'
    with pytest.raises(ValueError, match="cannot be quoted safely"):
        quote("mysql", "a\x00b")


def test_staging_table_of_name_with_doubled_quotes_keeps_the_schema() -> None:
    for kind, name in (("mysql", 's."a`b.c"'), ("derby", 's.`a"b.c`')):
        staging = Tables.of("sink", 0, to_sql(kind, name), "o").staging
        assert staging.startswith("s.kraal_staging_")


def test_database_kind_is_parsed_from_url() -> None:
    assert get_database_kind({"user": "x", "URL": "jdbc:mysql://h/d"}) == "mysql"

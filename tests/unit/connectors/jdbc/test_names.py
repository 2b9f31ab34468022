"""Names never end their quotes, whatever the database takes for a quote or an escape."""

from __future__ import annotations

import re

import pytest

from kraal.connectors.jdbc.exactly_once import Tables
from kraal.connectors.jdbc.names import address_kind, in_sql, quote
from kraal.connectors.spark.checks import identifiers

HIDDEN = '"a\\"." UNION SELECT password FROM users -- "'
"""In MySQL's sight a text `a"."`, and SQL behind it; in the config's, a schema and a table."""


def test_a_backslash_hides_no_quote() -> None:
    assert identifiers("jdbc.table", HIDDEN) is None, "it has the form of a name"
    assert in_sql("mysql", HIDDEN) == "`a\\`.` UNION SELECT password FROM users -- `"
    assert in_sql("postgresql", HIDDEN) == HIDDEN
    for kind in ("clickhouse", "unheard-of"):
        with pytest.raises(
            ValueError, match=re.escape(repr("a\\")) + " cannot be quoted safely: a backslash may hide"
        ):
            in_sql(kind, HIDDEN)


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
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
def test_names_of_configs_get_the_quotes_of_the_database(kind: str, written: str, expected: str) -> None:
    assert in_sql(kind, written) == expected


def test_the_databases_own_quotes_are_doubled_within_a_name() -> None:
    assert quote("mysql", 'a`b"c') == '`a``b"c`'
    assert quote("oracle", 'a`b"c') == '"a`b""c"'
    with pytest.raises(ValueError, match="cannot be quoted safely"):
        quote("mysql", "a\x00b")


def test_staging_tables_of_names_with_doubled_quotes() -> None:
    for kind, written in (("mysql", 's."a`b.c"'), ("derby", 's.`a"b.c`')):
        staging = Tables.of("sink", 0, in_sql(kind, written), "o").staging
        assert staging.startswith("s.kraal_staging_")


def test_the_url_names_the_database() -> None:
    assert address_kind({"user": "x", "URL": "jdbc:mysql://h/d"}) == "mysql"

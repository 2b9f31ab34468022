"""Tests for what MySQL and MariaDB need; tests with a real server are in tests/integration/connectors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from kraal.connectors.jdbc import mysql
from kraal.connectors.jdbc.column_types import find_overflow, to_arrow, to_compared_type
from kraal.connectors.jdbc.database import StoredColumn
from kraal.connectors.jdbc.exactly_once import Tables, create_staging_table
from kraal.connectors.jdbc.merge import CODE, Staged, make_statements

TABLES = Tables("sink", "shop.`people`", "offsets", "shop.staging", "staging")


class Database:
    """Records statements; all queries fail to find anything."""

    kind = mysql.KIND

    def __init__(self) -> None:
        self.statements: list[str] = []

    def quote(self, name: str) -> str:
        return mysql.quote(name)

    def execute(self, sql: str, *values: object, wait_s: int = 0) -> int:
        self.statements.append(sql)
        return len(values) + wait_s

    def query(self, sql: str, *values: object) -> Sequence[tuple[str | None, ...]]:
        del sql, values
        return []

    def commit(self) -> None:
        return

    def rollback(self) -> None:
        return


def column(code: int, type_name: str, **fields: Any) -> StoredColumn:
    return mysql.adapt_column(StoredColumn(name="c", code=code, type_name=type_name, **fields))


@pytest.mark.parametrize(
    ("adapted", "expected"),
    [
        pytest.param(column(93, "TIMESTAMP", scale=6), pa.timestamp("us", "UTC"), id="instant"),
        pytest.param(column(93, "DATETIME", scale=6), pa.timestamp("us"), id="no time zone"),
        pytest.param(column(91, "YEAR"), pa.int64(), id="year"),
        pytest.param(column(-7, "BIT", precision=8), pa.binary(), id="several bits"),
        pytest.param(column(-7, "BIT", precision=1), pa.bool_(), id="one bit"),
        pytest.param(column(-1, "JSON"), pa.string(), id="json"),
    ],
)
def test_columns_have_the_types_of_their_values(adapted: StoredColumn, expected: pa.DataType) -> None:
    assert to_arrow(adapted) == expected


def test_values_that_the_database_formats_are_not_compared() -> None:
    assert to_compared_type(column(-1, "JSON")) is None
    assert to_compared_type(column(12, "VARCHAR")) == pa.string()


def test_numbers_without_a_sign_have_other_limits() -> None:
    small = column(5, "SMALLINT UNSIGNED")
    assert find_overflow(small, pa.array([0, 65_535])) is None
    assert find_overflow(small, pa.array([0, 65_536])) == 65_536
    assert find_overflow(small, pa.array([-1])) == -1


@pytest.mark.parametrize(
    ("fields", "is_rounded"),
    [({"scale": 6}, False), ({"scale": 3}, True), ({"precision": 26}, False), ({"precision": 19}, True)],
)
def test_timestamp_with_too_many_digits_is_found(fields: dict[str, int], *, is_rounded: bool) -> None:
    value = datetime(2026, 1, 2, 3, 4, 5, 123_400)  # noqa: DTZ001 - without a time zone
    values = pa.chunked_array([pa.array([None, value], pa.timestamp("us"))])
    rounded = mysql.find_rounded(column(93, "DATETIME", **fields), values)
    assert (rounded is not None) is is_rounded
    whole = pa.chunked_array([pa.array([value.replace(microsecond=0)], pa.timestamp("us"))])
    assert mysql.find_rounded(column(93, "DATETIME", **fields), whole) is None


def test_timestamps_are_written_as_text_in_utc() -> None:
    rows = pa.table(
        {
            "a": pa.array([1_767_323_045_123_456], pa.timestamp("us", "UTC")),
            "b": pa.array([0], pa.timestamp("us")),
        }
    )
    expected = [{"a": "2026-01-02 03:04:05.123456", "b": "1970-01-01 00:00:00.000000"}]
    assert mysql.format_timestamps(rows).to_pylist() == expected


def test_options_that_are_set_are_kept() -> None:
    url = {"url": "jdbc:mysql://h/db?sessionVariables=x=1", "TinyInt1IsBit": "true"}
    assert mysql.add_options(url) == {**url, "useCursorFetch": "true"}


def test_statements_have_the_syntax_of_mysql() -> None:
    database: Any = Database()
    staged = Staged(columns=["id", "name"], key=["id"], count=2, has_deletes=True)
    code = mysql.quote(CODE)
    delete, update, insert = make_statements(database, TABLES, staged)
    assert delete.startswith("DELETE t FROM shop.`people` AS t, shop.staging s WHERE")
    assert delete.endswith(f"s.{code} = -1 AND t.`id` = s.`id`")
    assert "shop.`people` AS t, shop.staging s SET t.`name` = s.`name`" in update
    assert update.endswith(f"s.{code} = 0 AND t.`id` = s.`id`")
    assert "INTO shop.`people` (`id`, `name`) SELECT s.`id`, s.`name`" in insert


def test_staging_table_stores_null_only_if_required() -> None:
    for is_nullable in (False, True):
        database: Any = Database()
        create_staging_table(database, TABLES, ["one"], {CODE: 9}, is_nullable=is_nullable)
        [statement] = [each for each in database.statements if each.startswith("CREATE TABLE")]
        assert ("LEFT JOIN shop.`people` ON 1 = 0" in statement) is is_nullable

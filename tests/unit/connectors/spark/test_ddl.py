from __future__ import annotations

import pytest

from kraal.connectors.spark.ddl import parse_columns


def test_parse_columns_returns_names_and_types() -> None:
    ddl = (
        "id BIGINT NOT NULL, `a ``b` STRING COMMENT 'it\\'s, a text', c decimal(10, 2), d array<map<string,int>>,"
        " e struct<x: int not null, `y z`: struct<>>, f VARCHAR(3), g timestamp_ntz, h: int"
    )
    assert parse_columns(ddl) == {
        "id": "bigint",
        "a `b": "string",
        "c": "decimal",
        "d": "array",
        "e": "struct",
        "f": "varchar",
        "g": "timestamp_ntz",
        "h": "int",
    }


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("", "it has no columns"),
        ("id", "the type of the column id is missing"),
        ("id INTT", "the column id has the unknown type INTT; use boolean"),
        ("id INT name STRING", "a comma is missing before `name`"),
        ("id INT,", "a column name is missing before the end"),
        ("id INT, id STRING", "duplicate column id"),
        ("id ARRAY<INT", "`>` is missing in the array id, before the end"),
        ("id MAP<INT>", "`,` is missing in the map id, before `>`"),
        ("id STRUCT<x>", "the type of the column x is missing"),
        ("id INT NOT", "NULL is missing after NOT in the column id"),
        ("id INT COMMENT x", "the comment of the column id is not a string"),
        ("id DECIMAL(39,1)", "the column id needs a precision of at most 38"),
        ("id DECIMAL(4,5)", "the column id needs a precision of at most 38"),
        ("id INT(4)", "the type int of the column id does not accept 1 numbers"),
        ("id CHAR", "the column id of type char requires a length: char(n)"),
        ("id VARIANT", "the column id has type VARIANT, which has no Connect type"),
        ("id INT; drop", "unexpected text '; drop'"),
        ("id " + "array<" * 60 + "int" + ">" * 60, "nested deeper than 50 levels"),
    ],
)
def test_parse_columns_reports_syntax_errors(ddl: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is checked below
        parse_columns(ddl)
    assert message in str(caught.value)

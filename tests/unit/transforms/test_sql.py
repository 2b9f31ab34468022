"""Tests for `kraal.transforms.SQL` on single records, and for expressions that the transform rejects."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kraal.plugins.model.records import DataException, Record, Struct
from kraal.plugins.model.schema import Field, Schema, Type
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import ChainInvalid, make_chain
from kraal.transforms.sql.syntax import MAX_DEPTH
from kraal.transforms.sql.transform import SQL

REGISTRY = Registry.load()
ORDER = Schema(
    type=Type.STRUCT,
    fields=(
        Field(name="price", schema=Schema(type=Type.FLOAT64)),
        Field(name="amount", schema=Schema(type=Type.INT32, optional=True, default=2)),
        Field(name="name", schema=Schema(type=Type.STRING, optional=True)),
        Field(name="raw", schema=Schema(type=Type.BYTES, optional=True)),
    ),
)


def sql(expressions: str, **settings: str) -> SQL:
    transform = SQL()
    transform.configure({"expressions": expressions, **settings})
    return transform


def evaluate(expression: str, value: dict[str, Any] | None = None) -> Any:
    """Return the result of an expression for an object without a schema."""
    transformed_record = sql(f"{expression} AS x").apply(Record(topic="t", value=value or {}))
    return transformed_record.value["x"]


def test_existing_fields_are_replaced_and_new_fields_are_appended() -> None:
    fields = {"price": 2.5, "amount": None, "name": "ann", "raw": b"x"}
    record = Record(topic="t", value_schema=ORDER, value=Struct(ORDER, fields))
    transform = pickle.loads(pickle.dumps(sql("upper(name) AS name, price * amount AS total, raw AS copy")))  # noqa: S301
    transformed_record = transform.apply(record)
    assert [(field.name, field.schema.type) for field in transformed_record.value_schema.fields] == [
        ("price", Type.FLOAT64),
        ("amount", Type.INT32),
        ("name", Type.STRING),
        ("raw", Type.BYTES),
        ("total", Type.FLOAT64),
        ("copy", Type.BYTES),
    ]
    assert transformed_record.value.values == {
        **fields,
        "amount": 2,
        "name": "ANN",
        "total": 5.0,
        "copy": b"x",
    }


def test_key_is_transformed_and_tombstones_are_unchanged() -> None:
    transform = sql("id + 1 AS id", of="key")
    assert transform.apply(Record(topic="t", key={"id": 1}, value={"id": 7})).key == {"id": 2}
    assert transform.apply(Record(topic="t", key=None)).key is None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3 - -4", 11),
        ("(1 + 2) * 3", 9),
        ("7 / 2", 3.5),
        ("-7 % 3", -1),
        ("1.5 + 1", 2.5),
        ("'it''s' || \" \" || 'a\\nb'", "it's a\nb"),
        ("NULL + 1", None),
        ("a IS NULL AND NOT FALSE", True),
        ("b.c", 5),
        ("`b`.`c` BETWEEN 5 AND 6", True),
        ("b.c NOT IN (1, 2)", True),
        ("a IN (1, NULL)", None),
        ("CASE b.c WHEN 5 THEN 'five' ELSE 'other' END", "five"),
        ("CASE WHEN FALSE THEN 1 / 0 END", None),
        ("coalesce(a, b.c, 1 / 0)", 5),
        ("if(b.c > 4, 'big', 'small')", "big"),
        ("nullif(b.c, 5)", None),
        ("'50% off' LIKE '50\\% %'", True),
        ("'äb' LIKE '_b'", True),
        ("CAST(' 12 ' AS INT) + CAST(TRUE AS BIGINT)", 13),
        ("CAST(1e7 AS STRING)", "1.0E7"),
        ("FALSE AND NULL", False),
        ("substring('kraal', -3, 2) || left('ab', 1) || right('ab', 1)", "aaab"),
        ("lpad('7', 3, '0') || rpad('7', 2)", "0077 "),
        ("greatest(1, 2, NULL)", 2),
        ("1 = 1.0 AND 'a' < 'b' AND TRUE <> FALSE", True),
    ],
)
def test_expression_returns_expected_value(expression: str, expected: object) -> None:
    assert evaluate(expression, {"b": {"c": 5}}) == expected


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1 / (a - a)", "SQL, x: division by zero"),
        ("9223372036854775807 + a", "SQL, x: 9223372036854775808 is out of range for BIGINT"),
        ("CAST('no' AS INT)", "SQL, x: 'no' cannot be cast to INT"),
        ("CAST(300 AS TINYINT)", "SQL, x: 300 is out of range for TINYINT"),
        ("upper(a)", "SQL, x: argument 1 of upper must be text, but is a whole number"),
        (
            "a + 'b'",
            "SQL, x: + requires a whole number or a number with a fraction, but an operand is text; use CAST",
        ),
    ],
)
def test_computation_error_fails_the_record(expression: str, reason: str) -> None:
    with pytest.raises(DataException) as error:
        evaluate(expression, {"a": 1})
    assert str(error.value) == reason


def test_missing_fields_and_casts_of_bytes_are_rejected() -> None:
    record = Record(topic="t", value_schema=ORDER, value=Struct(ORDER, {"price": 1.0}))
    with pytest.raises(DataException, match=r"SQL, x: there is no field nothing\.in"):
        sql("nothing.in + 1 AS x").apply(record)
    with pytest.raises(DataException, match="neither text, number nor boolean cannot be CAST"):
        sql("CAST(raw AS STRING) AS x").apply(record)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "reflect('java.lang.System', 'exit') AS x",
            "the function reflect is not allowed; allowed are abs, ",
        ),
        ("java_method('a', 'b') AS x", "the function java_method is not allowed; allowed are "),
        ("upper(try_reflect('a')) AS x", "the function try_reflect is not allowed; allowed are "),
        ("(SELECT 1) AS x", "expected a name at character 2, got 'SELECT'"),
        ("a IN (SELECT 1) AS x", "expected a name at character 7, got 'SELECT'"),
        ("CAST(a AS BINARY) AS x", "the type BINARY is not allowed; allowed are BOOLEAN, TINYINT, "),
        ("a + 1", "the expression at character 1 requires a name: … AS name"),
        ("a AS x, b AS x", "duplicate name x"),
        ("a AS x; b AS y", "'; b AS y' at character 7 is not part of an expression"),
        ("'open AS x", '"\'open AS x" at character 1 is not part of an expression'),
        ("left(a) AS x", "the function left takes 2 arguments, got 1"),
        ("1 1 AS x", "the expression at character 1 requires a name"),
        ("9223372036854775808 AS x", "the number 9223372036854775808 is out of range for BIGINT"),
        ("a LIKE b AS x", "expected a string as the pattern of LIKE at character 8, got 'b'"),
        ("a LIKE 'x\\\\y' AS x", "only \\%, \\_ and \\\\ are allowed"),
        (f"{'(' * 10 * MAX_DEPTH}1 AS x", f"the expression is nested more than {MAX_DEPTH} levels deep"),
        (f"{'NOT ' * 2000}", "the end"),
        (f"{'1+' * 2000}1 AS x", "x has more than 100 nested operations"),
        ("", "expected a name at character 1, got the end"),
        (f"'{'a' * 10_000}' AS x", "the expressions have 10007 characters; at most 10000 are allowed"),
    ],
)
def test_invalid_sql_is_rejected_by_validation(text: str, reason: str) -> None:
    key = SQL.config_def.get("expressions")
    assert key is not None
    assert key.validator is not None
    error = key.validator("expressions", text)
    assert error is not None
    assert error.startswith(f"Invalid value {text} for configuration expressions: ")
    assert reason in error


def test_forbidden_function_is_rejected() -> None:
    config = {
        "transforms": "x",
        "transforms.x.type": "kraal.transforms.SQL",
        "transforms.x.expressions": "input_file_name() AS f",
    }
    with pytest.raises(ChainInvalid, match="the function input_file_name is not allowed; allowed are abs"):
        make_chain(REGISTRY, config)

"""Tests that `kraal.transforms.SQL` has the same result on columns as on single records, or rejects the batch."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from kraal.engine.columns.parts import make_column
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.columns import Columns, Part
from kraal.plugins.model.records import DataException, Float32, Record, Struct
from kraal.plugins.model.schema import Field, Schema, Type
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import make_chain
from kraal.transforms.sql.functions import FUNCTIONS
from kraal.transforms.sql.transform import SQL
from tests.fakes.spark.column_path import ARROW_TYPES, by_columns, by_records, chain_steps, is_simplest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELD_TYPES = {
    "i": Type.INT32,
    "j": Type.INT64,
    "d": Type.FLOAT64,
    "f": Type.FLOAT32,
    "s": Type.STRING,
    "t": Type.STRING,
    "b": Type.BOOLEAN,
}
ROW_SCHEMA = Schema(
    type=Type.STRUCT,
    fields=tuple(
        Field(name=name, schema=Schema(type=kind, optional=True)) for name, kind in FIELD_TYPES.items()
    ),
)
EXPRESSIONS = (
    "i + j", "i - 9223372036854775807", "j * i", "i / j", "j % i", "-j", "-d", "d + i", "d * f - 1", "d / f",
    "abs(j)", "abs(d)", "ceil(d)", "floor(d)", "ceil(i)", "greatest(i, j, 3)", "least(d, f)", "greatest(s, t)",
    "upper(s)", "lower(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "reverse(s)", "length(s)", "s || t || '!'",
    "concat(s, t)", "concat_ws('-', s, t, 'x')", "substring(s, i, j)", "substring(s, i)", "left(s, j)", "right(s, j)",
    "replace(s, t, 'z')", "replace(s, 'a')", "lpad(s, i, t)", "rpad(s, 5)", "instr(s, t)", "startswith(s, t)",
    "endswith(s, t)", "contains(s, t)", "md5(s)", "sha1(s)", "sha2(s, 256)", "sha2(s, i)", "coalesce(s, t, 'none')",
    "if(b, s, t)", "nullif(i, j)", "CASE WHEN d > f THEN 'more' WHEN d = f THEN 'same' END",
    "CASE WHEN j <> 0 THEN i / j ELSE 0.0 END", "i < j AND b OR s = t", "NOT b", "d <> f", "s < t", "d >= i",
    "s LIKE 'a%'", "s LIKE '_\\%%'", "i IN (1, j, 3)", "i BETWEEN 0 AND j", "s IS NULL OR d IS NOT NULL",
    "CAST(s AS INT)", "CAST(s AS BIGINT)", "CAST(d AS INT)", "CAST(j AS TINYINT)", "CAST(j AS STRING)",
    "CAST(b AS STRING)", "CAST(b AS BIGINT)", "CAST(i AS BOOLEAN)", "CAST(d AS BOOLEAN)", "CAST(s AS BOOLEAN)",
    "CAST(i AS DOUBLE)", "coalesce(i, NULL)", "f", "1.5", "s = 'a' || t",
)  # fmt: skip
WORDS = st.text("aAbz %_0123-é😀\t", max_size=5) | st.sampled_from(["12", " 7", "+3", "true", "No", "a%", ""])
SMALL, EDGES = st.integers(-5, 5), st.sampled_from([2**63 - 1, -(2**63), 10**10, 2**53 + 1])
DOUBLES = st.sampled_from(
    [0.0, -0.0, 1.5, -2.5, 1e19, -1e19, 1e308, float("nan"), float("inf"), float("-inf"), 2.0**53]
)


def or_null(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


ROW_STRATEGY = st.fixed_dictionaries(
    {
        "i": or_null(SMALL | st.integers(-(2**31), 2**31 - 1)),
        "j": or_null(SMALL | EDGES),
        "d": or_null(SMALL.map(float) | DOUBLES),
        "f": or_null(st.integers(-9, 9).map(lambda n: Float32(n / 4))),
        "s": or_null(WORDS),
        "t": or_null(WORDS),
        "b": or_null(st.booleans()),
    }
)


def make_transform(text: str) -> SQL:
    transform = SQL()
    transform.configure({"expressions": f"{text} AS x"})
    return transform


def by_value(transform: SQL, row: dict[str, Any]) -> tuple[bool, Any]:
    """Return whether the transform rejects a record, and the value of the result."""
    try:
        out = transform.apply(Record(topic="t", value_schema=ROW_SCHEMA, value=Struct(ROW_SCHEMA, row)))
    except DataException:
        return True, None
    return False, out.value.raw("x")


def are_identical(left: Any, right: Any) -> bool:
    """Return whether both values are equal, including NaN and the sign of 0."""
    return (left is None and right is None) or (type(left), repr(left)) == (type(right), repr(right))


@settings(
    max_examples=2,  # the first example is the simplest and is skipped; the second example has many rows
    phases=[Phase.generate],
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(rows=st.lists(ROW_STRATEGY, min_size=150, max_size=150))
def test_each_expression_has_the_same_result_on_both_paths(
    spark: SparkSession, rows: list[dict[str, Any]]
) -> None:
    if is_simplest(rows):
        return
    rows = [
        *rows,
        dict.fromkeys(FIELD_TYPES),
        {"i": 1, "j": 2, "d": 0.5, "f": Float32(1), "s": "a", "t": "b", "b": True},
    ]
    transforms = [make_transform(text) for text in EXPRESSIONS]
    table = pa.table(
        {"value": pa.array(rows, pa.struct([(n, ARROW_TYPES[kind]) for n, kind in FIELD_TYPES.items()]))}
    )
    columns = Columns(
        topic="t", value=Part(schema=ROW_SCHEMA, expression=lambda: F.col("value"), as_read=True, sure=True)
    )
    selected_columns = []
    for index, transform in enumerate(transforms):
        out = transform.columns(columns)
        assert out is not None
        assert out.value.fields is not None
        doubt: Any = F.lit(False)  # noqa: FBT003 - a Spark literal
        for condition in out.doubts:
            doubt = doubt | condition()
        doubt = F.coalesce(doubt, F.lit(False))  # noqa: FBT003 - a Spark literal
        selected_columns += [
            doubt.alias(f"doubt{index}"),
            F.when(~doubt, make_column(out.value.fields["x"])).alias(f"x{index}"),
        ]
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        results = [
            row.asDict()
            for row in spark.createDataFrame(table).coalesce(1).select(*selected_columns).collect()
        ]
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    comparison_counts = dict.fromkeys(EXPRESSIONS, 0)
    differences = {}
    for row, result in zip(rows, results, strict=True):
        for index, (text, transform) in enumerate(zip(EXPRESSIONS, transforms, strict=True)):
            is_rejected, expected = by_value(transform, row)
            if result[f"doubt{index}"]:
                continue
            expected_value = float(expected) if type(expected) is Float32 else expected
            if is_rejected or not are_identical(result[f"x{index}"], expected_value):
                differences[text] = (row, "refused" if is_rejected else expected, result[f"x{index}"])
            comparison_counts[text] += 1
    assert not differences
    assert min(comparison_counts.values()) >= 40, comparison_counts
    called_functions = {name for name in FUNCTIONS if any(f"{name}(" in text for text in EXPRESSIONS)}
    assert {FUNCTIONS[name].name for name in called_functions} == {
        function.name for function in FUNCTIONS.values()
    }


def test_sql_source_takes_the_column_path_except_for_rows_in_doubt(spark: SparkSession) -> None:
    chain = make_chain(
        Registry.load(),
        {
            "transforms": "sql",
            "transforms.sql.type": "kraal.transforms.SQL",
            "transforms.sql.expressions": "10 / i AS i, upper(s) AS loud, t AS copy",
        },
    )
    steps, batch = (
        chain_steps(chain),
        SourceBatch(offsets={}, topic="orders", value_schema=ROW_SCHEMA, timestamp_ms=1),
    )
    kinds = pa.struct([(name, ARROW_TYPES[kind]) for name, kind in FIELD_TYPES.items()])
    rows = [{"i": n, "s": "a", "t": str(dt.date(2020, 1, n))} for n in (1, 2)]
    good_table, bad_table = (
        pa.table({"value": pa.array(table_rows, kinds)}) for table_rows in (rows, [*rows, {"i": 0}])
    )
    assert by_columns(spark, steps, batch, good_table) == by_records(steps, batch, good_table)
    assert by_records(steps, batch, good_table) is not None
    assert by_records(steps, batch, bad_table) is None
    assert by_columns(spark, steps, batch, bad_table) is None

"""Tests that golden transform chains have the same output on both paths, except for records in doubt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from kraal.converters.json.converter import JsonConverter
from kraal.engine.columns.parts import make_column
from kraal.engine.columns.source import SourceColumns, make_input_columns, needs_record_path
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.schema import Schema
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import Chain, ChainInvalid, make_chain
from tests.fakes.spark.column_path import arrow_type, by_records, chain_steps, json_converter, to_arrow_value
from tests.golden_files import current

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.ci

GOLDEN = current("transforms", "chains.json")
REGISTRY = Registry.load()


@dataclass
class GoldenCase:
    """A record of a golden case, the output of the record path, and the columns of the column path."""

    name: str
    types: Sequence[str]
    table: pa.Table
    expected: dict[str, Any] | None
    is_dropped: bool
    output_columns: Columns


def load_cases(cast_interval: int) -> list[GoldenCase]:
    """Return the cases that take the column path. Of the hundreds of single casts, return every `cast_interval`-th."""
    reader = json_converter()
    cases: list[GoldenCase] = []
    cast_count = 0
    for case in json.loads(GOLDEN.read_text("utf-8")):
        try:
            chain = make_chain(REGISTRY, case["config"])
        except ChainInvalid:
            continue
        for record in case["records"]:
            golden_case = make_case(reader, chain, case, record, len(cases))
            if golden_case is None:
                continue
            cast_count += golden_case.types == ["Cast$Value"]
            if golden_case.types != ["Cast$Value"] or cast_count % cast_interval == 0:
                cases.append(golden_case)
    return cases


def make_case(
    reader: JsonConverter, chain: Chain, case: Mapping[str, Any], record: Mapping[str, Any], index: int
) -> GoldenCase | None:
    """Return the case, or None for a record that does not take the column path."""
    columns: dict[str, pa.Array] = {}
    schemas: dict[str, Schema | None] = {"key": None, "value": None}
    for part in ("key", "value"):
        text = record[part]
        if text is None:
            continue
        if not text.startswith('{"schema":'):
            return None
        schema, value = reader.decode("", text.encode())
        if schema is None:
            return None
        try:
            columns[part] = pa.array([to_arrow_value(value)], arrow_type(schema))
        except (pa.ArrowInvalid, OverflowError):
            return None  # beyond the range of column types
        schemas[part] = schema
    if record["partition"] is not None or not columns:
        columns["partition"] = pa.array([7], pa.int32())
    table = pa.table(columns)
    batch = SourceBatch(
        offsets={},
        topic=record["topic"],
        key_schema=schemas["key"],
        value_schema=schemas["value"],
        timestamp_ms=record["timestamp"],
    )
    steps = chain_steps(chain)
    planned = SourceColumns(steps, Converters(steps.key, steps.value, ()), ()).plan(
        batch, frozenset(table.column_names)
    )
    if planned is None:
        return None
    input_columns = make_input_columns(batch, frozenset(table.column_names))
    assert input_columns is not None
    for part in columns.keys() & {"key", "value"}:
        numbered_part = replace(
            input_columns.part(is_key=part == "key"), expression=partial(F.col, f"{part}{index}")
        )
        input_columns = input_columns.with_part(numbered_part, is_key=part == "key")
    output_columns = chain.columns(input_columns)
    assert output_columns is not None
    rows = by_records(steps, batch, table)
    types = [text.rpartition(".")[2] for key, text in case["config"].items() if key.endswith(".type")]
    return GoldenCase(
        f"{case['name']} {index}",
        types,
        table,
        rows[0] if rows else None,
        rows is not None and not rows,
        output_columns,
    )


@pytest.mark.parametrize("cast_interval", [20, pytest.param(1, marks=pytest.mark.slow)])
def test_golden_chains_match_the_record_path_unless_in_doubt(spark: SparkSession, cast_interval: int) -> None:
    cases = load_cases(cast_interval)
    numbered_cases = list(enumerate(cases))
    table_columns = {
        f"{name}{index}": case.table[name]
        for index, case in numbered_cases
        for name in case.table.column_names
        if name != "partition"
    }
    frame = spark.createDataFrame(pa.table({"partition": pa.array([7], pa.int32()), **table_columns}))
    columns_by_case = [select_columns(index, case) for index, case in numbered_cases]
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        row = (
            frame.select(*[column for columns in columns_by_case for column in columns]).collect()[0].asDict()
        )
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    covered_types = set()
    for index, case in numbered_cases:
        if row[f"doubt{index}"]:
            continue
        assert not case.is_dropped, case.name
        if case.expected is None:  # the write must fail
            with pytest.raises(PySparkException) as raised:
                frame.select(*written_columns(index, case)).collect()
            assert needs_record_path(raised.value), case.name
            continue
        actual = {part: row[f"{part}_out{index}"] for part in ("key", "value")}
        actual_bytes = {part: None if data is None else bytes(data) for part, data in actual.items()}
        assert actual_bytes == {part: case.expected[part] for part in actual_bytes}, case.name
        assert case.output_columns.topic == case.expected["topic"], case.name
        covered_types |= set(case.types)
    assert sum(not row[f"doubt{index}"] for index, _ in numbered_cases) >= 40
    assert covered_types >= COVERED_TRANSFORMS


COVERED_TRANSFORMS = {
    "Cast$Value",
    "HoistField$Value",
    "InsertField$Value",
    "ReplaceField$Value",
    "MaskField$Value",
    "ExtractField$Value",
    "ValueToKey",
    "RegexRouter",
    "SetSchemaMetadata$Value",
    "InsertHeader",
}
"""Each of these transforms is in at least one chain that takes the column path."""


def select_columns(index: int, case: GoldenCase) -> list[Any]:
    """Return the doubt, key and value columns of a case, or only the doubt column if the record must fail."""
    output_columns = case.output_columns
    doubt: Any = F.lit(False)  # noqa: FBT003 - a Spark literal
    for condition in output_columns.doubts:
        doubt = doubt | F.coalesce(condition(), F.lit(False))  # noqa: FBT003 - a Spark literal
    if case.expected is None:
        return [doubt.alias(f"doubt{index}")]
    return [
        doubt.alias(f"doubt{index}"),
        *(
            F.when(~doubt, column).alias(name)
            for column, name in zip(written_columns(index, case), column_names(index), strict=True)
        ),
    ]


def column_names(index: int) -> tuple[str, str]:
    return f"key_out{index}", f"value_out{index}"


def written_columns(index: int, case: GoldenCase) -> list[Any]:
    """Return the key and value columns of a case, as bytes."""
    return [
        F.lit(None).cast("binary").alias(name)
        if part.is_nothing
        else json_converter().from_connect(F.lit("t"), make_column(part), part.schema).alias(name)
        for name, part in zip(
            column_names(index), (case.output_columns.key, case.output_columns.value), strict=True
        )
    ]

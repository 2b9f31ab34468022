"""Tests that Connect's golden transform chains have the same output on the column path, or reject the batch."""

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
from tests.fakes.spark.column_path import arrow_type, by_records, chain_steps, json_converter, plain
from tests.golden_files import current

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.ci

GOLDEN = current("transforms", "chains.json")
REGISTRY = Registry.load()


@dataclass
class GoldenCase:
    """A record of a golden case, with the output of the record path, and the column plan."""

    name: str
    types: Sequence[str]
    table: pa.Table
    expected: dict[str, Any] | None
    dropped: bool
    out: Columns


def load_cases(casts: int) -> list[GoldenCase]:
    """Return the cases that take the column path, with only one in `casts` of the hundreds of single casts."""
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
            if golden_case.types != ["Cast$Value"] or cast_count % casts == 0:
                cases.append(golden_case)
    return cases


def make_case(
    reader: JsonConverter, chain: Chain, case: Mapping[str, Any], record: Mapping[str, Any], at: int
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
            columns[part] = pa.array([plain(value)], arrow_type(schema))
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
    renamed = make_input_columns(batch, frozenset(table.column_names))
    assert renamed is not None
    for part in columns.keys() & {"key", "value"}:
        part_at = replace(renamed.part(is_key=part == "key"), expression=partial(F.col, f"{part}{at}"))
        renamed = renamed.with_part(part_at, is_key=part == "key")
    out = chain.columns(renamed)
    assert out is not None
    rows = by_records(steps, batch, table)
    types = [text.rpartition(".")[2] for key, text in case["config"].items() if key.endswith(".type")]
    return GoldenCase(
        f"{case['name']} {at}", types, table, rows[0] if rows else None, rows is not None and not rows, out
    )


@pytest.mark.parametrize("casts", [20, pytest.param(1, marks=pytest.mark.slow)])
def test_golden_chains_have_the_same_bytes_by_columns_or_are_in_doubt(
    spark: SparkSession, casts: int
) -> None:
    cases = load_cases(casts)
    chosen = list(enumerate(cases))
    wide = {
        f"{name}{at}": case.table[name]
        for at, case in chosen
        for name in case.table.column_names
        if name != "partition"
    }
    frame = spark.createDataFrame(pa.table({"partition": pa.array([7], pa.int32()), **wide}))
    columns_by_case = [select_columns(at, case) for at, case in chosen]
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        row = frame.select(*[column for each in columns_by_case for column in each]).collect()[0].asDict()
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    covered = set()
    for at, case in chosen:
        if row[f"doubt{at}"]:
            continue
        assert not case.dropped, case.name
        if case.expected is None:  # the write must fail
            with pytest.raises(PySparkException) as raised:
                frame.select(*written_columns(at, case)).collect()
            assert needs_record_path(raised.value), case.name
            continue
        actual = {part: row[f"{part}_out{at}"] for part in ("key", "value")}
        actual_bytes = {part: None if data is None else bytes(data) for part, data in actual.items()}
        assert actual_bytes == {part: case.expected[part] for part in actual_bytes}, case.name
        assert case.out.topic == case.expected["topic"], case.name
        covered |= set(case.types)
    assert sum(not row[f"doubt{at}"] for at, _ in chosen) >= 40
    assert covered >= COVERED_TRANSFORMS


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


def select_columns(at: int, case: GoldenCase) -> list[Any]:
    """Return the doubt, the key and the value of a case; only the doubt if the record fails."""
    out = case.out
    doubt: Any = F.lit(False)  # noqa: FBT003 - a Spark literal
    for condition in out.doubts:
        doubt = doubt | F.coalesce(condition(), F.lit(False))  # noqa: FBT003 - a Spark literal
    if case.expected is None:
        return [doubt.alias(f"doubt{at}")]
    return [
        doubt.alias(f"doubt{at}"),
        *(
            F.when(~doubt, column).alias(name)
            for column, name in zip(written_columns(at, case), column_names(at), strict=True)
        ),
    ]


def column_names(at: int) -> tuple[str, str]:
    return f"key_out{at}", f"value_out{at}"


def written_columns(at: int, case: GoldenCase) -> list[Any]:
    """Return the key and value of a case, as bytes."""
    return [
        F.lit(None).cast("binary").alias(name)
        if part.is_nothing
        else json_converter().from_connect(F.lit("t"), make_column(part), part.schema).alias(name)
        for name, part in zip(column_names(at), (case.out.key, case.out.value), strict=True)
    ]

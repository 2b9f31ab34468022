"""Connect's golden transform chains with schemas: the column path has the same output, or rejects the batch."""

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
class Golden:
    """A record of a golden case, with the output of the record path, and the column plan."""

    name: str
    types: Sequence[str]
    table: pa.Table
    expected: dict[str, Any] | None
    dropped: bool
    out: Columns


def golden(casts: int) -> list[Golden]:
    """Return the cases that take the column path, but only one in `casts` of the hundreds of single casts."""
    reader = json_converter()
    found: list[Golden] = []
    cast = 0
    for case in json.loads(GOLDEN.read_text("utf-8")):
        try:
            chain = make_chain(REGISTRY, case["config"])
        except ChainInvalid:
            continue
        for record in case["records"]:
            made = make_case(reader, chain, case, record, len(found))
            if made is None:
                continue
            cast += made.types == ["Cast$Value"]
            if made.types != ["Cast$Value"] or cast % casts == 0:
                found.append(made)
    return found


def make_case(
    reader: JsonConverter, chain: Chain, case: Mapping[str, Any], record: Mapping[str, Any], at: int
) -> Golden | None:
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
        held = replace(renamed.part(is_key=part == "key"), expression=partial(F.col, f"{part}{at}"))
        renamed = renamed.with_part(held, is_key=part == "key")
    out = chain.columns(renamed)
    assert out is not None
    rows = by_records(steps, batch, table)
    types = [text.rpartition(".")[2] for key, text in case["config"].items() if key.endswith(".type")]
    return Golden(
        f"{case['name']} {at}", types, table, rows[0] if rows else None, rows is not None and not rows, out
    )


@pytest.mark.parametrize("casts", [20, pytest.param(1, marks=pytest.mark.slow)])
def test_golden_chains_have_the_same_bytes_by_columns_or_are_in_doubt(
    spark: SparkSession, casts: int
) -> None:
    cases = golden(casts)
    chosen = list(enumerate(cases))
    wide = {
        f"{name}{at}": case.table[name]
        for at, case in chosen
        for name in case.table.column_names
        if name != "partition"
    }
    frame = spark.createDataFrame(pa.table({"partition": pa.array([7], pa.int32()), **wide}))
    outs = [select_columns(at, case) for at, case in chosen]
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        row = frame.select(*[column for each in outs for column in each]).collect()[0].asDict()
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    went = set()
    for at, case in chosen:
        if row[f"doubt{at}"]:
            continue
        assert not case.dropped, case.name
        if case.expected is None:  # then the write fails
            with pytest.raises(PySparkException) as raised:
                frame.select(*written_columns(at, case)).collect()
            assert needs_record_path(raised.value), case.name
            continue
        got = {part: row[f"{part}_out{at}"] for part in ("key", "value")}
        shown = {part: None if data is None else bytes(data) for part, data in got.items()}
        assert shown == {part: case.expected[part] for part in shown}, case.name
        assert case.out.topic == case.expected["topic"], case.name
        went |= set(case.types)
    assert sum(not row[f"doubt{at}"] for at, _ in chosen) >= 40
    assert went >= FORMS


FORMS = {
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


def select_columns(at: int, case: Golden) -> list[Any]:
    """Return the doubt, the key and the value of a case; only the doubt if the record fails."""
    out = case.out
    doubt: Any = F.lit(False)  # noqa: FBT003 - Spark's literal
    for each in out.doubts:
        doubt = doubt | F.coalesce(each(), F.lit(False))  # noqa: FBT003 - as above
    if case.expected is None:
        return [doubt.alias(f"doubt{at}")]
    return [
        doubt.alias(f"doubt{at}"),
        *(
            F.when(~doubt, each).alias(name)
            for each, name in zip(written_columns(at, case), names(at), strict=True)
        ),
    ]


def names(at: int) -> tuple[str, str]:
    return f"key_out{at}", f"value_out{at}"


def written_columns(at: int, case: Golden) -> list[Any]:
    """Return the key and value of a case, as bytes."""
    return [
        F.lit(None).cast("binary").alias(name)
        if part.is_nothing
        else json_converter().from_connect(F.lit("t"), make_column(part), part.schema).alias(name)
        for name, part in zip(names(at), (case.out.key, case.out.value), strict=True)
    ]

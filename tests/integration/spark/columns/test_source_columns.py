"""Tests that the column path of sources writes the same bytes as the record path, or rejects the batch."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kraal.core.ids import TopicName
from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Failed, Opened
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.records import DATE, DECIMAL, TIMESTAMP
from kraal.plugins.model.schema import STRING, Field, Schema, Type
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import make_chain
from tests.fakes.spark import plugins
from tests.fakes.spark.column_path import (
    JSON_CONVERTER,
    STRING_CONVERTER,
    UTC,
    arrow_type,
    by_columns,
    by_records,
    chain_steps,
    chained,
    is_simplest,
)
from tests.fakes.spark.stage import TaskHarness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REGISTRY = Registry.load()
PARTITION = SourcePartition.of({"list": "a"})

ROW_SCHEMA = Schema(
    type=Type.STRUCT,
    name="row",
    version=3,
    fields=(
        Field(name="id", schema=Schema(type=Type.INT32)),
        Field(name="text", schema=Schema(type=Type.STRING, optional=True)),
        Field(name="name", schema=STRING),
        Field(name="big", schema=Schema(type=Type.INT64, optional=True, default=-5)),
        Field(name="half", schema=Schema(type=Type.FLOAT64, optional=True)),
        Field(name="yes", schema=Schema(type=Type.BOOLEAN, optional=True)),
        Field(name="raw", schema=Schema(type=Type.BYTES, optional=True)),
        Field(name="day", schema=Schema(type=Type.INT32, name=DATE, version=1, optional=True)),
        Field(name="at", schema=Schema(type=Type.INT64, name=TIMESTAMP, version=1, optional=True)),
        Field(
            name="money",
            schema=Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"}, optional=True),
        ),
        Field(name="list", schema=Schema(type=Type.ARRAY, value=Schema(type=Type.STRING, optional=True))),
        Field(
            name="in",
            schema=Schema(
                type=Type.STRUCT,
                optional=True,
                fields=(Field(name="x", schema=Schema(type=Type.INT16, optional=True)),),
            ),
        ),
    ),
)


def or_null(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


WORD_STRATEGY = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ROW_STRATEGY = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**31), 2**31 - 1),
        "text": or_null(WORD_STRATEGY),
        "name": WORD_STRATEGY,
        "big": or_null(st.integers(-(2**63), 2**63 - 1)),
        "half": or_null(st.integers(-1000, 1000).map(lambda n: n / 4)),
        "yes": or_null(st.booleans()),
        "raw": or_null(st.binary(max_size=4)),
        "day": or_null(st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1))),
        "at": or_null(
            st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - required by Hypothesis
        ),
        "money": or_null(st.decimals(-9999, 9999, places=2)),
        "list": st.lists(or_null(WORD_STRATEGY), max_size=2),
        "in": or_null(st.fixed_dictionaries({"x": or_null(st.integers(-9, 9))})),
    }
)
LINE_SCHEMA = STRING
LINE_STRATEGY = st.binary(max_size=6).map(bytes) | st.text(max_size=5).map(
    lambda t: t.encode("utf-8", "replace")
)
INSERT = {
    "type": "InsertField$Value",
    "topic.field": "topic",
    "partition.field": "part?",
    "timestamp.field": "when!",
    "static.field": "fixed",
    "static.value": 'a "text"',
}
ROUTE = {"type": "RegexRouter", "regex": "(.*)", "replacement": "x-$1"}
HEADER = {"type": "InsertHeader", "header": "h", "value.literal": "12"}
ROW_CHAINS = (
    chained(INSERT, ROUTE, HEADER),
    chained(
        {"type": "ReplaceField$Value", "exclude": "money,raw", "renames": "name:title,id:number"}, INSERT
    ),
    chained({"type": "MaskField$Value", "fields": "id,text,big,half,yes,day,at,list"}),
    chained({"type": "MaskField$Value", "fields": "id,text,big,half", "replacement": "77"}),
    chained(
        {"type": "Cast$Value", "spec": "id:int8,big:string,half:int16,yes:int32,text:boolean"},
        {"type": "Cast$Value", "spec": "id:float32,yes:boolean,half:float64"},
    ),
    chained(
        {"type": "ValueToKey", "fields": "id,name,big,in.x", "field.syntax.version": "V2"},
        {"type": "ExtractField$Key", "field": "big"},
        {"type": "ExtractField$Value", "field": "in.x", "field.syntax.version": "V2"},
    ),
    chained(
        {"type": "ValueToKey", "fields": "in,money", "replace.null.with.default": "false"},
        {"type": "SetSchemaMetadata$Value", "schema.name": "other", "schema.version": "9"},
        {"type": "HoistField$Value", "field": "all"},
    ),
    chained(
        {"type": "DropHeaders", "headers": "old"},
        HEADER,
        {"type": "TimestampRouter", "topic.format": "${timestamp}.${topic}"},
        {"type": "ExtractField$Value", "field": "name"},
        {"type": "HoistField$Value", "field": "n"},
        {"type": "SetSchemaMetadata$Value", "schema.name": "small"},
    ),
)
LINE_CHAINS = (chained({"type": "HoistField$Value", "field": "line"}, INSERT), chained(ROUTE, HEADER))
FEW_EXAMPLES = settings(
    max_examples=2,  # the first example is the simplest and is skipped; the second example has many rows
    phases=[Phase.generate],  # shrinking a failing example would require one job per attempt
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@FEW_EXAMPLES
@given(rows=st.lists(ROW_STRATEGY, min_size=40, max_size=60), partition=st.integers(0, 3))
def test_struct_rows_match_the_record_path(
    spark: SparkSession, rows: list[dict[str, Any]], partition: int
) -> None:
    if is_simplest(rows):
        return
    kind = arrow_type(ROW_SCHEMA)
    table = pa.table(
        {
            "value": pa.array(rows, kind),
            "partition": pa.array([partition] * len(rows), pa.int32()),
            "headers": pa.array(
                [[{"key": "old", "value": b"1"}, {"key": "own", "value": None}]] * len(rows),
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )
    batch = SourceBatch(offsets={}, topic="orders", value_schema=ROW_SCHEMA, timestamp_ms=1_700_000_000_123)
    for config in ROW_CHAINS:
        steps = chain_steps(make_chain(REGISTRY, config))
        expected = by_records(steps, batch, table)
        assert expected is not None
        assert by_columns(spark, steps, batch, table) == expected, config


@FEW_EXAMPLES
@given(lines=st.lists(LINE_STRATEGY, min_size=60, max_size=90))
def test_lines_with_invalid_utf8_match_the_record_path(spark: SparkSession, lines: list[bytes]) -> None:
    if is_simplest(lines):
        return
    raw = pa.array(lines, pa.binary())
    texts = pa.StringArray.from_buffers(len(lines), *raw.buffers()[1:])
    timestamps = pa.array([dt.datetime(1969, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)] * len(lines))
    table = pa.table({"value": texts, "topic": pa.array(["t"] * len(lines)), "timestamp": timestamps})
    for topic in ("lines", None):
        batch = SourceBatch(offsets={}, topic=topic, value_schema=LINE_SCHEMA)
        for config, value in zip(LINE_CHAINS, (JSON_CONVERTER, STRING_CONVERTER), strict=True):
            if topic is None and config is LINE_CHAINS[1]:
                continue  # no column form: topics differ by row
            steps = chain_steps(make_chain(REGISTRY, config), value)
            assert by_columns(spark, steps, batch, table) == by_records(steps, batch, table), config


def test_null_in_a_required_field_requires_the_record_path(spark: SparkSession) -> None:
    table = pa.table({"value": pa.array(["a", None])})
    batch = SourceBatch(offsets={}, topic="lines", value_schema=STRING, timestamp_ms=1)
    hoist = {"type": "HoistField$Value", "field": "line"}
    drop_config = chained(hoist, {**INSERT}, {"type": "ExtractField$Value", "field": "topic"})
    for config in (chained(hoist), drop_config):
        steps = chain_steps(make_chain(REGISTRY, config))
        assert by_records(steps, batch, table) is None
        assert by_columns(spark, steps, batch, table) is None, (
            "fields that are not written must be checked as well"
        )


# --- through the engine -------------------------------------------------------------------------------------------

STATIC_CHAIN_CONFIG = {
    **chained({"type": "HoistField$Value", "field": "line"}, {**INSERT, "timestamp.field": "when"}, ROUTE),
    "value.converter": JSON_CONVERTER,
}


def test_source_with_a_static_chain_processes_no_record_in_python(
    harness: TaskHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write a table and a batch that Spark reads. A row in doubt fails on the record path with Connect's error."""
    topic = harness.topic()
    harness.create(f"x-{topic}")
    name = f"columns-{uuid.uuid4().hex[:8]}"
    observer = harness.open(name, "ListSource", STATIC_CHAIN_CONFIG)
    observer.expect(Opened)
    lines: list[str | None] = [f"line {n}" for n in range(1000)]

    def read(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(pa.table({"value": lines})).coalesce(1)

    def make_batch(**fields: Any) -> SourceBatch:
        return SourceBatch(
            offsets={PARTITION: {"n": 1}}, topic=topic, value_schema=STRING, timestamp_ms=1, **fields
        )

    with monkeypatch.context() as patch:
        patch.setattr("kraal.engine.records.source_pass.SourcePass.__call__", None)
        for source_batch in (make_batch(table=pa.table({"value": lines})), make_batch(read=read)):
            plugins.BATCHES[name].append(source_batch)
            observer.run.next()
            batch_done = observer.expect(BatchDone)
            assert (batch_done.records, batch_done.topics) == (1000, frozenset({TopicName(f"x-{topic}")}))
    lines[7] = None
    plugins.BATCHES[name].append(make_batch(table=pa.table({"value": lines})))
    observer.run.next()
    failure = observer.expect(Failed)
    assert failure.trace.splitlines()[0].startswith(
        'org.apache.kafka.connect.errors.DataException: Invalid value: null used for required field: "line"'
    )
    assert failure.errors.errors == 1
    first = json.loads(harness.values(f"x-{topic}", 2000)[0])
    assert first["payload"] == {
        "line": "line 0",
        "topic": topic,
        "part": None,
        "when": 1,
        "fixed": 'a "text"',
    }

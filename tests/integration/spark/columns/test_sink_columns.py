"""Tests that the column path and the record path of sinks have the same output, except for rows in doubt."""

from __future__ import annotations

import datetime as dt
import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from kraal.converters.json.converter import JsonConverter
from kraal.engine.columns import sink as sink_columns
from kraal.engine.columns.sink import Sample, SinkColumns
from kraal.engine.columns.source import needs_record_path
from kraal.engine.records.sink_pass import COLUMNS, SinkPass
from kraal.engine.records.steps import Steps
from kraal.engine.records.tolerance import Tolerance
from kraal.plugins.api import SinkValues
from kraal.plugins.model.records import Float32, Struct
from kraal.plugins.model.schema import STRING, Field, Schema, Type
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import make_chain
from tests.fakes.spark.column_path import STRING_CONVERTER, UTC, chain_steps, chained, json_converter

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROW_SCHEMA = Schema(
    type=Type.STRUCT,
    name="row",
    fields=(
        Field(name="id", schema=Schema(type=Type.INT32)),
        Field(name="text", schema=Schema(type=Type.STRING, optional=True)),
        Field(name="big", schema=Schema(type=Type.INT64, optional=True, default=7)),
        Field(name="half", schema=Schema(type=Type.FLOAT64, optional=True)),
        Field(name="single", schema=Schema(type=Type.FLOAT32, optional=True)),
        Field(name="yes", schema=Schema(type=Type.BOOLEAN, optional=True)),
        Field(name="raw", schema=Schema(type=Type.BYTES, optional=True)),
        Field(name="list", schema=Schema(type=Type.ARRAY, value=Schema(type=Type.STRING, optional=True))),
        Field(
            name="in",
            schema=Schema(
                type=Type.STRUCT,
                optional=True,
                fields=(Field(name="x", schema=Schema(type=Type.INT16)),),
            ),
        ),
    ),
)
REPLACE_FIELD = {"type": "ReplaceField$Value", "exclude": "raw,single", "renames": "text:title"}
CAST = {"type": "Cast$Value", "spec": "yes:string,id:int64"}
CHAINS = (
    chained(
        REPLACE_FIELD | {"exclude": "raw"}, CAST, {"type": "MaskField$Value", "fields": "title,big,list,in.x"}
    ),
    chained(
        REPLACE_FIELD,
        CAST,
        {
            "type": "InsertField$Value",
            "topic.field": "topic",
            "partition.field": "part!",
            "offset.field": "at",
            "timestamp.field": "time",
        },
        {"type": "RegexRouter", "regex": "(.*)", "replacement": "x-$1"},
        {"type": "ValueToKey", "fields": "id"},
        {"type": "ExtractField$Key", "field": "id"},
    ),
)
CHAINS[1]["transforms"] += ",sql"
CHAINS[1].update(
    {
        "transforms.sql.type": "kraal.transforms.SQL",
        "transforms.sql.expressions": "upper(title) AS loud, id * 2 + `in`.x AS twice, half",
    }
)
REPLACEMENTS = (
    ('"text":"', '"text":"\\u0041'),
    ('"text":"', '"text": "'),
    ('"text":"', '"text":5,"text":"'),
    ('"id":', '"id":1.0,"other":'),
    ('"id":', '"id":99999999999'),
    ('"id":', '"id":"1","x":'),
    ('"id":', '"id":null,"x":'),
    ('"id":', '"ID":'),
    ('"half":', '"half":"NaN","y":'),
    ('"half":', '"half":-'),
    ('"yes":', '"yes":0,"z":'),
    ('"list":[', '"list":[5,'),
    ('"list":[', '"list":[["a"],'),
    ('"in":{"x":', '"in":{"x":70000'),
    ('"in":{"x":', '"in":{"y":'),
    ('"optional":false', '"optional":true'),
    ("}}", "}} "),
    ("}}", "}}}"),
    ("}}", '},"more":1}'),
    ("}}", "}"),
)
"""Replacements that result in documents unlike the sample."""


def make_value(rng: random.Random) -> Struct:
    def or_null(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    words = ["", "plain", 'a "quoted" \\ one', "tab\tline\n", "é", "\u0001", "/", "😀"]
    return Struct(
        ROW_SCHEMA,
        {
            "id": rng.randint(-(2**31), 2**31 - 1),
            "text": or_null(rng.choice(words)),
            "big": rng.randint(-(2**63), 2**63 - 1),
            "half": or_null(rng.choice([1.5, -0.25, 1e7, 12345.678, 0.0, -0.0, float("nan"), 1e300])),
            "single": or_null(Float32(rng.randint(-9, 9) / 4)),
            "yes": or_null(rng.random() < 0.5),
            "raw": or_null(rng.randbytes(rng.randint(0, 4))),
            "list": [or_null(rng.choice(words)) for _ in range(rng.randint(0, 2))],
            "in": or_null(Struct(ROW_SCHEMA.fields[-1].schema, {"x": rng.randint(-9, 9)})),
        },
    )


PLAIN_CHAINS: tuple[tuple[dict[str, str], SinkValues], ...] = (
    (
        chained(
            {"type": "ReplaceField$Value", "exclude": "raw", "renames": "text:title,half:part"},
            {"type": "Cast$Value", "spec": "yes:string,id:int8,part:int32"},
            {"type": "MaskField$Value", "fields": "title,big,list"},
        ),
        "text",
    ),
    (
        chained(
            {"type": "MaskField$Value", "fields": "text,big,half", "replacement": "17"},
            {"type": "RegexRouter", "regex": "(.*)", "replacement": "x-$1"},
            {"type": "Cast$Value", "spec": "big:string,id:boolean"},
        ),
        "json",
    ),
)
PLAIN_REPLACEMENTS = (
    *REPLACEMENTS[:13],
    ('"big":', '"big":1.0,"more":'),
    ('"half":', '"half":1'),
    ('"half":', '"half":1e3,"more":'),
    ('"half":', '"half":-0.0,"more":'),
    ('"id":', '"id":-0,"more":'),
    ('"id":', '"id":01,"more":'),
    ('"yes":', '"yes":null,"more":'),
    ("}}", "}} "),
    ("}}", '}},"payload":{"id":1}'),
    ("}}", "}"),
)


def make_plain_json(rng: random.Random) -> bytes:
    """Return a schemaless JSON record, as most producers write it."""

    def or_null(value: Any) -> Any:
        return None if rng.random() < 0.1 else value

    words = ["", "plain", 'a "quoted" \\ one', "tab\tline\n", "é", "/", "😀", "null"]
    record = {
        "id": or_null(rng.randint(-300, 300)),
        "text": or_null(rng.choice(words)),
        "big": or_null(rng.randint(-(2**63), 2**63 - 1)),
        "half": or_null(rng.choice([1.5, -0.25, 12345.678, 0.0])),
        "yes": or_null(rng.random() < 0.5),
        "raw": or_null(rng.choice(words)),
        "list": [or_null(rng.choice(words)) for _ in range(rng.randint(0, 2))],
        "in": or_null({"x": or_null(rng.randint(-9, 9)), "y": rng.choice(words)}),
    }
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


FULL_DOCUMENT = (
    b'{"id":1,"text":"t","big":2,"half":0.5,"yes":true,"raw":"r","list":["l"],"in":{"x":1,"y":"y"}}'
)


def make_table(values: list[bytes | None], keys: list[bytes | None]) -> pa.Table:
    count = len(values)
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.table(
        {
            "topic": ["orders"] * count,
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([dt.datetime(2024, 1, 1, 0, 0, 0, 123000, tzinfo=UTC)] * count),
            "timestampType": pa.array([n % 3 - 1 for n in range(count)], pa.int32()),
            "headers": pa.array(
                [[{"key": "h", "value": b"1"}] if n % 2 else None for n in range(count)], header
            ),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    ).select(list(COLUMNS))


def by_records(
    steps: Steps, value_form: SinkValues, table: pa.Table, spark: SparkSession
) -> dict[int, tuple[Any, ...]]:
    """Process a table on the record path. Return the valid records by offset, with values as strings."""
    run_pass = SinkPass(steps=steps, value_form=value_form)
    rows = pa.Table.from_batches(list(run_pass(table.to_batches())))
    frame = spark.createDataFrame(rows.filter(rows["note"].is_null())).withColumns(
        {n: F.expr(f"cast({n} as string)" if value_form != "json" else f"to_json(try_parse_json(cast({n} as string)))")
         for n in ("key", "value")}
    )  # fmt: skip
    return collect_rows(frame)


def collect_rows(frame: DataFrame) -> dict[int, tuple[Any, ...]]:
    names = ("offset", "topic", "partition", "timestamp", "headers", "key", "value")
    return {row[0]: tuple(row) for row in frame.select(*names).collect()}


def drop_doubtful_rows(frame: DataFrame, is_doubtful: Column) -> DataFrame:
    return frame.where(~F.coalesce(is_doubtful, F.lit(False)))  # noqa: FBT003 - a Spark literal


def test_transformed_json_matches_the_record_path(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least 40 records are not in doubt, and all of these have the same output on both paths."""
    monkeypatch.setattr(sink_columns, "_fail_on_doubts", drop_doubtful_rows)
    rng, encode = random.Random(7), json_converter().encode  # noqa: S311 - test data
    valid_documents = [encode("", ROW_SCHEMA, make_value(rng)) for _ in range(150)]
    unusual_documents: list[bytes | None] = [
        None,
        b"",
        b"{}",
        encode("", STRING, "text"),
        encode("", None, None),
    ]
    for old, new in REPLACEMENTS:
        for document in valid_documents[:5]:
            assert document is not None
            changed = document.decode().replace(old, new, 1) if old != "}}" else document.decode()[:-2] + new
            unusual_documents.append(changed.encode())
    values = [*valid_documents, *unusual_documents, b"\xff" + (valid_documents[0] or b"")]
    keys: list[bytes | None] = [encode("", STRING, f"k{n}") for n in range(len(values))]
    table = make_table(values, keys)
    cases: list[tuple[dict[str, str], SinkValues]] = [
        (CHAINS[0], "text"),
        (CHAINS[1], "json"),
        (CHAINS[1], "json-text"),
    ]
    for config, value_form in cases:
        base_steps = chain_steps(make_chain(Registry.load(), config))
        steps = Steps(
            **{**{n: getattr(base_steps, n) for n in Steps.__slots__}, "tolerance": Tolerance(all=True)}
        )
        expected = by_records(steps, value_form, table, spark)
        frame = SinkColumns(steps, value_form).frame(
            spark.createDataFrame(table).coalesce(1), Sample(keys[0], valid_documents[0]), "orders"
        )
        assert frame is not None
        if value_form == "json":
            frame = frame.withColumns({n: F.to_json(n) for n in ("key", "value")})
        rows = collect_rows(frame)
        assert len(rows) >= 40
        for offset, row in rows.items():
            assert row == expected.get(offset), (config, values[offset])


def plain_steps(config: dict[str, str]) -> Steps:
    """Return the steps of the record path for schemaless JSON. The steps skip invalid records."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    steps = chain_steps(make_chain(Registry.load(), config))
    return replace(steps, value=converter, key=converter, tolerance=Tolerance(all=True))


@pytest.mark.parametrize(("config", "value_form"), [*PLAIN_CHAINS, (PLAIN_CHAINS[1][0], "json-text")])
def test_schemaless_json_matches_the_record_path(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, config: dict[str, str], value_form: SinkValues
) -> None:
    """At least 150 records are not in doubt, and all of these have the same output on both paths."""
    monkeypatch.setattr(sink_columns, "_fail_on_doubts", drop_doubtful_rows)
    rng = random.Random(11)  # noqa: S311 - test data
    valid_documents = [make_plain_json(rng) for _ in range(200)]
    unusual_documents: list[bytes | None] = [
        None,
        b"",
        b"{}",
        b"7",
        b"[]",
        b"null",
        b"\xff" + FULL_DOCUMENT,
        FULL_DOCUMENT + b"{}",
    ]
    for old, new in PLAIN_REPLACEMENTS:
        for document in (FULL_DOCUMENT, *valid_documents[:4]):
            text = document.decode()
            unusual_documents.append((text.replace(old, new, 1) if old != "}}" else text[:-2] + new).encode())
    values = [*valid_documents, *unusual_documents]
    keys: list[bytes | None] = [b'{"k":%d}' % n for n in range(len(values))]
    steps, table = plain_steps(config), make_table(values, keys)
    expected = by_records(steps, value_form, table, spark)
    frame = SinkColumns(steps, value_form).frame(
        spark.createDataFrame(table).coalesce(1), Sample(keys[0], FULL_DOCUMENT), "orders"
    )
    assert frame is not None
    if value_form == "json":
        frame = frame.withColumns({n: F.to_json(n) for n in ("key", "value")})
    rows = collect_rows(frame)
    assert len(rows) >= 150
    for offset, row in rows.items():
        assert row == expected.get(offset), values[offset]


@pytest.mark.parametrize(
    "transform",
    [
        {"type": "HoistField$Value", "field": "line"},
        {"type": "InsertField$Value", "static.field": "x", "static.value": "y"},
        {"type": "Cast$Value", "spec": "missing:string"},
        {"type": "Cast$Value", "spec": "string"},
        {"type": "MaskField$Value", "fields": "missing"},
        {"type": "MaskField$Value", "fields": "in"},
        {"type": "ReplaceField$Value", "renames": "id:text"},
    ],
)
def test_unsupported_transform_requires_the_record_path(
    spark: SparkSession, transform: dict[str, str]
) -> None:
    raw = spark.createDataFrame(make_table([FULL_DOCUMENT], [None]))
    steps = plain_steps(chained(transform))
    assert SinkColumns(steps, "text").frame(raw, Sample(None, FULL_DOCUMENT), "t") is None


@pytest.mark.parametrize(
    "sample", [b"[1]", b"7", b'"a"', b"{}", b'{"a":{}}', b'{"a":[[1]]}', b'{"a":[{"b":1}]}']
)
def test_unsupported_json_values_require_the_record_path(spark: SparkSession, sample: bytes) -> None:
    steps = plain_steps(chained({"type": "ReplaceField$Value", "exclude": "z"}))
    raw = spark.createDataFrame(make_table([sample], [None]))
    assert SinkColumns(steps, "text").frame(raw, Sample(None, sample), "t") is None


def test_row_in_doubt_fails_the_job(spark: SparkSession) -> None:
    hoist = chained({"type": "HoistField$Value", "field": "line"})
    steps = chain_steps(make_chain(Registry.load(), hoist), STRING_CONVERTER)
    keys: list[bytes | None] = [None, None]
    good_table, bad_table = (
        make_table([b"a\xff", "é".encode()], keys),
        make_table([b"a", b"b"], [None, b"{}"]),
    )
    for table, is_failure_expected in ((good_table, False), (bad_table, True)):
        frame = SinkColumns(steps, "text").frame(
            spark.createDataFrame(table).coalesce(1), Sample(None, b"a"), "orders"
        )
        assert frame is not None
        if not is_failure_expected:
            assert collect_rows(frame) == by_records(steps, "text", table, spark)
            continue
        with pytest.raises(Exception) as raised:  # noqa: PT011 - the next line checks the error
            collect_rows(frame)
        assert needs_record_path(raised.value)


def test_unsupported_samples_require_the_record_path(spark: SparkSession) -> None:
    steps = chain_steps(make_chain(Registry.load(), CHAINS[0]))
    raw = spark.createDataFrame(make_table([b"{}"], [None]))
    timestamp_schema = {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "optional": True}
    for sample in (
        b"{}",
        b"no json",
        b'{"payload":1,"schema":null}',
        json.dumps({"schema": timestamp_schema, "payload": 1}).encode(),
    ):
        assert SinkColumns(steps, "text").frame(raw, Sample(None, sample), "t") is None


def test_null_payload_requires_the_record_path(spark: SparkSession) -> None:
    optional_row = replace(ROW_SCHEMA, optional=True, fields=ROW_SCHEMA.fields[:1])
    chain = chained({"type": "InsertField$Value", "static.field": "x", "static.value": "y"})
    steps, encode = chain_steps(make_chain(Registry.load(), chain)), json_converter().encode
    some_value, null_value = (
        encode("", optional_row, Struct(optional_row, {"id": 1})),
        encode("", optional_row, None),
    )
    for values, is_failure_expected in (([some_value, some_value], False), ([some_value, null_value], True)):
        raw = spark.createDataFrame(make_table(values, [None, None])).coalesce(1)
        frame = SinkColumns(steps, "json").frame(raw, Sample(None, some_value), "orders")
        assert frame is not None
        if not is_failure_expected:
            assert [row["value"].toPython() for row in frame.collect()] == [{"id": 1, "x": "y"}] * 2
            continue
        with pytest.raises(Exception) as raised:  # noqa: PT011 - the next line checks the error
            frame.collect()
        assert needs_record_path(raised.value)

"""By columns a source's chains give the very bytes that they give record by record, or leave the batch to that."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from kraal.converters.json import JsonConverter
from kraal.converters.string import StringConverter
from kraal.offsets import SourcePartition
from kraal.plugins.api import Converter, SourceBatch
from kraal.plugins.chain import Chain, ChainInvalid, make_chain
from kraal.plugins.columns import Columns
from kraal.plugins.headers import SimpleHeaderConverter
from kraal.plugins.records import DATE, DECIMAL, TIMESTAMP, Instant, Struct
from kraal.plugins.registry import Registry
from kraal.plugins.schema import STRING, Field, Schema, Type
from kraal.spark.api import BatchDone, Failed, Opened
from kraal.spark.column_parts import column_of
from kraal.spark.kafka_writer import kafka_frame
from kraal.spark.plugins import Converters
from kraal.spark.records.source_pass import SourcePass
from kraal.spark.records.steps import Steps, summed
from kraal.spark.source_columns import SourceColumns, given_by, is_doubt
from tests.fakes import spark_plugins as plugins
from tests.fakes.spark_stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOLDEN = Path(__file__).parents[2] / "golden" / "transforms" / "4.3.0" / "chains.json"
REGISTRY = Registry.load()
CONNECT = "org.apache.kafka.connect."
JSON = f"{CONNECT}json.JsonConverter"
TEXT = f"{CONNECT}storage.StringConverter"
PLACE = SourcePartition.of({"list": "a"})
UTC = dt.UTC

ARROW = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}


def arrow_type(schema: Schema) -> pa.DataType:
    """Return the type of a column that holds values of a schema."""
    if schema.name == DECIMAL:
        return pa.decimal128(38, int(schema.parameters["scale"]))
    if schema.name in {DATE, TIMESTAMP}:
        return pa.date32() if schema.name == DATE else pa.timestamp("us", "UTC")
    match schema.type:
        case Type.STRUCT:
            return pa.struct([(field.name, arrow_type(field.schema)) for field in schema.fields])
        case Type.ARRAY:
            assert schema.value is not None
            return pa.list_(arrow_type(schema.value))
        case Type.MAP:
            assert schema.key is not None
            assert schema.value is not None
            return pa.map_(arrow_type(schema.key), arrow_type(schema.value))
        case kind:
            return ARROW[kind]


def plain(value: Any) -> Any:
    """Return a value of Connect's as Arrow takes it."""
    match value:
        case Struct():
            return {field.name: plain(value.values.get(field.name)) for field in value.schema.fields}
        case Instant():
            return dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(milliseconds=value.ms)
        case list():
            return [plain(each) for each in value]
        case dict():
            return [(plain(key), plain(item)) for key, item in value.items()]
        case _:
            return value


def json_converter() -> JsonConverter:
    made = JsonConverter()
    made.configure({"schemas.enable": "true"}, is_key=False)
    return made


def steps_of(chain: Chain, value: str = JSON) -> Steps:
    headers = SimpleHeaderConverter()
    headers.configure({}, is_key=False)
    converter: Converter = json_converter()
    if value == TEXT:
        converter = StringConverter()
        converter.configure({}, is_key=False)
    return Steps(
        chain=chain,
        key=json_converter(),
        value=converter,
        headers=headers,
        key_class=JSON,
        value_class=value,
        header_class="",
    )


def by_records(steps: Steps, batch: SourceBatch, table: pa.Table) -> list[dict[str, Any]] | None:
    """Return the rows of the record path; None when it fails."""
    one = SourcePass(
        steps=steps,
        topic=batch.topic,
        key_schema=batch.key_schema,
        value_schema=batch.value_schema,
        timestamp_ms=batch.timestamp_ms,
    )
    found = pa.Table.from_batches(list(one(table.to_batches()))).to_pylist()
    if summed([row["note"] for row in found])[0].fatal is not None:
        return None
    rows = [row for row in found if row["topic"] is not None]
    return [{name: row[name] for name in ("topic", "key", "value", "headers", "partition")} for row in rows]


# --- the golden chains, many in one job ---------------------------------------------------------------------------


@dataclass
class Golden:
    """A record of a golden case, with what the record path makes of it and how it would go by columns."""

    name: str
    types: Sequence[str]
    table: pa.Table
    expected: dict[str, Any] | None
    dropped: bool
    out: Columns | None


def golden() -> list[Golden]:
    reader, found = json_converter(), []
    for case in json.loads(GOLDEN.read_text("utf-8")):
        try:
            chain = make_chain(REGISTRY, case["config"])
        except ChainInvalid:
            continue
        for record in case["records"]:
            made = one_golden(reader, chain, case, record, len(found))
            if made is not None:
                found.append(made)
    return found


def one_golden(
    reader: JsonConverter, chain: Chain, case: Mapping[str, Any], record: Mapping[str, Any], at: int
) -> Golden | None:
    """Return None for a record without a schema: there is no column form for it."""
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
            return None  # beyond what columns hold
        schemas[part] = schema
    if record["partition"] is not None:
        columns["partition"] = pa.array([record["partition"]], pa.int32())
    table = pa.table(columns) if columns else pa.table({"partition": pa.array([None], pa.int32())})
    batch = SourceBatch(
        offsets={},
        topic=record["topic"],
        key_schema=schemas["key"],
        value_schema=schemas["value"],
        timestamp_ms=record["timestamp"],
    )
    steps = steps_of(chain)
    rows = by_records(steps, batch, table)
    planned = SourceColumns(steps, Converters(steps.key, steps.value, ()), ()).plan(
        batch, frozenset(table.column_names)
    )
    out = None
    if planned is not None:
        renamed = given_by(batch, frozenset(table.column_names))
        assert renamed is not None
        for part in ("key", "value"):
            name = f"{part}{at}"
            if part in columns:
                held = replace(getattr(renamed, part), expression=lambda name=name: F.col(name))
                renamed = replace(renamed, **{part: held})
        out = chain.columns(renamed)
        assert out is not None
    types = [text.rpartition(".")[2] for key, text in case["config"].items() if key.endswith(".type")]
    return Golden(
        f"{case['name']} {at}", types, table, rows[0] if rows else None, rows is not None and not rows, out
    )


def test_golden_chains_of_known_schemas_give_the_same_bytes_or_are_in_doubt(spark: SparkSession) -> None:
    cases = golden()
    chosen = [(at, case) for at, case in enumerate(cases) if case.out is not None]
    wide = {
        f"{name}{at}": case.table[name]
        for at, case in chosen
        for name in case.table.column_names
        if name != "partition"
    }
    frame = spark.createDataFrame(pa.table({"partition": pa.array([7], pa.int32()), **wide}))
    outs = [selected(at, case) for at, case in chosen]
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
        assert case.expected is not None, f"{case.name}: by records it fails"
        got = {part: row[f"{part}_out{at}"] for part in ("key", "value")}
        shown = {part: None if data is None else bytes(data) for part, data in got.items()}
        assert shown == {part: case.expected[part] for part in shown}, case.name
        assert case.out is not None
        assert case.out.topic == case.expected["topic"], case.name
        went |= set(case.types)
    assert sum(not row[f"doubt{at}"] for at, _ in chosen) >= 60
    assert went >= FORMS


FORMS = {
    "HoistField$Value",
    "InsertField$Value",
    "ReplaceField$Value",
    "MaskField$Value",
    "ExtractField$Value",
    "ValueToKey",
    "RegexRouter",
    "TimestampRouter",
    "SetSchemaMetadata$Value",
    "InsertHeader",
}
"""Each of them was in at least one chain that went by columns."""


def selected(at: int, case: Golden) -> list[Any]:
    """Return the doubt, the key and the value of a case; nothing but the doubt where records fail."""
    out = case.out
    assert out is not None
    doubt: Any = F.lit(False)  # noqa: FBT003 - Spark's literal
    for each in out.doubts:
        doubt = doubt | F.coalesce(each(), F.lit(False))  # noqa: FBT003 - as above
    found = [doubt.alias(f"doubt{at}")]
    for name, part in (("key", out.key), ("value", out.value)):
        column = F.lit(None).cast("binary")
        if case.expected is not None and not part.is_nothing:
            written = json_converter().from_connect(F.lit("t"), column_of(part), part.schema)
            column = F.when(~doubt, written)
        found.append(column.alias(f"{name}_out{at}"))
    return found


# --- any rows, as the engine does it ------------------------------------------------------------------------------

ROW = Schema(
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


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**31), 2**31 - 1),
        "text": or_null(WORDS),
        "name": WORDS,
        "big": or_null(st.integers(-(2**63), 2**63 - 1)),
        "half": or_null(st.integers(-1000, 1000).map(lambda n: n / 4)),
        "yes": or_null(st.booleans()),
        "raw": or_null(st.binary(max_size=4)),
        "day": or_null(st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1))),
        "at": or_null(
            st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis wants them so
        ),
        "money": or_null(st.decimals(-9999, 9999, places=2)),
        "list": st.lists(or_null(WORDS), max_size=2),
        "in": or_null(st.fixed_dictionaries({"x": or_null(st.integers(-9, 9))})),
    }
)
LINE = STRING
LINES = st.binary(max_size=6).map(bytes) | st.text(max_size=5).map(lambda t: t.encode("utf-8", "replace"))
TYPES = f"{CONNECT}transforms."


def chained(*stages: dict[str, str]) -> dict[str, str]:
    config = {"transforms": ",".join(f"t{n}" for n in range(len(stages)))}
    for number, stage in enumerate(stages):
        config |= {f"transforms.t{number}.{key}": text for key, text in stage.items()}
        config[f"transforms.t{number}.type"] = TYPES + stage["type"]
    return config


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
        {"type": "ValueToKey", "fields": "id,name,big"},
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
CALM = settings(
    max_examples=6,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def by_columns(
    spark: SparkSession, steps: Steps, batch: SourceBatch, table: pa.Table
) -> list[dict[str, Any]] | None:
    """Return the rows that would be written; None where the batch goes by records."""
    columns = SourceColumns(steps, Converters(steps.key, steps.value, ()), ())
    planned = columns.plan(batch, frozenset(table.column_names))
    assert planned is not None
    plan, topic = planned
    try:
        found = kafka_frame(spark.createDataFrame(table).coalesce(1), plan, topic).collect()
    except PySparkException as exc:
        if not is_doubt(exc):
            raise
        return None
    return [as_written(row.asDict(recursive=True), topic) for row in found]


def as_written(row: dict[str, Any], topic: str | None) -> dict[str, Any]:
    def data(value: Any) -> bytes | None:
        return None if value is None else bytes(value)

    headers = row.get("headers") or None
    return {
        "topic": topic or row["topic"],
        "key": data(row.get("key")),
        "value": data(row["value"]),
        "headers": headers and [{"key": h["key"], "value": data(h["value"])} for h in headers],
        "partition": row.get("partition"),
    }


@CALM
@given(rows=st.lists(ROWS, min_size=1, max_size=4), pick=st.integers(0, 3))
def test_any_rows_of_a_struct_come_out_the_same(
    spark: SparkSession, rows: list[dict[str, Any]], pick: int
) -> None:
    kind = arrow_type(ROW)
    table = pa.table(
        {
            "value": pa.array(rows, kind),
            "partition": pa.array([pick] * len(rows), pa.int32()),
            "headers": pa.array(
                [[{"key": "old", "value": b"1"}, {"key": "own", "value": None}]] * len(rows),
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )
    batch = SourceBatch(offsets={}, topic="orders", value_schema=ROW, timestamp_ms=1_700_000_000_123)
    for config in ROW_CHAINS:
        steps = steps_of(make_chain(REGISTRY, config))
        expected = by_records(steps, batch, table)
        assert expected is not None
        assert by_columns(spark, steps, batch, table) == expected, config


@CALM
@given(lines=st.lists(LINES, min_size=1, max_size=8))
def test_any_lines_come_out_the_same_also_those_that_are_no_utf_8(
    spark: SparkSession, lines: list[bytes]
) -> None:
    raw = pa.array(lines, pa.binary())
    texts = pa.StringArray.from_buffers(len(lines), *raw.buffers()[1:])
    moments = pa.array([dt.datetime(1969, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)] * len(lines))
    table = pa.table({"value": texts, "topic": pa.array(["t"] * len(lines)), "timestamp": moments})
    for topic in ("lines", None):
        batch = SourceBatch(offsets={}, topic=topic, value_schema=LINE)
        for config, value in zip(LINE_CHAINS, (JSON, TEXT), strict=True):
            if topic is None and config is LINE_CHAINS[1]:
                continue  # no column form: topics differ by row
            steps = steps_of(make_chain(REGISTRY, config), value)
            assert by_columns(spark, steps, batch, table) == by_records(steps, batch, table), config


def test_a_null_where_none_may_be_is_left_to_records(spark: SparkSession) -> None:
    table = pa.table({"value": pa.array(["a", None])})
    batch = SourceBatch(offsets={}, topic="lines", value_schema=STRING, timestamp_ms=1)
    hoist = {"type": "HoistField$Value", "field": "line"}
    drops = chained(hoist, {**INSERT}, {"type": "ExtractField$Value", "field": "topic"})
    for config in (chained(hoist), drops):
        steps = steps_of(make_chain(REGISTRY, config))
        assert by_records(steps, batch, table) is None
        assert by_columns(spark, steps, batch, table) is None, "what is not written is checked as well"


# --- through the engine -------------------------------------------------------------------------------------------

STATIC = {
    **chained({"type": "HoistField$Value", "field": "line"}, {**INSERT, "timestamp.field": "when"}, ROUTE),
    "value.converter": JSON,
}


def test_a_source_with_a_static_chain_sends_no_record_through_python(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small table and what Spark reads; then a row in doubt, which the record path refuses in Connect's words."""
    topic = stage.topic()
    stage.create(f"x-{topic}")
    name = f"columns-{uuid.uuid4().hex[:8]}"
    opening = stage.open(name, "ListSource", STATIC)
    opening.expect(Opened)
    lines: list[str | None] = [f"line {n}" for n in range(1000)]

    def read(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(pa.table({"value": lines})).coalesce(1)

    def batch(**given: Any) -> SourceBatch:
        return SourceBatch(
            offsets={PLACE: {"n": 1}}, topic=topic, value_schema=STRING, timestamp_ms=1, **given
        )

    with monkeypatch.context() as patched:
        patched.setattr("kraal.spark.records.source_pass.SourcePass.__call__", None)
        for each in (batch(table=pa.table({"value": lines})), batch(read=read)):
            plugins.BATCHES[name].append(each)
            opening.run.next()
            done = opening.expect(BatchDone)
            assert (done.records, done.topics) == (1000, {f"x-{topic}"})
    lines[7] = None
    plugins.BATCHES[name].append(batch(table=pa.table({"value": lines})))
    opening.run.next()
    failed = opening.expect(Failed)
    assert failed.trace.splitlines()[0].startswith(
        'org.apache.kafka.connect.errors.DataException: Invalid value: null used for required field: "line"'
    )
    assert failed.errors.errors == 1
    first = json.loads(stage.values(f"x-{topic}", 2000)[0])
    assert first["payload"] == {
        "line": "line 0",
        "topic": topic,
        "part": None,
        "when": 1,
        "fixed": 'a "text"',
    }


def test_what_can_go_wrong_by_columns_and_what_is_the_same() -> None:
    """Which error means that the batch goes by records, and which batches go in one job."""
    assert is_doubt(ValueError("Invalid schema type"))
    assert is_doubt(RuntimeError("[USER_RAISED_EXCEPTION] no"))
    assert not is_doubt(RuntimeError("the broker is gone"))
    steps = steps_of(make_chain(REGISTRY, STATIC))
    columns = SourceColumns(steps, Converters(steps.key, steps.value, ("same",)), ())

    def identity(topic: str, schema: Schema = STRING) -> object:
        batch = SourceBatch(offsets={}, topic=topic, value_schema=schema, timestamp_ms=1)
        planned = columns.plan(batch, frozenset({"value"}))
        assert planned is not None
        return planned[0].identity()

    assert identity("a") == identity("a")
    assert identity("a") != identity("b"), "the topic is a field of the value"
    assert identity("a") != identity("a", Schema(type=Type.INT32))

"""Processes a batch on both paths: by columns, and record by record."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException

from kraal.converters.json.converter import JsonConverter
from kraal.converters.primitive.string import StringConverter
from kraal.engine.columns.source import SourceColumns, needs_record_path
from kraal.engine.kafka_io.record_times import HEADER
from kraal.engine.kafka_io.writer import kafka_frame
from kraal.engine.records.source_pass import SourcePass
from kraal.engine.records.steps import Steps, merge_notes
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import Converter, SourceBatch
from kraal.plugins.model.records import DATE, DECIMAL, TIMESTAMP, Instant, Struct
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.transform_chain import Chain
from kraal.plugins.values.simple_headers import SimpleHeaderConverter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC: Final = dt.UTC
CONNECT: Final = "org.apache.kafka.connect."
JSON_CONVERTER: Final = f"{CONNECT}json.JsonConverter"
STRING_CONVERTER: Final = f"{CONNECT}storage.StringConverter"
ARROW_TYPES = {
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


def is_simplest(rows: Sequence[object]) -> bool:
    """Return whether all rows are equal, as in Hypothesis' first example, which does not justify a dozen Spark jobs."""
    return len(set(map(repr, rows))) == 1


def arrow_type(schema: Schema) -> pa.DataType:
    """Return the Arrow type for values of a schema."""
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
            return ARROW_TYPES[kind]


def to_arrow_value(value: Any) -> Any:
    """Convert a Connect value to a value that Arrow accepts."""
    match value:
        case Struct():
            return {field.name: to_arrow_value(value.values.get(field.name)) for field in value.schema.fields}
        case Instant():
            return dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(milliseconds=value.ms)
        case list():
            return [to_arrow_value(item) for item in value]
        case dict():
            return [(to_arrow_value(key), to_arrow_value(item)) for key, item in value.items()]
        case _:
            return value


def json_converter() -> JsonConverter:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, is_key=False)
    return converter


def chain_steps(chain: Chain, value: str = JSON_CONVERTER) -> Steps:
    headers = SimpleHeaderConverter()
    headers.configure({}, is_key=False)
    converter: Converter = json_converter()
    if value == STRING_CONVERTER:
        converter = StringConverter()
        converter.configure({}, is_key=False)
    return Steps(
        chain=chain,
        key=json_converter(),
        value=converter,
        headers=headers,
        key_class=JSON_CONVERTER,
        value_class=value,
        header_class="",
    )


def by_records(steps: Steps, batch: SourceBatch, table: pa.Table) -> list[dict[str, Any]] | None:
    """Return the rows of the record path, or None if a record fails the batch."""
    source_pass = SourcePass(
        steps=steps,
        topic=batch.topic,
        key_schema=batch.key_schema,
        value_schema=batch.value_schema,
        timestamp_ms=batch.timestamp_ms,
    )
    output = pa.Table.from_batches(list(source_pass(table.to_batches()))).to_pylist()
    if merge_notes([row["note"] for row in output])[0].fatal is not None:
        return None
    rows = [row for row in output if row["topic"] is not None]
    return [{name: row[name] for name in ("topic", "key", "value", "headers", "partition")} for row in rows]


def by_columns(
    spark: SparkSession, steps: Steps, batch: SourceBatch, table: pa.Table
) -> list[dict[str, Any]] | None:
    """Return the rows of the column path, or None if the batch must take the record path."""
    columns = SourceColumns(steps, Converters(steps.key, steps.value, ()), ())
    plan_and_topic = columns.plan(batch, frozenset(table.column_names))
    assert plan_and_topic is not None
    plan, topic = plan_and_topic
    try:
        rows = kafka_frame(spark.createDataFrame(table).coalesce(1), plan, topic).collect()
    except PySparkException as exc:
        if not needs_record_path(exc):
            raise
        return None
    return [_to_written_record(row.asDict(recursive=True), topic) for row in rows]


def _to_written_record(row: dict[str, Any], topic: str | None) -> dict[str, Any]:
    def data(value: Any) -> bytes | None:
        return None if value is None else bytes(value)

    headers = row.get("headers") or []
    if headers and headers[-1]["key"] == HEADER:
        headers = headers[:-1]  # the header with the time of the record, which the producer removes
    return {
        "topic": topic or row["topic"],
        "key": data(row.get("key")),
        "value": data(row["value"]),
        "headers": [{"key": h["key"], "value": data(h["value"])} for h in headers] or None,
        "partition": row.get("partition"),
    }


def chained(*transforms: dict[str, str]) -> dict[str, str]:
    config = {"transforms": ",".join(f"t{n}" for n in range(len(transforms)))}
    for number, transform in enumerate(transforms):
        config |= {f"transforms.t{number}.{key}": text for key, text in transform.items()}
        config[f"transforms.t{number}.type"] = f"{CONNECT}transforms.{transform['type']}"
    return config

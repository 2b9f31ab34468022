"""Conversion of records to table rows: the columns of the values, plus metadata columns from Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T  # noqa: N812 - Spark's own convention

from kraal.connectors.frames.range_files import OFFSET, RANGE
from kraal.connectors.frames.schema import column_named, parse_struct
from kraal.engine.columns.functions import F
from kraal.plugins.api import SinkValues, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BAD: Final = "__kraal_bad"
_TEXTUAL: Final = frozenset({"text", "csv"})
"""Formats that can store text only."""


def make_rows(frame: DataFrame, parsed: Mapping[str, Any]) -> DataFrame:
    """Return the rows to write, lazily and in the frame's order; `RANGE` and `OFFSET` remain as the last columns.

    A value that is not JSON matching `spark.schema` fails the job that computes it, with topic-partition@offset in the
    error. Raises ValueError for duplicate column names.
    """
    chosen = str(parsed["spark.format"])
    kind = frame.schema["value"].dataType
    if parsed["spark.schema"]:
        declared = parse_struct(str(parsed["spark.schema"]))
        frame = _parse_values(frame, _json_text(kind), declared)
        names = declared.names
    elif isinstance(kind, T.StructType):
        names = kind.names
    else:
        frame = frame.withColumn("value", F.struct(_single(chosen, kind).alias("value")))
        names = ["value"]
    facts = [(f"kafka_{each}", F.col(each)) for each in parsed["metadata.columns"]]
    facts = [(name, _plain(column, frame, name.removeprefix("kafka_"))) for name, column in facts]
    twice = {name for name, _ in facts} & set(names)
    if twice:
        raise ValueError(f"the column {min(twice)} is in the value and in metadata.columns")
    values = [F.col("value").getField(name).alias(name) for name in names]
    positions = [column_named(name) for name in (RANGE, OFFSET) if name in frame.columns]
    return frame.select(*values, *(column.alias(name) for name, column in facts), *positions)


def json_lines(rows: DataFrame, values: SinkValues | None) -> DataFrame | None:
    """Return schemaless values as lines of JSON if nothing else is written; otherwise None."""
    if [name for name in rows.columns if name != RANGE] != ["value"]:
        return None
    if values == "json-text":
        return rows.withColumn("value", F.coalesce(F.col("value"), F.lit("null")))
    if not isinstance(rows.schema["value"].dataType, T.VariantType):
        return None
    return rows.withColumn("value", F.coalesce(F.to_json("value"), F.lit("null")))


def add_range(frame: DataFrame, places: Sequence[TopicPartition]) -> DataFrame:
    """Add `RANGE`; if there are several ranges, sort by it and the offset, so that each is written in order."""
    rows = add_partition_range(frame, places)
    return rows if len(places) == 1 else rows.sortWithinPartitions(RANGE, "offset")


def add_partition_range(frame: DataFrame, places: Sequence[TopicPartition]) -> DataFrame:
    """Add `RANGE`. With several ranges, a record with a topic that a transform changed fails the job."""
    if len(places) == 1:
        return frame.withColumn(RANGE, F.lit(0))
    number: Column | None = None
    for position, place in enumerate(places):
        here = (F.col("topic") == F.lit(place.topic)) & (F.col("partition") == F.lit(place.partition))
        number = F.when(here, F.lit(position)) if number is None else number.when(here, F.lit(position))
    lost = F.raise_error(
        F.concat(
            F.lit("a record's topic was changed to "), "topic", F.lit(", where the batch has no offsets")
        )
    )
    return frame.withColumn(
        RANGE, F.coalesce(number if number is not None else F.lit(None), lost.cast("int"))
    )


def within(frame: DataFrame, spans: Sequence[tuple[int, int] | None]) -> DataFrame:
    """Keep the records with offsets in the span of their range; none for a span of None."""
    is_inside = F.lit(False)  # noqa: FBT003 - Spark's literal
    for number, span in enumerate(spans):
        if span is not None:
            here = (F.col("offset") >= F.lit(span[0])) & (F.col("offset") < F.lit(span[1]))
            is_inside = is_inside | ((F.col(RANGE) == F.lit(number)) & here)
    return frame.where(is_inside)


def _json_text(kind: T.DataType) -> Column:
    value = F.col("value")
    if isinstance(kind, (T.VariantType, T.StructType, T.ArrayType, T.MapType)):
        return F.to_json(value)
    return value.cast("string")


def _parse_values(frame: DataFrame, text: Column, declared: T.StructType) -> DataFrame:
    """Return the frame with the struct parsed from `text` as its value."""
    row_type = T.StructType([*declared.fields, T.StructField(_BAD, T.StringType())])
    parsed = F.from_json(text, row_type, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BAD})
    place = F.concat(
        "topic", F.lit("-"), F.col("partition").cast("string"), F.lit("@"), F.col("offset").cast("string")
    )
    error = F.raise_error(F.concat(F.lit("The value of "), place, F.lit(" is no JSON of spark.schema")))
    bad = F.col("value").getField(_BAD).isNotNull()
    frame = frame.withColumn("value", parsed)
    return frame.where(F.when(bad, error.cast("boolean")).otherwise(F.lit(True)))  # noqa: FBT003 - as above


def _single(chosen: str, kind: T.DataType) -> Column:
    """Return the only column, in a type that the format supports."""
    value = F.col("value")
    if chosen in _TEXTUAL:
        return value.cast("string")
    if isinstance(kind, T.VariantType) and chosen != "json":
        return F.to_json(value)
    if isinstance(kind, T.BinaryType) and chosen == "json":
        return value.cast("string")
    return value


def _plain(column: Column, frame: DataFrame, name: str) -> Column:
    """Return a metadata column of a record; a key without a schema as JSON."""
    return F.to_json(column) if isinstance(frame.schema[name].dataType, T.VariantType) else column

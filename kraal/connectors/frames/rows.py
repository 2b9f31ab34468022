"""Converts records to table rows: the columns of the values, plus columns with Kafka metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T  # noqa: N812 - Spark's own convention

from kraal.connectors.frames.range_files import RANGE
from kraal.connectors.frames.schema import parse_struct
from kraal.engine.columns.functions import F, select_column
from kraal.plugins.api import EXPECTED_POSITION, SinkValues, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CORRUPT_COLUMN: Final = "__kraal_bad"
_TEXT_FORMATS: Final = frozenset({"text", "csv"})
"""Formats in which all columns are text."""


def make_rows(frame: DataFrame, parsed: Mapping[str, Any]) -> DataFrame:
    """Return the lazy rows to write, in the frame's order; `RANGE` and the record's position remain as last columns.

    A value that does not match `spark.schema` fails the job. The error names the record as topic-partition@offset.
    Raises ValueError for duplicate column names.
    """
    spark_format = str(parsed["spark.format"])
    value_type = frame.schema["value"].dataType
    if parsed["spark.schema"]:
        declared_schema = parse_struct(str(parsed["spark.schema"]))
        frame = _parse_values(frame, _make_json_text(value_type), declared_schema)
        names = declared_schema.names
    elif isinstance(value_type, T.StructType):
        names = value_type.names
    else:
        frame = frame.withColumn(
            "value", F.struct(_make_single_column(spark_format, value_type).alias("value"))
        )
        names = ["value"]
    metadata = [(f"kafka_{name}", F.col(name)) for name in parsed["metadata.columns"]]
    metadata = [
        (name, _make_metadata_column(column, frame, name.removeprefix("kafka_"))) for name, column in metadata
    ]
    duplicates = {name for name, _ in metadata} & set(names)
    if duplicates:
        raise ValueError(f"the column {min(duplicates)} is both in the value and in metadata.columns")
    values = [F.col("value").getField(name).alias(name) for name in names]
    position_columns = [select_column(name) for name in (RANGE, *EXPECTED_POSITION) if name in frame.columns]
    return frame.select(*values, *(column.alias(name) for name, column in metadata), *position_columns)


def make_json_lines(rows: DataFrame, values: SinkValues | None) -> DataFrame | None:
    """Return the rows with schemaless values as JSON text; None with a schema or metadata columns."""
    if [name for name in rows.columns if name not in {RANGE, *EXPECTED_POSITION}] != ["value"]:
        return None
    if values == "json-text":
        return rows.withColumn("value", F.coalesce(F.col("value"), F.lit("null")))
    if not isinstance(rows.schema["value"].dataType, T.VariantType):
        return None
    return rows.withColumn("value", F.coalesce(F.to_json("value"), F.lit("null")))


def add_range(frame: DataFrame, partitions: Sequence[TopicPartition]) -> DataFrame:
    """Add the column `RANGE`. With several ranges, sort by range and offset, so that each range is written in order."""
    rows = add_partition_range(frame, partitions)
    return rows if len(partitions) == 1 else rows.sortWithinPartitions(RANGE, "offset")


def add_partition_range(frame: DataFrame, partitions: Sequence[TopicPartition]) -> DataFrame:
    """Add the column `RANGE`. With several ranges, a record whose topic was changed by a transform fails the job."""
    if len(partitions) == 1:
        return frame.withColumn(RANGE, F.lit(0))
    range_index: Column | None = None
    for position, partition in enumerate(partitions):
        is_match = (F.col("topic") == F.lit(partition.topic)) & (
            F.col("partition") == F.lit(partition.partition)
        )
        range_index = (
            F.when(is_match, F.lit(position))
            if range_index is None
            else range_index.when(is_match, F.lit(position))
        )
    unknown_topic_error = F.raise_error(
        F.concat(F.lit("a record's topic was changed to "), "topic", F.lit(", which is not in the batch"))
    )
    return frame.withColumn(
        RANGE,
        F.coalesce(range_index if range_index is not None else F.lit(None), unknown_topic_error.cast("int")),
    )


def filter_spans(frame: DataFrame, spans: Sequence[tuple[int, int] | None]) -> DataFrame:
    """Keep the records whose offset is in the span of their range; a span of None keeps no records."""
    is_inside = F.lit(False)  # noqa: FBT003 - Spark's literal
    for number, span in enumerate(spans):
        if span is not None:
            is_match = (F.col("offset") >= F.lit(span[0])) & (F.col("offset") < F.lit(span[1]))
            is_inside = is_inside | ((F.col(RANGE) == F.lit(number)) & is_match)
    return frame.where(is_inside)


def _make_json_text(value_type: T.DataType) -> Column:
    value = F.col("value")
    if isinstance(value_type, (T.VariantType, T.StructType, T.ArrayType, T.MapType)):
        return F.to_json(value)
    return value.cast("string")


def _parse_values(frame: DataFrame, text: Column, declared_schema: T.StructType) -> DataFrame:
    """Return the frame with the struct parsed from `text` as the value."""
    row_type = T.StructType([*declared_schema.fields, T.StructField(_CORRUPT_COLUMN, T.StringType())])
    parsed = F.from_json(text, row_type, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT_COLUMN})
    location = F.concat(
        "topic", F.lit("-"), F.col("partition").cast("string"), F.lit("@"), F.col("offset").cast("string")
    )
    error = F.raise_error(F.concat(F.lit("The value of "), location, F.lit(" does not match spark.schema")))
    is_malformed = F.col("value").getField(_CORRUPT_COLUMN).isNotNull()
    frame = frame.withColumn("value", parsed)
    return frame.where(F.when(is_malformed, error.cast("boolean")).otherwise(F.lit(True)))  # noqa: FBT003 - Spark's literal


def _make_single_column(spark_format: str, value_type: T.DataType) -> Column:
    """Return the value as the only column, in a type that the format supports."""
    value = F.col("value")
    if spark_format in _TEXT_FORMATS:
        return value.cast("string")
    if isinstance(value_type, T.VariantType) and spark_format != "json":
        return F.to_json(value)
    if isinstance(value_type, T.BinaryType) and spark_format == "json":
        return value.cast("string")
    return value


def _make_metadata_column(column: Column, frame: DataFrame, name: str) -> Column:
    """Return a metadata column; a key without a schema becomes JSON."""
    return F.to_json(column) if isinstance(frame.schema[name].dataType, T.VariantType) else column

"""Converts Kafka records to the DataFrame of a sink task. Conversion errors contain the record's coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kraal.engine.sink.member_record import Record
from kraal.engine.sink.ranges import Ranges
from kraal.engine.sink.write_paths import Put, ReadBatch
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import Schema, SinkTask, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def tail_table(records: Sequence[Record]) -> Any:
    """Return records as an Arrow table with the columns and types of Spark's Kafka reader, ordered by partition.

    Return None if only Spark can read the headers of a record.
    """
    if any(record.headers is None for record in records):
        return None
    import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

    rows = sorted(records, key=lambda r: (r.topic, r.partition, r.offset))
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.table(
        {
            "topic": pa.array([r.topic for r in rows], pa.string()),
            "partition": pa.array([r.partition for r in rows], pa.int32()),
            "offset": pa.array([r.offset for r in rows], pa.int64()),
            "timestamp": pa.array([r.timestamp_ms * 1000 for r in rows], pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([r.timestamp_type for r in rows], pa.int32()),
            "headers": pa.array(
                [[{"key": k, "value": v} for k, v in r.headers or ()] or None for r in rows], pa.list_(header)
            ),
            "key": pa.array([r.key for r in rows], pa.binary()),
            "value": pa.array([r.value for r in rows], pa.binary()),
        }
    )


def read_tail(records: Sequence[Record]) -> ReadBatch:
    """Build a batch from records that the consumer has fetched.

    The records of each partition must be in offset order.
    """
    ranges: dict[TopicPartition, tuple[int, int]] = {}
    for record in records:
        partition = TopicPartition(record.topic, record.partition)
        first = ranges[partition][0] if partition in ranges else record.offset
        ranges[partition] = (first, record.offset + 1)
    return ReadBatch(ranges, len(records), tail_table(records), is_tail=True)


def connect_frame(raw: DataFrame, converters: Converters) -> tuple[DataFrame, Schema | None, Schema | None]:
    """Return the DataFrame for the sink, and the schemas of its key and value.

    A value that its converter cannot read fails the sink's job, with topic-partition@offset in the error. The check is
    part of the column expression, so that records are read once.
    """
    from pyspark.sql import functions  # noqa: PLC0415 - heavy; loaded after the start of Spark

    topic = functions.col("topic")
    key, key_error, key_schema = converters.key.to_connect(topic, functions.col("key"))
    value, value_error, value_schema = converters.value.to_connect(topic, functions.col("value"))
    frame = raw.select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        "headers",
        _check(key, key_error, "key").alias("key"),
        _check(value, value_error, "value").alias("value"),
    )
    return frame, key_schema, value_schema


def _check(value: Column, error: Column | None, part: str) -> Column:
    from pyspark.sql import functions  # noqa: PLC0415 - as above

    if error is None:
        return value
    message = functions.concat(
        functions.lit(f"The {part} of "),
        functions.col("topic"),
        functions.lit("-"),
        functions.col("partition").cast("string"),
        functions.lit("@"),
        functions.col("offset").cast("string"),
        functions.lit(" cannot be converted: "),
        error,
    )
    return functions.when(error.isNotNull(), functions.raise_error(message)).otherwise(value)


def as_whole_frame(put: Put, task: SinkTask, ranges: Ranges) -> Put:
    """Return a `put` that coalesces the DataFrame of a single partition unless the task accepts several pieces."""
    if task.takes_pieces or len(ranges) > 1:
        return put
    return lambda frame, *schemas, **options: put(frame.coalesce(1), *schemas, **options)

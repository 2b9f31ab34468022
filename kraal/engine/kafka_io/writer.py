"""Converts a DataFrame of records and writes it to Kafka, as one Spark job.

Spark's plan is as short as possible, because it determines the throughput: a constant topic is an option instead of a
column, missing columns are not added, and records are counted in the same pass. A column `timestamp` sets the
timestamps of the records (`record_times`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kraal.core.ids import TopicName
from kraal.engine.kafka_io.offset_pairs import PairTracker
from kraal.engine.kafka_io.record_times import with_record_times, with_time
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Transforms(Protocol):
    """A chain of transforms as column expressions. `identity` is equal for chains that behave the same."""

    @property
    def identity(self) -> tuple[object, ...]:
        """The key that must be equal for batches that share a job."""

    def apply(self, frame: DataFrame) -> DataFrame:
        """Return the transformed DataFrame. Raises ByRecords."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """The parameters of a write, which are the same for all records of a job."""

    converters: Converters | None
    """None if a pass has already converted keys and values to bytes."""
    options: Mapping[str, str]
    key_schema: Schema | None
    value_schema: Schema | None
    transforms: Transforms | None = None
    """The transforms to apply to the DataFrame, if any; the schemas above describe their output."""
    tracker: PairTracker | None = None
    """Tracks the offsets of the records, with the source offsets from the column `offset`."""

    def identity(self) -> tuple[object, ...]:
        """Return the key that must be equal for batches that share a job."""
        schemas = (repr(self.key_schema), repr(self.value_schema))
        converters = None if self.converters is None else self.converters.identity
        transforms = None if self.transforms is None else self.transforms.identity
        return (converters, schemas, tuple(sorted(self.options.items())), transforms)


def write(frame: DataFrame, plan: WritePlan, topic: str | None) -> tuple[int, frozenset[TopicName]]:
    """Write a DataFrame to Kafka; return the number of records and their topics."""
    from pyspark.sql import Observation, functions  # noqa: PLC0415 - heavy; loaded after the start of Spark

    observation = Observation()
    measures: list[Column] = [functions.count(functions.lit(1)).alias("records")]
    if topic is None:
        measures.append(functions.collect_set("topic").alias("topics"))
    counted_frame = kafka_frame(frame, plan, topic).observe(observation, *measures)
    writer = counted_frame.write.format("kafka").options(**options_for(frame, plan)).mode("append")
    if topic is not None:
        writer = writer.option("topic", topic)
    writer.save()
    metrics = observation.get
    topics = [topic] if topic is not None else metrics["topics"]
    return int(metrics["records"]), frozenset(TopicName(t) for t in topics) if metrics[
        "records"
    ] else frozenset()


def write_with_notes(frame: DataFrame, options: Mapping[str, str]) -> tuple[list[str], int]:
    """Write the output of a source's pass to Kafka, except the rows with notes; return the notes and the row count."""
    from pyspark.sql import Observation, functions  # noqa: PLC0415 - as above

    observation = Observation()
    row_count = functions.count("topic").alias("rows")
    observed_frame = frame.observe(observation, functions.collect_list("note").alias("notes"), row_count)
    rows = observed_frame.where("topic is not null").drop("note")
    rows.write.format("kafka").options(**options).mode("append").save()
    metrics = observation.get
    return list(metrics["notes"]), int(metrics["rows"])


def kafka_frame(
    frame: DataFrame, plan: WritePlan, topic: str | None, *, for_spark: bool = True, extra: Sequence[str] = ()
) -> DataFrame:
    """Return the DataFrame with the columns that Spark's Kafka writer expects, followed by the columns `extra`.

    Without `for_spark`, return the columns for a producer in the worker, with timestamps in milliseconds.
    """
    from pyspark.sql import functions  # noqa: PLC0415 - as above

    if plan.converters is None:
        return frame
    if plan.transforms is not None:
        frame = plan.transforms.apply(frame)
    column_names = set(frame.columns)
    name = functions.col("topic") if topic is None else functions.lit(topic)
    columns: list[Column] = [functions.col("topic")] if topic is None else []
    null_column = functions.lit(None).cast("string")
    if "key" in column_names or plan.key_schema is not None:
        key = functions.col("key") if "key" in column_names else null_column
        columns.append(plan.converters.key.from_connect(name, key, plan.key_schema).alias("key"))
    value = functions.col("value") if "value" in column_names else null_column
    columns.append(plan.converters.value.from_connect(name, value, plan.value_schema).alias("value"))
    headers = functions.col("headers") if "headers" in column_names else None
    if "timestamp" in column_names and not for_spark:
        columns.append(functions.unix_millis(functions.col("timestamp")).alias("timestamp"))
    elif "timestamp" in column_names:
        offset = None if plan.tracker is None else functions.col("offset")
        headers = with_time(headers, functions.col("timestamp"), offset)
    if headers is not None:
        columns.append(headers.alias("headers"))
    if "partition" in column_names:
        columns.append(functions.col("partition"))
    return frame.select(*columns, *extra)


def options_for(frame: DataFrame, plan: WritePlan) -> Mapping[str, str]:
    """Return the writer options for the result of `kafka_frame` for the same DataFrame.

    Must be called on a job thread.
    """
    if plan.converters is None:
        return plan.options
    return (
        with_record_times(frame, plan.options) if plan.tracker is None else plan.tracker.options(plan.options)
    )

"""Record frame → converters → Kafka, as one Spark job.

The plan is kept as short as it can be, because it decides the throughput: a constant topic is an option and
not a column, columns that the frame lacks are not made up, and counting rides along in the same pass. A frame with
a column `timestamp` gives records their time (`record_times`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kraal.ids import TopicName
from kraal.plugins.api import Schema
from kraal.spark.plugins import Converters
from kraal.spark.record_times import carried, with_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Transforms(Protocol):
    """A chain of transforms as expressions. `identity` is equal for those that do the same."""

    @property
    def identity(self) -> tuple[object, ...]:
        """Return what must be equal for two batches to go in one job."""

    def applied(self, frame: DataFrame) -> DataFrame:
        """Return the frame behind the transforms, lazily. Raises ByRecords."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """What is the same for every record of a job."""

    converters: Converters | None
    """None: keys and values are bytes already, from a pass over their records."""
    options: Mapping[str, str]
    key_schema: Schema | None
    value_schema: Schema | None
    transforms: Transforms | None = None
    """None: the frame has what is written. Else it has what was read, and the schemas are those behind them."""

    def identity(self) -> tuple[object, ...]:
        """Return what must be equal for two batches to go in one job."""
        schemas = (repr(self.key_schema), repr(self.value_schema))
        made = None if self.converters is None else self.converters.identity
        changed = None if self.transforms is None else self.transforms.identity
        return (made, schemas, tuple(sorted(self.options.items())), changed)


def write(frame: DataFrame, plan: WritePlan, topic: str | None) -> tuple[int, frozenset[TopicName]]:
    """Write `frame` to Kafka; return how many records, and to which topics."""
    from pyspark.sql import Observation, functions  # noqa: PLC0415 - loaded when Spark is

    observation = Observation()
    measures: list[Column] = [functions.count(functions.lit(1)).alias("records")]
    if topic is None:
        measures.append(functions.collect_set("topic").alias("topics"))
    counted = kafka_frame(frame, plan, topic).observe(observation, *measures)
    writer = counted.write.format("kafka").options(**options_for(frame, plan)).mode("append")
    if topic is not None:
        writer = writer.option("topic", topic)
    writer.save()
    seen = observation.get
    topics = [topic] if topic is not None else seen["topics"]
    return int(seen["records"]), frozenset(TopicName(t) for t in topics) if seen["records"] else frozenset()


def write_noted(frame: DataFrame, options: Mapping[str, str]) -> list[str]:
    """Write what a source's pass gave to Kafka, rows with a topic; return its notes."""
    from pyspark.sql import Observation, functions  # noqa: PLC0415 - as above

    observation = Observation()
    noted = frame.observe(observation, functions.collect_list("note").alias("notes"))
    rows = noted.where("topic is not null").drop("note")
    rows.write.format("kafka").options(**options).mode("append").save()
    return list(observation.get["notes"])


def kafka_frame(frame: DataFrame, plan: WritePlan, topic: str | None, *, for_spark: bool = True) -> DataFrame:
    """Return the frame with the columns that Spark's Kafka writer takes.

    Not `for_spark`: for a producer in the worker, which takes times as they are, in milliseconds.
    """
    from pyspark.sql import functions  # noqa: PLC0415 - as above

    if plan.converters is None:
        return frame
    if plan.transforms is not None:
        frame = plan.transforms.applied(frame)
    has = set(frame.columns)
    name = functions.col("topic") if topic is None else functions.lit(topic)
    columns: list[Column] = [functions.col("topic")] if topic is None else []
    none = functions.lit(None).cast("string")
    if "key" in has or plan.key_schema is not None:
        key = functions.col("key") if "key" in has else none
        columns.append(plan.converters.key.from_connect(name, key, plan.key_schema).alias("key"))
    value = functions.col("value") if "value" in has else none
    columns.append(plan.converters.value.from_connect(name, value, plan.value_schema).alias("value"))
    headers = functions.col("headers") if "headers" in has else None
    if "timestamp" in has and not for_spark:
        columns.append(functions.unix_millis(functions.col("timestamp")).alias("timestamp"))
    elif "timestamp" in has:
        headers = with_time(headers, functions.col("timestamp"))
    if headers is not None:
        columns.append(headers.alias("headers"))
    if "partition" in has:
        columns.append(functions.col("partition"))
    return frame.select(*columns)


def options_for(frame: DataFrame, plan: WritePlan) -> Mapping[str, str]:
    """Return the writer's options for what `kafka_frame` makes of the same frame. Job thread."""
    return plan.options if plan.converters is None else carried(frame, plan.options)

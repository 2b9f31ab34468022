"""Spark's reading of a backlog: ranges of offsets to a frame with the columns of its Kafka reader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraal.plugins.api import TopicPartition
from kraal.spark.ranges import Ranges, pieces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads for one sink task. `loses`: offsets that are gone are passed over, else they fail the job."""

    options: Mapping[str, str]
    loses: bool

    def read(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """Return the records of `[start, end)` of each partition, lazily; one partition's in pieces, in their order."""
        return self._read(spark, ranges, pieces(ranges, spark.sparkContext.defaultParallelism))

    def by_topic(self, spark: SparkSession, ranges: Ranges) -> dict[str, DataFrame]:
        """Return the same, each topic's records in a frame of its own."""
        count = pieces(ranges, spark.sparkContext.defaultParallelism)
        found = {}
        for topic in sorted({place.topic for place in ranges}):
            of_topic = {place: span for place, span in ranges.items() if place.topic == topic}
            found[topic] = self._read(spark, of_topic, count if len(ranges) == 1 else len(of_topic))
        return found

    def _read(self, spark: SparkSession, ranges: Ranges, least: int) -> DataFrame:
        return (
            spark.read.format("kafka")
            .options(**self.options)
            .option("assign", _json({p: [p.partition] for p in ranges}, listed=True))
            .option("startingOffsets", _json({p: start for p, (start, _) in ranges.items()}, listed=False))
            .option("endingOffsets", _json({p: end for p, (_, end) in ranges.items()}, listed=False))
            .option("minPartitions", str(least))
            .option("failOnDataLoss", str(not self.loses).lower())
            .load()
        )


def _json(values: Mapping[TopicPartition, object], *, listed: bool) -> str:
    """Return the JSON that Spark wants: `{topic: [partitions]}` or `{topic: {partition: offset}}`."""
    topics: dict[str, dict[str, object]] = {}
    for place, value in values.items():
        topics.setdefault(place.topic, {})[str(place.partition)] = value
    if listed:
        return json.dumps({topic: [int(p) for p in parts] for topic, parts in topics.items()})
    return json.dumps(topics)

"""Reads a backlog with Spark: ranges of offsets to a frame with the columns of Spark's Kafka reader."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraal.engine.records.sink_pass import COLUMNS
from kraal.engine.sink.ranges import Ranges, pieces
from kraal.engine.sink.ways import GetSpark, ReadBatch
from kraal.plugins.api import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class RangeReader:
    """The reader of one sink task. `loses`: skip offsets that no longer exist; otherwise they fail the job."""

    options: Mapping[str, str]
    loses: bool

    def read(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """Return the records of `[start, end)` of each partition, lazily; a single partition in pieces, in order."""
        return self._read(spark, ranges, pieces(ranges, spark.sparkContext.defaultParallelism))

    def by_topic(self, spark: SparkSession, ranges: Ranges) -> dict[str, DataFrame]:
        """Return the same records with one frame per topic."""
        count = pieces(ranges, spark.sparkContext.defaultParallelism)
        frames = {}
        for topic in sorted({place.topic for place in ranges}):
            topic_ranges = {place: span for place, span in ranges.items() if place.topic == topic}
            frames[topic] = self._read(spark, topic_ranges, count if len(ranges) == 1 else len(topic_ranges))
        return frames

    def read_again(
        self, spark: GetSpark, batch: ReadBatch, place: TopicPartition, offsets: Sequence[int]
    ) -> pa.Table:
        """Return records of a batch as read from Kafka: those at ascending offsets, or more."""
        if batch.table is not None:
            return batch.table
        raw = self.read(spark().session, {place: (offsets[0], offsets[-1] + 1)})
        return raw.where(raw["offset"].isin(*offsets)).select(*COLUMNS).toArrow()

    def _read(self, spark: SparkSession, ranges: Ranges, min_partitions: int) -> DataFrame:
        return (
            spark.read.format("kafka")
            .options(**self.options)
            .option("assign", partitions_json(ranges))
            .option("startingOffsets", offsets_json({p: start for p, (start, _) in ranges.items()}))
            .option("endingOffsets", offsets_json({p: end for p, (_, end) in ranges.items()}))
            .option("minPartitions", str(min_partitions))
            .option("failOnDataLoss", str(not self.loses).lower())
            .load()
        )


def partitions_json(places: Iterable[TopicPartition]) -> str:
    """Return Spark's JSON for partitions: `{topic: [partitions]}`."""
    topics: dict[str, list[int]] = {}
    for place in places:
        topics.setdefault(place.topic, []).append(place.partition)
    return json.dumps(topics)


def offsets_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Return Spark's JSON for offsets: `{topic: {partition: offset}}`."""
    topics: dict[str, dict[str, int]] = {}
    for place, offset in offsets.items():
        topics.setdefault(place.topic, {})[str(place.partition)] = offset
    return json.dumps(topics)

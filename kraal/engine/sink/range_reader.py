"""Reads ranges of offsets with Spark's Kafka reader."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraal.engine.records.sink_pass import COLUMNS
from kraal.engine.sink.ranges import Ranges, count_pieces
from kraal.engine.sink.write_paths import GetSpark, ReadBatch
from kraal.plugins.api import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class RangeReader:
    """The reader of one sink task. Missing offsets are skipped if `skips_lost_offsets`, and fail the job otherwise."""

    options: Mapping[str, str]
    skips_lost_offsets: bool

    def read(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """Return the records of the ranges; a single partition may be read in several pieces, in order."""
        return self._read(spark, ranges, count_pieces(ranges, spark.sparkContext.defaultParallelism))

    def read_by_topic(self, spark: SparkSession, ranges: Ranges) -> dict[str, DataFrame]:
        """Return the records of the ranges, with one DataFrame per topic."""
        count = count_pieces(ranges, spark.sparkContext.defaultParallelism)
        frames = {}
        for topic in sorted({partition.topic for partition in ranges}):
            topic_ranges = {partition: span for partition, span in ranges.items() if partition.topic == topic}
            frames[topic] = self._read(spark, topic_ranges, count if len(ranges) == 1 else len(topic_ranges))
        return frames

    def read_again(
        self, spark: GetSpark, batch: ReadBatch, partition: TopicPartition, offsets: Sequence[int]
    ) -> pa.Table:
        """Return unchanged records of a batch: at least the records at `offsets`, which must be ascending."""
        if batch.table is not None:
            return batch.table
        raw = self.read(spark().session, {partition: (offsets[0], offsets[-1] + 1)})
        return raw.where(raw["offset"].isin(*offsets)).select(*COLUMNS).toArrow()

    def _read(self, spark: SparkSession, ranges: Ranges, min_partitions: int) -> DataFrame:
        return (
            spark.read.format("kafka")
            .options(**self.options)
            .option("assign", partitions_json(ranges))
            .option("startingOffsets", offsets_json({p: start for p, (start, _) in ranges.items()}))
            .option("endingOffsets", offsets_json({p: end for p, (_, end) in ranges.items()}))
            .option("minPartitions", str(min_partitions))
            .option("failOnDataLoss", str(not self.skips_lost_offsets).lower())
            .load()
        )


def partitions_json(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions in Spark's JSON format: `{topic: [partitions]}`."""
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return json.dumps(topics)


def offsets_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Return offsets in Spark's JSON format: `{topic: {partition: offset}}`."""
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in offsets.items():
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return json.dumps(topics)

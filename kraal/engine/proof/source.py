"""One proof of a source: reads its records again, and compares them with the records of its topics."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Final

from kraal.core.offsets import Offset, SourcePartition, TopicPartition
from kraal.engine import client_options
from kraal.engine.api import ProofRequest, TaskSpec
from kraal.engine.columns.functions import F
from kraal.engine.context import ExecutorContext
from kraal.engine.kafka_io.dead_letter_writer import read_dead_letter_topic
from kraal.engine.proof.config import WITHOUT_SIDE_EFFECTS, make_topics_reader
from kraal.engine.proof.delivered import (
    DeliveredRecords,
    PolledRecords,
    ReadOffsets,
    RecordsOfRanges,
)
from kraal.engine.proof.frames import HASH, REQUIRED, HashedRows, compare_hashes, to_offset_spans
from kraal.engine.proof.replay import NUMBER, ReplayedBatch, Replayer, hash_record
from kraal.engine.session.jobs import JobGroup
from kraal.engine.session.session import Spark
from kraal.engine.sink.broker_queries import BrokerQueries, query_brokers
from kraal.engine.sink.range_reader import RangeReader
from kraal.plugins.api import EXPECTED_POSITION, NotComparable, SourceReplay
from kraal.proof.differences import Differences, SourceSpan, Tally, join_positions
from kraal.proof.result import ProofResult, SkippedRecords

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BATCH: Final = "__kraal_batch"


class SourceProof:
    """Implements `Proof`. Not thread-safe, except for `cancel`."""

    def __init__(self, context: ExecutorContext, spec: TaskSpec, group: JobGroup) -> None:
        """Prepare a proof; `spec` must have the resolved config of the connector as `connector_config`."""
        self._context, self._group = context, group
        self._has_dead_letters = read_dead_letter_topic(spec.connector_config) is not None
        self._spec = replace(spec, connector_config={**spec.connector_config, **WITHOUT_SIDE_EFFECTS})
        self._reader = make_topics_reader(
            context.worker, spec.connector_config, spec.task.connector, skips_lost_offsets=False
        )
        self._cancelled = threading.Event()

    def run(self, request: ProofRequest) -> ProofResult:
        """Compare the topics with the source.

        Raises NotComparable if it cannot, and the errors of plugins, of Spark and of the consumer.
        """
        name, config = self._spec.task.connector, self._spec.connector_config
        replay = self._context.plugins.connector_class(config["connector.class"]).source_replay(config)
        if replay is None or request.source is None:
            raise NotComparable(f"{config['connector.class']} with this config cannot read its records again")
        if request.max_age_ms is not None or request.sample_percent is not None:
            raise NotComparable("only a proof of a sink can compare a part of the records")
        task_configs = [{**task_config, **replay.settings} for task_config in request.source.task_configs]
        if not task_configs:
            raise NotComparable(f"{name} has no tasks; start the connector first")
        settings = client_options.written_topics_client_config(self._context.worker, config, name)
        with (
            self._group.job(f"{name} proof") as spark,
            query_brokers(settings) as broker,
            Replayer(self._context, self._spec, replay, task_configs) as replayer,
        ):
            records = self._make_records(replay, replayer, spark, request.source.read_offsets)
            comparison = _Comparison(records, broker, spark, self._reader)
            return comparison.run(keeps_records=replay.keeps_records, has_dead_letters=self._has_dead_letters)

    def cancel(self) -> None:
        """Cancel the Spark jobs of the proof. Thread-safe; does not block."""
        self._cancelled.set()
        self._group.cancel()

    def _make_records(
        self, replay: SourceReplay, replayer: Replayer, spark: Spark, read_offsets: ReadOffsets
    ) -> DeliveredRecords:
        if replay.offset_key is None:
            return RecordsOfRanges(replayer, spark, read_offsets)
        return PolledRecords(replay, replayer, spark, read_offsets, self._cancelled)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The steps of a proof."""

    records: DeliveredRecords
    broker: BrokerQueries
    spark: Spark
    reader: RangeReader

    def run(self, *, keeps_records: bool, has_dead_letters: bool) -> ProofResult:
        """Compare numbers and checksums; if they differ, compare record by record. Runs Spark jobs."""
        first = self.records.read()
        batches, required = first.batches, first.required
        ranges = self._fetch_ranges(frozenset[str]().union(*(batch.topics for batch in batches)))
        second = self.records.read_later(first)
        expected_tally = sum_tallies(
            batch.tally for batch, is_required in zip(batches, required, strict=True) if is_required
        )
        stored = HashedRows.of(self._read_topics(ranges)) if ranges else None
        stored_tally = Tally() if stored is None else stored.tally
        try:
            differences = Differences()
            if stored_tally != expected_tally or not all(required):
                later = second.batches
                differences = self._locate_differences(
                    [*batches, *later], [*required, *([False] * len(later))], stored
                )
        finally:
            if stored is not None:
                stored.close()
        return ProofResult(
            ranges=ranges,
            expected_count=expected_tally.count,
            stored_count=stored_tally.count,
            differences=differences,
            skipped=_count_skipped(batches, has_dead_letters=has_dead_letters),
            is_partial=not (keeps_records and second.is_complete),
            source_offsets=_find_end_offsets(batches, required),
        )

    def _fetch_ranges(self, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, int]]:
        """Return the offsets of the topics. Raises NotComparable if records were deleted."""
        partitions = self.broker.partitions(topics)
        bounds = self.broker.bounds(partitions)
        for partition in partitions:
            name = f"{partition.topic}-{partition.partition}"
            if partition not in bounds:
                raise NotComparable(f"{name} no longer exists")
            if bounds[partition].low > 0:
                raise NotComparable(
                    f"the records of {name} before offset {bounds[partition].low} were deleted; a proof of a source "
                    "needs all records of its topics"
                )
        return {partition: (0, bound.high) for partition, bound in bounds.items() if bound.high > 0}

    def _read_topics(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> DataFrame:
        rows = self.reader.read(self.spark.session, ranges)
        positions = [
            F.col(column).alias(name)
            for name, column in zip(EXPECTED_POSITION, ("topic", "partition", "offset"), strict=True)
        ]
        return rows.select(hash_record(rows, F.col("topic")).alias(HASH), *positions)

    def _locate_differences(
        self, batches: Sequence[ReplayedBatch], required: Sequence[bool], stored: HashedRows | None
    ) -> Differences:
        """Compare record by record."""
        frames = [
            batch.hashes.withColumn(_BATCH, F.lit(number)).withColumn(REQUIRED, F.lit(is_required))
            for number, (batch, is_required) in enumerate(zip(batches, required, strict=True))
        ]
        expected = reduce(lambda first, second: first.unionAll(second), frames)
        with compare_hashes(expected, None if stored is None else stored.hashes) as differing:
            missing = differing.locate_missing(expected, (_BATCH, NUMBER))
            repeated, unexpected = (
                ()
                if stored is None
                else to_offset_spans(
                    differing.locate_additional(stored.hashes, EXPECTED_POSITION, is_expected=is_expected)
                )
                for is_expected in (True, False)
            )
            return Differences(
                missing_count=differing.missing,
                missing_source_records=tuple(
                    _to_source_span(batches[span.group], span.first, span.last)
                    for span in join_positions((row[0], row[1]) for row in missing)
                ),
                repeated_count=differing.repeated,
                repeated=repeated,
                unexpected_count=differing.unexpected,
                unexpected=unexpected,
            )


def sum_tallies(tallies: Iterable[Tally]) -> Tally:
    """Return the tally of several sets of rows."""
    return reduce(lambda first, second: first + second, tallies, Tally())


def _to_source_span(batch: ReplayedBatch, first: int, last: int) -> SourceSpan:
    partition, after = next(iter(batch.starts.items()))
    first, last = batch.compute_record_number(first), batch.compute_record_number(last)
    others = len(batch.starts) - 1
    return SourceSpan(partition=partition, other_partitions=others, after=after, first=first, last=last)


def _find_end_offsets(
    batches: Sequence[ReplayedBatch], required: Sequence[bool]
) -> Mapping[SourcePartition, Offset]:
    """Return the offset after the last required batch of each partition."""
    ends: dict[SourcePartition, Offset] = {}
    for batch, is_required in zip(batches, required, strict=False):
        if is_required:
            ends |= batch.ends
    return ends


def _count_skipped(batches: Sequence[ReplayedBatch], *, has_dead_letters: bool) -> SkippedRecords:
    """Return the number of records that the source does not write. Records processed by columns have no errors."""
    summaries = [batch.summary for batch in batches if batch.summary is not None]
    if not summaries:
        return SkippedRecords()
    failed = sum(summary.counts.skipped for summary in summaries)
    return SkippedRecords(
        dead_letters=failed if has_dead_letters else None,
        tolerated=None if has_dead_letters else failed,
        dropped=sum(summary.read - summary.written for summary in summaries) - failed,
    )

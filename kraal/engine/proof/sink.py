"""One proof of a sink: reads its topics through its converters and transforms, reads its target, and compares.

First, the committed records are compared with the target by their number and checksum. If these differ, the target is
read again, and then the topics up to their ends. The target must have the rows of records before the committed
offsets. It may have those of later records, because a sink writes a batch before it commits the batch's offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import override

from kraal.core.offsets import TopicPartition
from kraal.engine import client_options
from kraal.engine.api import ProofRequest, TaskSpec
from kraal.engine.columns.sink import SinkColumns
from kraal.engine.context import ExecutorContext
from kraal.engine.kafka_io.dead_letter_writer import read_dead_letter_topic
from kraal.engine.proof.config import WITHOUT_SIDE_EFFECTS, with_client_id
from kraal.engine.proof.frames import (
    HashedRows,
    find_differences,
    find_differing_buckets,
    hash_rows,
    select_buckets,
    tally_buckets,
)
from kraal.engine.record_path import record_path
from kraal.engine.records.steps import Summary
from kraal.engine.session.jobs import JobGroup
from kraal.engine.session.session import Spark
from kraal.engine.sink.broker_queries import BrokerQueries, query_brokers
from kraal.engine.sink.envelopes import (
    EnvelopeWriter,
    make_envelope_converter,
    needs_envelopes,
    with_envelopes,
)
from kraal.engine.sink.plain import PlainWriter
from kraal.engine.sink.range_reader import RangeReader
from kraal.engine.sink.record_batches import SinkRecords
from kraal.engine.sink.transformed import BacklogByColumns, BacklogByRecords
from kraal.engine.sink.write_paths import Put, ReadBatch, RecordPathRequired
from kraal.engine.task_plugins import make_converters
from kraal.plugins.api import SinkBatch, SinkTask, TaskContext
from kraal.plugins.model.target import EXPECTED_POSITION, NotComparable, ReadableTarget
from kraal.proof.differences import Differences, Tally
from kraal.proof.result import ProofResult, SkippedRecords
from kraal.proof.scope import choose_sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from kraal.plugins.api import Schema, SinkValues

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Offsets `[start, end)` of each partition."""
Buckets = Mapping[int, Tally]
"""The tallies of rows by the bucket of their hash."""
T = TypeVar("T")


class _NoTask(SinkTask):
    """The task of a proof, whose rows are never written. All its rows are computed before they are used."""

    takes_pieces = True
    all_or_nothing = True

    def __init__(self, values: SinkValues) -> None:
        self.values = values

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        raise NotImplementedError

    @override
    def write(self, batch: SinkBatch) -> None:
        raise NotImplementedError


class SinkProof:
    """Implements `Proof`. Not thread-safe, except for `cancel`."""

    def __init__(
        self,
        context: ExecutorContext,
        spec: TaskSpec,
        group: JobGroup,
        target: ReadableTarget | None = None,
    ) -> None:
        """Prepare a proof; `spec` must have the resolved config of the connector as `connector_config`.

        Without `target`, the connector is in Python and opens its target.
        """
        self._context, self._group, self._target = context, group, target
        self._has_dead_letters = read_dead_letter_topic(spec.connector_config) is not None
        self._spec = replace(spec, connector_config={**spec.connector_config, **WITHOUT_SIDE_EFFECTS})
        options = client_options.consumer_options(context.worker, spec.connector_config, spec.task.connector)
        self._reader = RangeReader(with_client_id(options, spec.task.connector), skips_lost_offsets=True)

    def run(self, request: ProofRequest) -> ProofResult:
        """Compare the target with the topics.

        Raises NotComparable if it cannot, and the errors of plugins, of Spark and of the consumer.
        """
        target = self._target or self._open_target()
        spec = self._spec
        settings = client_options.proof_client_config(self._context.worker, spec.connector_config, spec.task)
        with (
            closing(target),
            query_brokers(settings) as broker,
            self._group.job(f"{self._spec.task.connector} proof") as spark,
        ):
            return _Comparison(self._make_path(target), target, broker, spark, self._reader).run(
                request, has_dead_letters=self._has_dead_letters
            )

    def cancel(self) -> None:
        """Cancel the Spark jobs of the proof. Thread-safe; does not block."""
        self._group.cancel()

    def _open_target(self) -> ReadableTarget:
        config = self._spec.connector_config
        connector = self._context.plugins.connector_class(config["connector.class"])
        target = connector.open_target(config, self._context.view)
        if target is None:
            raise NotComparable(f"{config['connector.class']} does not support reading its target")
        return target

    def _make_path(self, target: ReadableTarget) -> _Path:
        """Return the path of the records from the topics to the rows."""
        converters = make_converters(self._context.plugins, self._context.worker, self._spec)
        path = record_path(self._context, self._spec, converters)
        task, reader = _NoTask(target.values), self._reader
        envelope = None
        if needs_envelopes(task):
            path = with_envelopes(path, converters, has_java_chain=False)  # Java plugins are refused earlier
            if path.why is None:
                return _Path(plain=EnvelopeWriter(task, reader))
            envelope = make_envelope_converter(self._context.plugins)
        if path.why is None:
            return _Path(plain=PlainWriter(task, converters, reader, path.steps))
        columns = SinkColumns.of(path.steps, target.values)
        records = SinkRecords(self._spec, path.steps, target.values, None, envelope)
        return _Path(
            columns=None if columns is None else BacklogByColumns(task, columns, reader),
            records=BacklogByRecords(task, records, reader),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Path:
    """The path of the records from the topics to the rows, as for backlogs of the sink."""

    plain: PlainWriter | EnvelopeWriter | None = None
    columns: BacklogByColumns | None = None
    records: BacklogByRecords | None = None

    def write(self, batch: ReadBatch, spark: Spark, put: Put) -> Summary | None:
        """Call `put` with the records; return their outcomes if they were processed one by one."""
        if self.plain is not None:
            self.plain.write(batch, lambda: spark, put)
            return None
        if self.columns is not None:
            try:
                self.columns.write(batch, lambda: spark, put)
            except RecordPathRequired:
                pass
            else:
                return None
        assert self.records is not None  # noqa: S101 - see SinkProof._make_path
        return self.records.write(batch, lambda: spark, put)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The steps of a proof."""

    path: _Path
    target: ReadableTarget
    broker: BrokerQueries
    spark: Spark
    reader: RangeReader

    def run(self, request: ProofRequest, *, has_dead_letters: bool) -> ProofResult:
        """Compare numbers and checksums; if they differ, compare row by row. Runs Spark jobs."""
        spark, target = self.spark.session, self.target
        is_sample = request.sample_percent is not None
        if is_sample and target.is_snapshot:
            raise NotComparable(
                "a row of this target may depend on all records, so that a sample cannot be compared"
            )
        ranges = _choose_ranges(self.broker, request)
        if not ranges:
            raise NotComparable(f"the consumer group {self.broker.group} has committed no records")
        self._check_idle(request.committed)
        narrowed = target.narrow(spark, ranges)
        starts = {} if narrowed is None else {partition: start for partition, (start, _) in narrowed.items()}
        # Without positions, the target may have rows of records that the topics no longer have.
        has_no_positions = narrowed is None or target.is_snapshot
        has_other_rows = has_no_positions and any(start > 0 for start, _ in ranges.values())
        ranges = _select_ranges(ranges if narrowed is None else narrowed, request.sample_percent)
        if not ranges:
            raise NotComparable("the target has no file whose records are all among those to compare")
        no_rows: tuple[Buckets, StructType | None] = ({}, None)
        (expected, schema), summary = self._with_expected(ranges, _tally_rows, no_rows)
        rows = target.stored_rows(spark, schema, starts)
        stored = {} if rows is None else tally_buckets(hash_rows(rows))
        differences = Differences()
        if buckets := find_differing_buckets(expected, stored):
            extends = not (is_sample or target.is_snapshot)
            differences = self._locate(ranges, schema, starts, buckets, extends=extends)
        self._check_idle(request.committed)
        return ProofResult(
            ranges=ranges,
            expected_count=sum(tally.count for tally in expected.values()),
            stored_count=sum(tally.count for tally in stored.values()),
            differences=differences,
            skipped=_count_skipped(summary, has_dead_letters=has_dead_letters),
            is_partial=has_other_rows or is_sample,
        )

    def _check_idle(self, committed: Mapping[TopicPartition, int]) -> None:
        """Raise NotComparable if the target requires it and the topics have records that are not committed."""
        if not self.target.needs_idle:
            return
        partitions = self.broker.partitions({partition.topic for partition in committed})
        later: dict[TopicPartition, tuple[int, int]] = {}
        for partition, bound in self.broker.bounds(partitions).items():
            start = max(bound.low, committed.get(partition, bound.low))
            later |= {partition: (start, bound.high)} if start < bound.high else {}
        # The last offsets of a partition may have no records, but markers of transactions.
        if later and self.reader.read(self.spark.session, later).limit(1).count():
            partition, (start, _) = min(later.items())
            raise NotComparable(
                f"the topics have records whose offsets are not committed, such as {partition}@{start}, so that rows "
                "of the target may change. Retry when no records arrive"
            )

    def _locate(
        self,
        ranges: Ranges,
        schema: StructType | None,
        starts: Mapping[TopicPartition, int],
        buckets: Sequence[int],
        *,
        extends: bool,
    ) -> Differences:
        """Compare the rows of these buckets one by one; if `extends`, with the records up to the ends of the topics.

        The target is read before these ends, so each of its rows has a record. The other buckets were equal.
        """
        rows = self.target.stored_rows(self.spark.session, schema, starts)
        stored = None if rows is None else HashedRows.of(select_buckets(hash_rows(rows), buckets))
        try:
            bounds = self.broker.bounds(sorted(ranges)) if extends else {}
            extended = {
                partition: (start, max(end, bounds[partition].high if partition in bounds else end))
                for partition, (start, end) in ranges.items()
            }
            committed = {partition: end for partition, (_, end) in ranges.items()}
            differences, _ = self._with_expected(
                extended,
                lambda rows: find_differences(
                    select_buckets(hash_rows(rows), buckets),
                    None if stored is None else stored.hashes,
                    committed,
                ),
                Differences(unexpected_count=0 if stored is None else stored.tally.count),
            )
            return differences
        finally:
            if stored is not None:
                stored.close()

    def _with_expected(
        self, ranges: Ranges, use: Callable[[DataFrame], T], empty: T
    ) -> tuple[T, Summary | None]:
        """Call `use` with the rows that the target should have for the records of `ranges`.

        Return its result, or `empty` if no record has rows, and the outcomes of the records.
        """
        results: list[T] = []

        def put(
            frame: DataFrame,
            key_schema: Schema | None = None,
            value_schema: Schema | None = None,
            values: SinkValues | None = None,
            records: int | None = None,
        ) -> None:
            del key_schema, value_schema, records
            results.append(use(self.target.expected_rows(frame, values)))

        record_count = sum(end - start for start, end in ranges.values())
        summary = self.path.write(ReadBatch(ranges, record_count), self.spark, put)
        return results[-1] if results else empty, summary


def _choose_ranges(broker: BrokerQueries, request: ProofRequest) -> Ranges:
    """Return the offsets to compare: of each partition, from the first record to the committed offset."""
    ranges: dict[TopicPartition, tuple[int, int]] = {}
    bounds = broker.bounds(sorted(request.committed))
    for partition, bound in bounds.items():
        start, end = bound.low, request.committed[partition]
        if end > bound.high:
            raise NotComparable(
                f"the committed offset {end} of {partition} is after the end of the partition, {bound.high}: the topic "
                "was deleted and created again"
            )
        if request.max_age_ms is not None:
            first = broker.find_offset_since(partition, request.max_age_ms)
            start = end if first is None else max(start, first)
        if start < end:
            ranges[partition] = (start, end)
    return ranges


def _select_ranges(ranges: Ranges, sample_percent: float | None) -> Ranges:
    """Return the ranges with records, or a sample of each."""
    return {
        partition: (start, end) if sample_percent is None else choose_sample(start, end, sample_percent)
        for partition, (start, end) in ranges.items()
        if start < end
    }


def _tally_rows(rows: DataFrame) -> tuple[Buckets, StructType | None]:
    """Count rows; return their schema without the position."""
    return tally_buckets(hash_rows(rows)), rows.drop(*EXPECTED_POSITION).schema


def _count_skipped(summary: Summary | None, *, has_dead_letters: bool) -> SkippedRecords:
    """Return the number of records without rows. Records that are processed by columns have no errors."""
    if summary is None:
        return SkippedRecords()
    failed = summary.counts.skipped
    return SkippedRecords(
        dead_letters=failed if has_dead_letters else None,
        tolerated=None if has_dead_letters else failed,
        dropped=summary.read - summary.written - failed,
    )

"""Writes a batch of a sink in one attempt: chooses the write path, calls the plugin, and handles reported records.

Nothing is committed here: the executor reports the result, and the task then requests the commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING

from kraal.core.ids import TopicName
from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.records.counts import count_batch
from kraal.engine.records.reports import Reports, handle_reports
from kraal.engine.records.steps import Summary
from kraal.engine.records.tolerance import Tolerance
from kraal.engine.session.jobs import JobGroup
from kraal.engine.session.row_counts import RowCounts
from kraal.engine.sink.batch_ownership import BatchOwnership
from kraal.engine.sink.range_reader import RangeReader
from kraal.engine.sink.ranges import to_offsets
from kraal.engine.sink.record_batches import SinkRecords
from kraal.engine.sink.write_paths import (
    GetSpark,
    ReadBatch,
    RecordPathRequired,
    SinkFacts,
    SinkWriter,
    WritePath,
    choose,
)
from kraal.ledger.counts import BatchEntry, Counts
from kraal.metrics.errors import ErrorCounts
from kraal.plugins.api import SinkBatch, SinkTask, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kraal.plugins.api import Schema, SinkValues


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkParts:
    """The parts of a run that all its batches use."""

    spec: TaskSpec
    task: SinkTask
    group: JobGroup
    reader: RangeReader
    ownership: BatchOwnership
    records: SinkRecords | None
    """The record path; None without transforms and error handling."""
    facts: SinkFacts
    writers: Mapping[WritePath, SinkWriter]
    settled_records: set[tuple[TopicPartition, int]] = field(default_factory=set)
    """Reported records whose dead letters are written, although their batch is not complete yet."""


class SinkAttempt:
    """One attempt to write a batch; a batch that has failed is read again for another attempt. For job threads."""

    def __init__(self, parts: SinkParts, batch: ReadBatch) -> None:
        self._parts, self._batch = parts, batch
        tolerance = Tolerance() if parts.records is None else parts.records.steps.tolerance
        self._reports = Reports(batch.ranges, tolerance)
        self._choice = choose(parts.facts, batch)
        self._flush: Callable[[], object] | None = None
        """Handles the records that the plugin has reported so far."""
        self._put_rows: RowCounts | int | None = 0
        """The rows that the plugin has received; None if they are not counted."""
        self._written: int | None = None
        """The rows that the plugin has reported as written."""

    def write(self) -> BatchDone | None:
        """Write the batch; return its result, or None if the batch is lost and must not be committed.

        Raises the errors of the writer, of the plugin and of dead letters, and ToleranceExceeded for a reported record.
        """
        parts, summary = self._parts, None
        start_s = time.monotonic()
        parts.ownership.set_batch_size(self._batch.records)
        with ExitStack() as stack:
            spark = cache(lambda: stack.enter_context(parts.group.job(f"{parts.spec.task} sink")))
            self._flush = partial(self._handle_reports, spark)
            try:
                summary = self._write(spark)
            except Exception:
                if not parts.ownership.is_lost and self._reports.fatal is None:
                    raise
            if parts.ownership.is_lost:
                return None
            self._reports.close()
            reported_errors = self._handle_reports(spark)
            for partition, faults in self._reports.list_faults().items():
                parts.settled_records.difference_update((partition, offset) for offset in faults)
        return self._make_result(summary, reported_errors, start_s)

    def _write(self, spark: GetSpark) -> Summary | None:
        """Write the batch on the chosen path, or on the record path if a record does not have the sample's form."""
        parts, batch = self._parts, self._batch
        try:
            return parts.writers[self._choice.write_path].write(batch, spark, self._put)
        except RecordPathRequired:
            self._choice = choose(parts.facts, batch, differs=True)
            return parts.writers[self._choice.write_path].write(batch, spark, self._put)

    def _put(
        self,
        frame: DataFrame,
        key_schema: Schema | None = None,
        value_schema: Schema | None = None,
        values: SinkValues | None = None,
        records: int | None = None,
        table: pa.Table | None = None,
    ) -> None:
        """Call the plugin; implements `Put`. Raises the plugin's errors."""
        self._put_rows, self._written = (None if table is None else table.num_rows), None
        task = self._parts.task
        is_counted = table is None and self._batch.reads is not None
        if is_counted and task.reads_frame_once and not task.reports_written:
            self._put_rows = RowCounts()
            frame = self._put_rows.observe(frame)
        task.write(
            SinkBatch(
                frame=frame,
                ranges=dict(self._batch.ranges),
                key_schema=key_schema,
                value_schema=value_schema,
                values=values,
                records=records,
                table=table,
                reporter=self._reports.report,
                flush=self._flush,
                ownership=self._parts.ownership.check_owned,
                receiver=self._record_written,
            )
        )

    def _record_written(self, rows: int) -> None:
        self._written = rows

    def _handle_reports(self, spark: GetSpark) -> ErrorCounts:
        """Handle records that the plugin has reported; read them again if dead letters or the log require them."""
        parts, tolerance = self._parts, self._reports.tolerance
        records = parts.records
        write_dead_letters = (
            None if records is None or records.dead_letters is None else records.write_dead_letters
        )
        is_needed = write_dead_letters is not None or (tolerance.logs and tolerance.shows_records)
        read_again = partial(parts.reader.read_again, spark, self._batch) if is_needed else None
        return handle_reports(
            parts.spec.task, self._reports, read_again, write_dead_letters, parts.settled_records
        )

    def _make_result(
        self, summary: Summary | None, reported_errors: ErrorCounts, start_s: float
    ) -> BatchDone:
        batch = self._batch
        entry = (
            None
            if batch.reads is None
            else BatchEntry(counts=self._count(summary, batch.reads, reported_errors))
        )
        if summary is None:  # all records were written
            topics = frozenset(partition.topic for partition in batch.ranges)
            summary = Summary(read=batch.records, written=batch.records, topics=topics)
        return BatchDone(
            offsets=to_offsets(batch.ranges),
            records=summary.written,
            read=summary.read,
            topics=frozenset(map(TopicName, summary.topics)),
            duration_s=time.monotonic() - start_s,
            errors=summary.counts + reported_errors,
            write_path=str(self._choice),
            entry=entry,
        )

    def _count(self, summary: Summary | None, reads: RowCounts, reported_errors: ErrorCounts) -> Counts:
        """Return the counts for the ledger. Each side is counted separately: none is derived from the other."""
        batch, put_rows = self._batch, self._put_rows
        if batch.table is not None:
            read: int | None = batch.records
        else:
            read = reads.get() if summary is None else summary.read
        put_count = put_rows.get() if isinstance(put_rows, RowCounts) else put_rows
        written = self._written
        if written is None and put_count is not None:
            written = put_count - reported_errors.errors
        if summary is None:
            return count_batch(read=read, written=written, errors=reported_errors)
        errors = summary.counts + reported_errors
        return count_batch(read=read, written=written, dropped=summary.dropped, errors=errors)

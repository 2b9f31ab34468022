"""The write path for batches that Spark reads, and for large tables: one Spark job per batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kraal.core.ids import TopicName
from kraal.engine import client_options
from kraal.engine.api import BatchDone
from kraal.engine.executor import JobResult
from kraal.engine.kafka_io.offset_pairs import PairTracker, report_unknown, report_written, untrackable_reason
from kraal.engine.kafka_io.writer import write
from kraal.engine.records.steps import Summary
from kraal.engine.source.parts import (
    MAY_CHANGE_RECORDS,
    SourceParts,
    discover_batch,
    make_frame,
)
from kraal.engine.source.topics import collect_topics
from kraal.engine.source.write_paths import PolledBatch
from kraal.ledger.counts import BatchEntry, Counts
from kraal.plugins.api import SourceBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class OwnJob:
    """Reads, transforms, converts and writes a batch as one Spark job. Implements `SourceWriter`."""

    parts: SourceParts

    def write(self, polled: PolledBatch, done: Callable[[JobResult], None]) -> None:
        """Run the job on a job thread."""
        self.parts.context.run(partial(self._run, polled), done)

    def _run(self, polled: PolledBatch) -> JobResult:
        parts, start_s = self.parts, time.monotonic()
        with parts.group.job(f"{parts.spec.task} batch {polled.number}") as spark:
            batch = discover_batch(polled.batch, spark.session)
            if batch is None:
                return None
            tracker = self._make_tracker(batch, spark.session, is_first=polled.number == 1)
            frame = make_frame(batch, spark.session, is_tracked=tracker is not None)
            result = self._write(frame, batch, tracker)
            if tracker is not None and batch.tracking is not None:
                report_written(batch.tracking, tracker)
        if result.summary is not None:
            assert parts.records is not None  # noqa: S101 - only the record path returns a summary
            parts.limits.ensure(result.summary.topics)
            return parts.records.make_report(
                batch, result.summary, start_s=start_s, poll_s=polled.poll_s, acknowledged=result.rows
            )
        return BatchDone(
            offsets=batch.offsets,
            records=result.rows,
            topics=result.topics,
            duration_s=time.monotonic() - start_s,
            poll_s=polled.poll_s,
            entry=BatchEntry(counts=Counts(read=result.read, written=result.rows)),
        )

    def _make_tracker(self, batch: SourceBatch, spark: SparkSession, *, is_first: bool) -> PairTracker | None:
        """Return the tracker for a batch's offsets; None if they are not requested or not available.

        Report to the plugin why offsets are not available.
        """
        parts, tracking = self.parts, batch.tracking
        if tracking is None or batch.read is None:
            return None
        options = parts.options(client_options.producer_client_id(parts.spec.task))
        reason = untrackable_reason(options, is_local=parts.context.view.spark_is_local)
        if parts.records is not None:
            reason = MAY_CHANGE_RECORDS
        if reason is not None:
            report_unknown(tracking, reason)
            return None
        tracker = PairTracker(spark, str(parts.spec.task), tracking.step)
        if is_first:
            tracker.discard()
        return tracker

    def _write(self, frame: DataFrame, batch: SourceBatch, tracker: PairTracker | None) -> _Result:
        """Write the DataFrame by columns if possible, otherwise record by record."""
        parts, client_id = self.parts, client_options.producer_client_id(self.parts.spec.task)
        counter = parts.count_reads(batch)
        if parts.records is None:
            if parts.topics is not None or batch.topic is not None:
                topics = collect_topics(frame, batch.topic)
                if parts.topics is not None:
                    parts.topics.ensure(topics)
                parts.limits.ensure(topics, should_exist=parts.topics is not None)
            plan = replace(parts.plan(batch), options=parts.options(client_id), tracker=tracker)
            rows, written_topics = write(counter.observe(frame), plan, batch.topic)
            return _Result(rows, written_topics, read=counter.get())
        parts.limits.ensure([batch.topic])
        options = parts.options(client_id)
        result = parts.records.write_columns(frame, batch, options, counter.observe)
        if result is not None:
            return _Result(*result, read=counter.get())
        summary, rows = parts.records.write(frame, batch, options)
        return _Result(rows, summary=summary)


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of a job."""

    rows: int
    """Number of rows that Spark has written."""
    topics: frozenset[TopicName] = frozenset()
    read: int | None = None
    """Number of rows that were read; None if they were not counted, or the summary contains the number."""
    summary: Summary | None = None
    """The outcomes of the records on the record path; None on the column path."""

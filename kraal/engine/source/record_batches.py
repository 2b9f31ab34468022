"""The record path for batches of a source task.

The worker processes a small batch on a job thread, and coalesces the resulting rows with rows of other tasks. Spark's
Python workers process a larger batch, in the job that writes it. In both cases, offsets are stored for the whole batch,
including skipped records. If all transforms have a column form, a batch that Spark reads or that has at least
`MIN_COLUMN_ROWS` records takes the column path instead (`kraal.engine.columns.source`). The batch is repeated on the
record path if the results for one of its rows may differ.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kraal.core.ids import TopicName
from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.columns.source import SourceColumns, needs_record_path, with_options
from kraal.engine.kafka_io.writer import WritePlan, kafka_frame, write, write_with_notes
from kraal.engine.records.counts import count_batch, count_dead_letters
from kraal.engine.records.outcomes import handle_outcomes
from kraal.engine.records.source_pass import COLUMNS, DDL, OUT, DeadTopic, SourcePass
from kraal.engine.records.steps import Steps, Summary, merge_notes
from kraal.engine.records.topics import raise_topic_error
from kraal.engine.session.arrow import map_in_arrow
from kraal.engine.source.topics import SourceTopics
from kraal.engine.source.write_paths import MAX_WORKER_ROWS
from kraal.ledger.counts import BatchEntry
from kraal.plugins.api import SourceBatch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

MIN_COLUMN_ROWS: Final = 1000
"""Minimum number of records of a table that takes the column path: one by one, they would block this process."""


Pass = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


class RunCancelled(Exception):
    """The run was cancelled while a record waited for a retry."""


@dataclass(slots=True)
class SourceRecords:
    """The record path of one run."""

    spec: TaskSpec
    steps: Steps
    dead_topic: DeadTopic | None
    topics: SourceTopics | None
    cancelled: threading.Event
    columns: SourceColumns | None = None
    """The column path; None if the task's batches must not take it."""

    def accepts(self, batch: SourceBatch) -> bool:
        """Return whether the batch is small enough for this process."""
        return batch.table is not None and batch.table.num_rows <= MAX_WORKER_ROWS

    def table_plan(self, batch: SourceBatch) -> tuple[WritePlan, str | None] | None:
        """Return the column plan and the topic for a table; None if the table must take the record path."""
        table = batch.table
        if self.columns is None or table is None or table.num_rows < MIN_COLUMN_ROWS:
            return None
        return self._column_plan(batch, table.column_names)

    def write_columns(
        self,
        frame: DataFrame,
        batch: SourceBatch,
        options: Mapping[str, str],
        observe: Callable[[DataFrame], DataFrame],
    ) -> tuple[int, frozenset[TopicName]] | None:
        """Write a DataFrame by columns; return None if the record path must write it, even if it is partly written.

        `observe` counts the rows of the DataFrame.
        """
        column_plan = self._column_plan(batch, frame.columns)
        if column_plan is None:
            return None
        if self.topics is not None:
            self.topics.ensure(column_plan[1:])
        try:
            return write(observe(frame), with_options(column_plan[0], options), column_plan[1])
        except Exception as exc:
            if not needs_record_path(exc):
                raise
            log.info("%s: Repeating a batch record by record: %s", self.spec.task, exc)
            return None

    def column_frame(
        self,
        frame: DataFrame,
        batch: SourceBatch,
        observe: Callable[[DataFrame], DataFrame] = lambda frame: frame,
    ) -> tuple[DataFrame, str | None] | None:
        """Return the DataFrame transformed by columns, and the topic; None if the batch must take the record path.

        `observe` counts the rows of the DataFrame. A job over the result may fail with `needs_record_path`.
        """
        column_plan = self._column_plan(batch, frame.columns)
        if column_plan is None:
            return None
        if self.topics is not None:
            self.topics.ensure(column_plan[1:])
        return kafka_frame(observe(frame), *column_plan, for_spark=False), column_plan[1]

    def pass_frame(self, frame: DataFrame, batch: SourceBatch) -> DataFrame:
        """Return the DataFrame processed by the record path, with notes."""
        names = [name for name in COLUMNS if name in frame.columns]
        return map_in_arrow(frame.select(*names), self._make_pass(batch), DDL)

    def process_table(self, batch: SourceBatch) -> tuple[pa.Table, Summary]:
        """Process a small batch; return the rows to write, and the summary."""
        import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

        assert batch.table is not None  # noqa: S101 - `accepts` has checked this
        names = [name for name in COLUMNS if name in batch.table.column_names]
        process = self._make_pass(batch, in_process=True)
        output = pa.Table.from_batches(list(process(batch.table.select(names).to_batches())), OUT)
        is_row = output["topic"].is_valid()
        summary, _ = merge_notes(output["note"].to_pylist())
        return output.filter(is_row).drop_columns(["note"]), summary

    def write(self, frame: DataFrame, batch: SourceBatch, options: Mapping[str, str]) -> tuple[Summary, int]:
        """Process a DataFrame with Spark, and write it to Kafka.

        Return the summary, and the number of rows that Spark has written, with dead letters.
        """
        notes, row_count = write_with_notes(self.pass_frame(frame, batch), options)
        return merge_notes(notes)[0], row_count

    def plan(self, options: Mapping[str, str]) -> WritePlan:
        """Return the plan to write the rows of a pass."""
        return WritePlan(converters=None, options=options, key_schema=None, value_schema=None)

    def make_report(
        self,
        batch: SourceBatch,
        summary: Summary,
        *,
        start_s: float,
        poll_s: float,
        read: int | None = None,
        acknowledged: int | None = None,
    ) -> BatchDone:
        """Return the report for written rows. Raises ToleranceExceeded, RetriableError and TopicFailed.

        Args:
            batch: the batch.
            summary: the outcomes of its records.
            start_s: when the write has started, in monotonic seconds.
            poll_s: the duration of the poll.
            read: the number of records that the plugin has returned; None if only the pass has counted them.
            acknowledged: the number of rows that Kafka has acknowledged, with dead letters; None if it is unknown.
        """
        handle_outcomes(self.spec.task, summary, self.steps.tolerance)
        raise_topic_error(summary.topic_error)
        if self.topics is not None:
            self.topics.add(summary.topics)
        written = None if acknowledged is None else acknowledged - count_dead_letters(summary.counts)
        counts = count_batch(
            read=summary.read if read is None else read,
            written=written,
            dropped=summary.dropped,
            errors=summary.counts,
        )
        return BatchDone(
            offsets=batch.offsets,
            records=summary.written,
            read=summary.read,
            topics=frozenset(map(TopicName, summary.topics)),
            duration_s=time.monotonic() - start_s,
            poll_s=poll_s,
            errors=summary.counts,
            entry=BatchEntry(counts=counts),
        )

    def _column_plan(self, batch: SourceBatch, names: Iterable[str]) -> tuple[WritePlan, str | None] | None:
        column_plan = None if self.columns is None else self.columns.plan(batch, frozenset(names))
        if column_plan is not None and column_plan[1] is None and self.topics is not None:
            return None  # missing topics must be created, and only the record path finds their names
        return column_plan

    def _make_pass(self, batch: SourceBatch, *, in_process: bool = False) -> Pass:
        """Return the pass for a batch; with `in_process`, it runs in this process and can be cancelled."""
        local = SourcePass(
            steps=self.steps,
            topic=batch.topic,
            key_schema=batch.key_schema,
            value_schema=batch.value_schema,
            timestamp_ms=batch.timestamp_ms,
            origin=describe_origin(batch),
            dead_topic=self.dead_topic,
            gate=None if self.topics is None else self.topics.gate(),
            refuses_nul=self.spec.transactions is not None,
        )
        if self.spec.chain is not None:
            return self.spec.chain.source_pass(local, batch, self.cancelled if in_process else None)
        return replace(local, wait=self._wait) if in_process else local

    def _wait(self, seconds: float) -> None:
        if self.cancelled.wait(seconds):
            raise RunCancelled


def describe_origin(batch: SourceBatch) -> str:
    """Return the first source partition of a batch and its offset, in Java's format; single records have no offsets."""
    for partition, offset in batch.offsets.items():
        return f"sourcePartition={_format_map(partition.as_dict())}, sourceOffset={_format_map(offset)}"
    return "sourcePartition=null, sourceOffset=null"


def _format_map(values: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}={value}" for key, value in values.items()) + "}"

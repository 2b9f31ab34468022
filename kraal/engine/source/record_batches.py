"""The record path for batches of a source task.

The worker passes a small batch itself, on a job thread, and its rows are then coalesced with those of other tasks;
Spark's Python processes pass a larger one, in the same job that writes it. In both cases offsets are stored for the
whole batch, including skipped records. If all transforms have a column form, a batch that is not tiny takes
the column path instead (`kraal.engine.columns.source`), and returns here if a row of it is in doubt.
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
from kraal.engine.columns.source import SourceColumns, is_doubt, with_options
from kraal.engine.kafka_io.writer import WritePlan, kafka_frame, write, write_noted
from kraal.engine.records.outcomes import settle_outcomes
from kraal.engine.records.source_pass import COLUMNS, DDL, OUT, DeadTopic, SourcePass
from kraal.engine.records.steps import Steps, Summary, summed
from kraal.engine.records.topics import raise_trouble
from kraal.engine.session.arrow import map_in_arrow
from kraal.engine.source.topics import SourceTopics
from kraal.engine.source.ways import MAX_WORKER_ROWS
from kraal.plugins.api import SourceBatch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

MIN_COLUMN_ROWS: Final = 1000
"""From this many records, tables take the column path if possible, so that their pass does not block this process."""


Pass = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


class RunCancelled(Exception):
    """The run was cancelled while a record waited for a retry."""


@dataclass(slots=True)
class SourceRecords:
    """The record path of one run."""

    spec: TaskSpec
    steps: Steps
    dead: DeadTopic | None
    topics: SourceTopics | None
    cancelled: threading.Event
    columns: SourceColumns | None = None
    """The column path, if batches may take it."""

    def takes(self, batch: SourceBatch) -> bool:
        """Whether the batch is small enough for this process."""
        return batch.table is not None and batch.table.num_rows <= MAX_WORKER_ROWS

    def table_plan(self, batch: SourceBatch) -> tuple[WritePlan, str | None] | None:
        """Return the column plan for a batch that is a table, and its topic; None: use the record path."""
        table = batch.table
        if self.columns is None or table is None or table.num_rows < MIN_COLUMN_ROWS:
            return None
        return self._column_plan(batch, table.column_names)

    def write_columns(
        self, frame: DataFrame, batch: SourceBatch, options: Mapping[str, str]
    ) -> tuple[int, frozenset[TopicName]] | None:
        """Write a frame by columns; None: use the record path, even if part of it is in Kafka already."""
        planned = self._column_plan(batch, frame.columns)
        if planned is None:
            return None
        if self.topics is not None:
            self.topics.ensure(planned[1:])
        try:
            return write(frame, with_options(planned[0], options), planned[1])
        except Exception as exc:
            if not is_doubt(exc):
                raise
            log.info("%s: Repeating a batch record by record: %s", self.spec.task, exc)
            return None

    def column_frame(self, frame: DataFrame, batch: SourceBatch) -> tuple[DataFrame, str | None] | None:
        """Return the transformed frame of the column path, and its topic; None: use the record path.

        Rows of the frame may be in doubt (`is_doubt`).
        """
        planned = self._column_plan(batch, frame.columns)
        if planned is None:
            return None
        if self.topics is not None:
            self.topics.ensure(planned[1:])
        return kafka_frame(frame, *planned, for_spark=False), planned[1]

    def pass_frame(self, frame: DataFrame, batch: SourceBatch) -> DataFrame:
        """Return the frame after the record path, with notes."""
        names = [name for name in COLUMNS if name in frame.columns]
        return map_in_arrow(frame.select(*names), self._pass(batch), DDL)

    def table(self, batch: SourceBatch) -> tuple[pa.Table, Summary]:
        """Pass a small batch; return the rows to write and the outcome of the other records."""
        import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

        assert batch.table is not None  # noqa: S101 - `takes` has checked this
        names = [name for name in COLUMNS if name in batch.table.column_names]
        process = self._pass(batch, here=True)
        passed = pa.Table.from_batches(list(process(batch.table.select(names).to_batches())), OUT)
        is_row = passed["topic"].is_valid()
        summary, _ = summed(passed["note"].to_pylist())
        return passed.filter(is_row).drop_columns(["note"]), summary

    def write(self, frame: DataFrame, batch: SourceBatch, options: Mapping[str, str]) -> Summary:
        """Have Spark pass a frame and write it to Kafka."""
        notes = write_noted(self.pass_frame(frame, batch), options)
        return summed(notes)[0]

    def plan(self, options: Mapping[str, str]) -> WritePlan:
        """Return the plan for writing the rows of a pass."""
        return WritePlan(converters=None, options=options, key_schema=None, value_schema=None)

    def done(self, batch: SourceBatch, summary: Summary, *, began_s: float, poll_s: float) -> BatchDone:
        """Return the report once the rows are in Kafka. Raises ToleranceExceeded, RetriableError, TopicFailed."""
        settle_outcomes(self.spec.task, summary, self.steps.tolerance)
        raise_trouble(summary.trouble)
        if self.topics is not None:
            self.topics.note(summary.topics)
        return BatchDone(
            offsets=batch.offsets,
            records=summary.written,
            read=summary.read,
            topics=frozenset(map(TopicName, summary.topics)),
            duration_s=time.monotonic() - began_s,
            poll_s=poll_s,
            errors=summary.counts,
        )

    def _column_plan(self, batch: SourceBatch, names: Iterable[str]) -> tuple[WritePlan, str | None] | None:
        planned = None if self.columns is None else self.columns.plan(batch, frozenset(names))
        if planned is not None and planned[1] is None and self.topics is not None:
            return None  # missing topics must be created, and only the records contain their names
        return planned

    def _pass(self, batch: SourceBatch, *, here: bool = False) -> Pass:
        """Return the pass of a batch; `here`: in this process, where a cancel ends it."""
        local = SourcePass(
            steps=self.steps,
            topic=batch.topic,
            key_schema=batch.key_schema,
            value_schema=batch.value_schema,
            timestamp_ms=batch.timestamp_ms,
            origin=describe_origin(batch),
            dead=self.dead,
            gate=None if self.topics is None else self.topics.gate(),
            refuses_nul=self.spec.transactions is not None,
        )
        if self.spec.chain is not None:
            return self.spec.chain.source_pass(local, batch, self.cancelled if here else None)
        return replace(local, wait=self._wait) if here else local

    def _wait(self, seconds: float) -> None:
        if self.cancelled.wait(seconds):
            raise RunCancelled


def describe_origin(batch: SourceBatch) -> str:
    """Return a batch's source partition and end offset, in Java's format; single records have no offsets."""
    for partition, offset in batch.offsets.items():
        return f"sourcePartition={_map_text(partition.as_dict())}, sourceOffset={_map_text(offset)}"
    return "sourcePartition=null, sourceOffset=null"


def _map_text(values: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}={value}" for key, value in values.items()) + "}"

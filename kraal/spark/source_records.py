"""A source task's batches where records are handled one by one.

A small batch takes its pass here, on a job's thread, and what comes out is written like any small batch, with those of
other tasks; a larger one takes it in Spark's Python processes, in the same job that writes it. Either way offsets are
stored for the whole batch, whatever was left out of it. Where transforms have a column form, a batch that is not tiny
goes that way instead (`source_columns`), and comes back here when a row of it is in doubt.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kraal.ids import TopicName
from kraal.plugins.api import SourceBatch
from kraal.spark.api import BatchDone, TaskSpec
from kraal.spark.arrow import map_in_arrow
from kraal.spark.kafka_writer import WritePlan, kafka_frame, write, write_noted
from kraal.spark.records.fates import settle
from kraal.spark.records.source_pass import COLUMNS, DDL, OUT, DeadTopic, SourcePass
from kraal.spark.records.steps import Steps, Summary, summed
from kraal.spark.records.topics import raise_trouble
from kraal.spark.source_columns import SourceColumns, is_doubt, with_options
from kraal.spark.source_topics import SourceTopics

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

FEW = 5000
"""So many records take their pass in the worker: a tenth of a second or two, less than what Spark adds to it."""

MANY: Final = 1000
"""Tables of so many records go by columns where they can, so that their pass does not hold this process up."""


class RunCancelled(Exception):
    """The run was cancelled while a record waited to be tried again."""


@dataclass(slots=True)
class SourceRecords:
    """The record path of one run."""

    spec: TaskSpec
    steps: Steps
    dead: DeadTopic | None
    topics: SourceTopics | None
    cancelled: threading.Event
    columns: SourceColumns | None = None
    """Where a batch may go by columns instead."""

    def takes(self, batch: SourceBatch) -> bool:
        """Tell whether the batch is small enough for this process."""
        return batch.table is not None and batch.table.num_rows <= FEW

    def table_plan(self, batch: SourceBatch) -> tuple[WritePlan, str | None] | None:
        """Return how a batch that is a table goes by columns, and its topic; None: by records."""
        table = batch.table
        if self.columns is None or table is None or table.num_rows < MANY:
            return None
        return self._column_plan(batch, table.column_names)

    def write_columns(
        self, frame: DataFrame, batch: SourceBatch, options: Mapping[str, str]
    ) -> tuple[int, frozenset[TopicName]] | None:
        """Write a frame by columns; None: it must go by records, whatever of it is in Kafka already."""
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
            log.info("%s: a batch goes record by record, for by columns it cannot: %s", self.spec.task, exc)
            return None

    def column_frame(self, frame: DataFrame, batch: SourceBatch) -> tuple[DataFrame, str | None] | None:
        """Return what a frame comes to by columns, and its topic; None: it must go by records.

        What is made of it may be in doubt (`is_doubt`).
        """
        planned = self._column_plan(batch, frame.columns)
        if planned is None:
            return None
        if self.topics is not None:
            self.topics.ensure(planned[1:])
        return kafka_frame(frame, *planned, for_spark=False), planned[1]

    def pass_frame(self, frame: DataFrame, batch: SourceBatch) -> DataFrame:
        """Return what a frame comes to record by record, with notes."""
        known = [name for name in COLUMNS if name in frame.columns]
        return map_in_arrow(frame.select(*known), self._pass(batch), DDL)

    def table(self, batch: SourceBatch) -> tuple[pa.Table, Summary]:
        """Let a small batch take its pass; return the rows to write and what became of the others."""
        import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

        assert batch.table is not None  # noqa: S101 - `takes` has said so
        known = [name for name in COLUMNS if name in batch.table.column_names]
        one = replace(self._pass(batch), wait=self._wait)
        found = pa.Table.from_batches(list(one(batch.table.select(known).to_batches())), OUT)
        is_row = found["topic"].is_valid()
        summary, _ = summed(found["note"].to_pylist())
        return found.filter(is_row).drop_columns(["note"]), summary

    def write(self, frame: DataFrame, batch: SourceBatch, options: Mapping[str, str]) -> Summary:
        """Have Spark take a frame through the pass to Kafka."""
        notes = write_noted(self.pass_frame(frame, batch), options)
        return summed(notes)[0]

    def plan(self, options: Mapping[str, str]) -> WritePlan:
        """Return how rows of a pass are written."""
        return WritePlan(converters=None, options=options, key_schema=None, value_schema=None)

    def done(self, batch: SourceBatch, summary: Summary, *, began_s: float, poll_s: float) -> BatchDone:
        """Return what to report once the rows are in Kafka. Raises ToleranceExceeded, RetriableError, TopicFailed."""
        settle(self.spec.task, summary, self.steps.tolerance)
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
            return None  # topics are to be seen to, and only the records say which
        return planned

    def _pass(self, batch: SourceBatch) -> SourcePass:
        return SourcePass(
            steps=self.steps,
            topic=batch.topic,
            key_schema=batch.key_schema,
            value_schema=batch.value_schema,
            timestamp_ms=batch.timestamp_ms,
            origin=origin_of(batch),
            dead=self.dead,
            gate=None if self.topics is None else self.topics.gate(),
        )

    def _wait(self, seconds: float) -> None:
        if self.cancelled.wait(seconds):
            raise RunCancelled


def origin_of(batch: SourceBatch) -> str:
    """Return a batch's source partition and offset as Java prints a record's; those of its end, for it has no other."""
    for partition, offset in batch.offsets.items():
        return f"sourcePartition={_map_text(partition.as_dict())}, sourceOffset={_map_text(offset)}"
    return "sourcePartition=null, sourceOffset=null"


def _map_text(values: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}={value}" for key, value in values.items()) + "}"

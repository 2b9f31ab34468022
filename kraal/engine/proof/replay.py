"""Reads the records of a source again with second instances of its tasks, and hashes the resulting records."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

from kraal.core.ids import TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import TaskSpec
from kraal.engine.columns.functions import F
from kraal.engine.columns.source import SourceColumns, needs_record_path
from kraal.engine.context import ExecutorContext
from kraal.engine.kafka_io.writer import WritePlan, kafka_frame
from kraal.engine.proof.frames import HASH, tally
from kraal.engine.record_path import record_path
from kraal.engine.records.outcomes import handle_outcomes
from kraal.engine.records.steps import Summary, merge_notes
from kraal.engine.session.session import Spark
from kraal.engine.source.parts import discover_batch, make_frame
from kraal.engine.source.record_batches import SourceRecords
from kraal.engine.source.table_types import with_kafka_types
from kraal.engine.task_plugins import make_converters
from kraal.plugins.api import NotComparable, SourceBatch, SourceReplay, SourceTask
from kraal.proof.differences import Tally

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

log = logging.getLogger(__name__)

NUMBER: Final = "__kraal_number"
"""The column with `monotonically_increasing_id`: the number of the Spark partition above 33 bits with the number of the
record in this partition."""
_PARTITION_SHIFT: Final = 33
_RECORD_MASK: Final = (1 << _PARTITION_SHIFT) - 1
MAX_LATER_BATCHES: Final = 5
"""Maximum number of batches after the stored offsets that one pass over a task reads."""
_TOPIC: Final = "topic"
_NOTE: Final = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedBatch:
    """A batch that was read again."""

    starts: Mapping[SourcePartition, Offset | None]
    """The offset of each partition before the batch; None if the batch starts the partition."""
    ends: Mapping[SourcePartition, Offset]
    """The offset of each partition after the batch."""
    rows: DataFrame
    """A row with the hash of each record, and a row for each note about outcomes; persisted on disk."""
    tally: Tally
    topics: frozenset[str]
    summary: Summary | None
    """The outcomes of the records if they were processed one by one."""
    _preceding_counts: dict[int, int] = field(default_factory=lambda: {0: 0})
    """The number of records before a Spark partition, by its number."""

    @property
    def hashes(self) -> DataFrame:
        """The hash and the `NUMBER` of each record."""
        return self.rows.where(F.col(_NOTE).isNull()).select(HASH, NUMBER)

    def compute_record_number(self, number: int) -> int:
        """Return the number of a record in the whole batch, from 1. May run a Spark job."""
        spark_partition = number >> _PARTITION_SHIFT
        if spark_partition not in self._preceding_counts:
            preceding_rows = self.hashes.where(F.col(NUMBER) < F.lit(spark_partition << _PARTITION_SHIFT))
            self._preceding_counts[spark_partition] = preceding_rows.count()
        return self._preceding_counts[spark_partition] + (number & _RECORD_MASK) + 1


class Replayer:
    """Polls second instances of a connector's tasks, without stored offsets. Not thread-safe."""

    def __init__(
        self,
        context: ExecutorContext,
        spec: TaskSpec,
        replay: SourceReplay,
        task_configs: Sequence[Mapping[str, str]],
    ) -> None:
        """Prepare to read with these task configs; `spec` has the config of the connector. Raises NotComparable."""
        connector = context.plugins.connector_class(spec.connector_config["connector.class"])
        task_class = connector.task_class
        if not issubclass(task_class, SourceTask):
            raise NotComparable(f"{spec.task.connector} is not a source")
        self._task_class, self._context, self._spec = task_class, context, spec
        self._replay = replay
        self.is_complete = True
        """Whether the latest `read` has read all data."""
        self._task_configs = task_configs
        self._tasks: list[SourceTask] = []
        self._ends: dict[SourcePartition, Offset] = {}
        self._batches: list[ReplayedBatch] = []
        self._converters = make_converters(context.plugins, context.worker, spec)
        path = record_path(context, spec, self._converters)
        columns = None
        if path.why is not None and path.steps.tolerance.is_default:
            columns = SourceColumns.of(path.steps, self._converters, spec.connector_config)
        records = SourceRecords(spec, path.steps, None, None, threading.Event(), columns)
        self._records = None if path.why is None else records

    def __enter__(self) -> Self:
        """Start the tasks. Raises the errors of plugins."""
        try:
            for number, config in enumerate(self._task_configs):
                task = self._task_class()
                self._tasks.append(task)
                spec = replace(self._spec, task=TaskId(self._spec.task.connector, number), task_config=config)
                task.start(config, {}, self._context.task_context(spec))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the tasks and remove the hashes."""
        tasks, self._tasks = self._tasks, []
        with ExitStack() as stack:
            for batch in self._batches:
                stack.callback(batch.rows.unpersist)
            for task in tasks:
                stack.callback(_stop, task)

    def read(self, spark: Spark, stored: Mapping[SourcePartition, Offset]) -> Iterator[ReplayedBatch]:
        """Read each task until it has no more data; yield the batches. Runs Spark jobs.

        A source that is written continuously always has more data. So a task is also left after `MAX_LATER_BATCHES`
        batches of records after the `stored` offsets; `is_complete` is then False. Another call continues where the
        last one ended. Raises the errors of plugins and of Spark, and ToleranceExceeded.
        """
        self.is_complete = True
        for task in self._tasks:
            later_batches = 0
            while (polled := task.poll()) is not None:
                batch = discover_batch(with_kafka_types(polled), spark.session)
                if batch is None:
                    break
                replayed_batch = self._process(batch, spark)
                yield replayed_batch
                if self._replay.is_after(replayed_batch.starts, stored):
                    later_batches += 1
                if batch.table is not None and self._replay.is_after(replayed_batch.ends, stored):
                    break  # a table contains all data up to its poll
                if later_batches >= MAX_LATER_BATCHES:
                    self.is_complete = False
                    break

    def read_ranges(
        self,
        spark: Spark,
        starts: Mapping[SourcePartition, Offset],
        ends: Mapping[SourcePartition, Offset] | None,
    ) -> Iterator[ReplayedBatch]:
        """Yield what `SourceTask.read_range` of each task returns. Runs Spark jobs; raises the errors of `read`."""
        for task in self._tasks:
            batch = task.read_range(spark.session, starts, ends)
            if batch is not None:
                yield self._process(with_kafka_types(batch), spark)

    def _process(self, batch: SourceBatch, spark: Spark) -> ReplayedBatch:
        frame = make_frame(batch, spark.session)
        replayed_batch = None if self._records is None else self._process_columns(self._records, frame, batch)
        if replayed_batch is None and self._records is not None:
            replayed_batch = self._hash(batch, self._records.pass_frame(frame, batch), None)
        elif replayed_batch is None:
            plan = WritePlan(
                converters=self._converters,
                options={},
                key_schema=batch.key_schema,
                value_schema=batch.value_schema,
            )
            converted_frame = kafka_frame(frame, plan, batch.topic, for_spark=False)
            replayed_batch = self._hash(batch, converted_frame, batch.topic)
        self._batches.append(replayed_batch)
        self._ends |= batch.offsets
        return replayed_batch

    def _process_columns(
        self, records: SourceRecords, frame: DataFrame, batch: SourceBatch
    ) -> ReplayedBatch | None:
        """Process a batch in the column form of the transforms; return None if it must take the record path."""
        column_result = records.column_frame(frame, batch)
        if column_result is None:
            return None
        try:
            return self._hash(batch, *column_result)
        except Exception as exc:
            if needs_record_path(exc):
                return None
            raise

    def _hash(self, batch: SourceBatch, rows: DataFrame, topic: str | None) -> ReplayedBatch:
        """Hash converted rows; `topic` is the topic of all rows, or None if there is a column."""
        from pyspark import StorageLevel  # noqa: PLC0415 - loaded after the start of Spark

        topic_column = F.col(_TOPIC) if topic is None else F.lit(topic)
        note = F.col(_NOTE) if _NOTE in rows.columns else F.lit(None).cast("string")
        columns = (
            hash_record(rows, topic_column).alias(HASH),
            F.monotonically_increasing_id().alias(NUMBER),
            topic_column.alias(_TOPIC),
            note.alias(_NOTE),
        )
        all_rows = rows.select(*columns).persist(StorageLevel.DISK_ONLY)
        try:
            hashes = all_rows.where(F.col(_NOTE).isNull())
            batch_tally = tally(hashes)
            topics = [row[0] for row in hashes.select(_TOPIC).distinct().collect()]
            notes = [row[0] for row in all_rows.where(F.col(_NOTE).isNotNull()).select(_NOTE).collect()]
            summary = merge_notes(notes)[0] if notes else None
            if summary is not None and self._records is not None:
                handle_outcomes(self._spec.task, summary, self._records.steps.tolerance)
        except BaseException:
            all_rows.unpersist()
            raise
        return ReplayedBatch(
            starts={partition: self._ends.get(partition) for partition in batch.offsets},
            ends=dict(batch.offsets),
            rows=all_rows,
            tally=batch_tally,
            topics=frozenset(topics),
            summary=summary,
        )


def _stop(task: SourceTask) -> None:
    try:
        task.stop()
    except Exception:
        log.warning("Failed to stop a task of a proof", exc_info=True)


def hash_record(rows: DataFrame, topic: Column) -> Column:
    """Return the hash of a record's topic, key, value and headers."""
    null_bytes = F.lit(None).cast("binary")
    key, value = (
        F.col(name).cast("binary") if name in rows.columns else null_bytes for name in ("key", "value")
    )
    headers = F.lit(None).cast("string")
    if "headers" in rows.columns:
        headers = F.when(F.size("headers") > F.lit(0), F.to_json("headers"))
    return F.xxhash64(topic, key, F.isnull(key), value, F.isnull(value), headers)

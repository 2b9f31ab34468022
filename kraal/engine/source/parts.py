"""The parts of a source task's run that all write paths share."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kraal.engine import client_options
from kraal.engine.api import TaskSpec
from kraal.engine.columns.source import converts_identically
from kraal.engine.context import ExecutorContext
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.kafka_io.message_limits import BATCH_SIZE, MessageLimits
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.lanes.rows import is_small
from kraal.engine.records.topics import TopicLookupCancelled
from kraal.engine.session.jobs import JobGroup
from kraal.engine.session.row_counts import RowCounts
from kraal.engine.source.record_batches import SourceRecords
from kraal.engine.source.table_types import with_kafka_types
from kraal.engine.source.topics import SourceTopics
from kraal.engine.source.write_paths import WritePath
from kraal.engine.task_plugins import Converters
from kraal.ledger.source_ranges import SourceRanges
from kraal.plugins.api import SourceBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAY_CHANGE_RECORDS: Final = "transforms, error handling or a converter may change or drop records"
"""Why the offsets of records that are processed one by one are not available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCounter:
    """Counts the records of a batch in the job that reads and writes them."""

    table_rows: int | None = None
    """The number of records of a table; None for a DataFrame."""
    rows: RowCounts | None = None
    """Counts the rows of a DataFrame; None if they are not counted."""

    def observe(self, frame: DataFrame) -> DataFrame:
        """Return the DataFrame to write, which must be written: Spark keeps other observed frames for ever."""
        return frame if self.rows is None else self.rows.observe(frame)

    def get(self) -> int | None:
        """Return the number of records after the write; None if it is unknown."""
        return self.table_rows if self.rows is None else self.rows.get()


@dataclass(slots=True, kw_only=True)
class SourceParts:
    """The parts of one run."""

    spec: TaskSpec
    context: ExecutorContext
    group: JobGroup
    converters: Converters
    records: SourceRecords | None
    """The record path; None if the column path has the same result."""
    worker_records: SourceRecords
    """The record path for small tables, which this process converts."""
    topics: SourceTopics | None
    """The topics that the run has seen; None if Kraal creates no topics."""
    cancelled: threading.Event
    limits: MessageLimits = field(default_factory=MessageLimits)
    """The size limits of the topics that the run has seen."""
    _lane_configs: Mapping[str, str] | None = None
    """The result of `client_options.lane_configs`, once computed."""
    options_by_client: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The producer options by client id, without the topics' limits."""
    ranges: SourceRanges = field(default_factory=lambda: SourceRanges({}))
    """The positions of the run's batches, for the ledger."""
    pending_batch: PendingBatch | None = None
    """The batch that shares a job or a producer with batches of other tasks."""
    _worker_configs: Mapping[str, str] | None = None
    _has_worker_configs: bool = False
    """Whether `_worker_configs` was computed."""
    _uses_producers: bool = False
    """Whether a batch was sent without a job."""

    def send(self, batch: PendingBatch, write_path: WritePath | None) -> None:
        """Queue a small batch for the lane, for a producer in the worker, or for a job shared with other tasks.

        An empty batch for the lane or a producer completes at once, because both report results only for records.
        """
        if not batch.table.num_rows and write_path in {WritePath.LANE, WritePath.WORKER_PRODUCER}:
            batch.done(batch.result(0))
            return
        self.pending_batch = batch
        if write_path is WritePath.LANE:
            batch.carrier, batch.producer_configs = self.context.lanes, self.lane_configs()
        elif write_path is WritePath.WORKER_PRODUCER:
            batch.carrier = self.context.worker_producers
            batch.producer_configs = self.worker_producer_configs()
        if batch.carrier is None:
            self.context.coalescer.put(batch)
        else:
            self._uses_producers = True
            batch.carrier.put(batch, self.group)
        if self.group.is_cancelled:  # the run was cancelled while the batch was being prepared
            self.cancel_pending()

    def choose_jobless_path(self, row_count: int, size: int) -> WritePath | None:
        """Return the path on which a plain table of this size can now be sent without a job, or None."""
        if self.context.lanes.accepts(row_count, size):
            return WritePath.LANE
        is_accepted = self.context.worker_producers.accepts(row_count, size)
        return (
            WritePath.WORKER_PRODUCER if is_accepted and self.worker_producer_configs() is not None else None
        )

    def worker_record_path(self, batch: SourceBatch) -> SourceRecords | None:
        """Return the record path for a batch that this process can convert; None if Spark must convert it."""
        if self.records is not None:
            return self.records if self.records.accepts(batch) else None
        table = batch.table
        if table is None or not is_small(table.num_rows, table.nbytes):
            return None
        return self.worker_records if converts_identically(self.converters, batch, table) else None

    def cancel_pending(self) -> bool:
        """Cancel a batch that shares a job or a producer; return whether this cancels the job."""
        batch = self.pending_batch
        if batch is None or (batch.carrier is not None and batch.carrier.cancel(batch)):
            return False
        return self.context.coalescer.cancel(batch)

    def close_producers(self) -> None:
        """Close the producers of the lane and the worker that only this run has used."""
        if self._uses_producers:
            self.context.lanes.release_producers(self.group)
            self.context.worker_producers.release_producers(self.group)

    def lane_configs(self) -> Mapping[str, str]:
        """Return the configs of a lane's producer, with a `batch.size` within the limits of the topics seen so far."""
        if self._lane_configs is None:
            self._lane_configs = client_options.lane_configs(self.context.worker, self.spec.connector_config)
        return self.limits.cap_batch_size(self._lane_configs, BATCH_SIZE)

    def worker_producer_configs(self) -> Mapping[str, str] | None:
        """Return the settings of a producer in the worker; None if librdkafka does not support the config."""
        if not self._has_worker_configs:
            self._has_worker_configs = True
            self._worker_configs = client_options.worker_producer_configs(
                self.context.worker, self.spec.connector_config
            )
        configs = self._worker_configs
        return None if configs is None else self.limits.cap_batch_size(configs, BATCH_SIZE)

    def plan(self, batch: SourceBatch) -> WritePlan:
        """Return the plan to convert and write the columns of a batch, without producer options."""
        return WritePlan(
            converters=self.converters,
            options={},
            key_schema=batch.key_schema,
            value_schema=batch.value_schema,
        )

    def options(self, client_id: str) -> Mapping[str, str]:
        """Return producer options with a `batch.size` that does not exceed the limits of the topics seen so far."""
        if client_id not in self.options_by_client:
            worker, connector = self.context.worker, self.spec.connector_config
            self.options_by_client[client_id] = client_options.producer_options(worker, connector, client_id)
        return self.limits.cap_batch_size(self.options_by_client[client_id], f"kafka.{BATCH_SIZE}")

    def count_reads(self, batch: SourceBatch) -> ReadCounter:
        """Return the counter of the records that the write of a batch reads."""
        if batch.table is not None:
            return ReadCounter(table_rows=int(batch.table.num_rows))
        return ReadCounter(rows=RowCounts() if self.spec.counts_records else None)

    def has_seen_topics(self, names: Sequence[str | None]) -> bool:
        """Return whether the run has seen all these topics and their limits, so that `ensure_topics` is a no-op."""
        is_new = self.topics is not None and self.topics.list_unseen(names)
        return not is_new and not self.limits.list_unseen(names)

    def ensure_topics(self, names: Sequence[str | None]) -> None:
        """Create missing topics and look up limits, on a job thread. Raises TopicLookupCancelled and topic errors."""
        if self.topics is not None:
            self.topics.ensure(self.topics.list_unseen(names))
        self.limits.ensure(names, should_exist=self.topics is not None)
        if self.cancelled.is_set():
            raise TopicLookupCancelled


def discover_batch(batch: SourceBatch, spark: SparkSession) -> SourceBatch | None:
    """Return `batch`, or the batch that its `discover` function returns; None if there is no data.

    Must be called on a job thread. Raises ValueError, like `with_kafka_types`.
    """
    if batch.discover is None:  # the table of this batch was cast after the poll
        return batch
    discovered_batch = batch.discover(spark)
    return None if discovered_batch is None else with_kafka_types(discovered_batch)


def make_frame(batch: SourceBatch, spark: SparkSession, *, is_tracked: bool = False) -> DataFrame:
    """Return the records of a batch as a DataFrame, with their offsets only if `is_tracked`.

    Raises ValueError for a batch without a table or a read function.
    """
    if batch.read is not None:
        frame = batch.read(spark)
        return frame if is_tracked or batch.tracking is None else frame.drop("offset")
    if batch.table is None:
        message = "a SourceBatch needs a table, a read or a discover function"
        raise ValueError(message)
    return spark.createDataFrame(batch.table).coalesce(1)

"""The parts that the ways of writing a source's batches share during one run."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kraal.engine import client_options
from kraal.engine.api import TaskSpec
from kraal.engine.columns.source import passes_alike
from kraal.engine.context import ExecutorContext
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.kafka_io.message_limits import BATCH_SIZE, MessageLimits
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.lanes.rows import is_small
from kraal.engine.records.topics import TopicsCancelled
from kraal.engine.session.jobs import JobGroup
from kraal.engine.source.record_batches import SourceRecords
from kraal.engine.source.table_types import with_kafka_types
from kraal.engine.source.topics import SourceTopics
from kraal.engine.source.ways import Way
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import SourceBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGED: Final = "transforms, error handling or a converter may change or drop records"
"""Why the offsets of records that pass one by one are not available."""


@dataclass(slots=True, kw_only=True)
class SourceParts:
    """The parts of one run."""

    spec: TaskSpec
    context: ExecutorContext
    group: JobGroup
    converters: Converters
    records: SourceRecords | None
    """The record path; None: the column path does the same."""
    few: SourceRecords
    """The record path for small tables that need no job."""
    topics: SourceTopics | None
    """The topics seen so far; None: the broker creates topics."""
    cancelled: threading.Event
    limits: MessageLimits = field(default_factory=MessageLimits)
    """The limits of the topics seen so far."""
    lane: Mapping[str, str] | None = None
    """See `lane_configs`."""
    options_by_client: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """See `options`; by client id."""
    pending: PendingBatch | None = None
    """The batch that shares a job or a producer with those of other tasks."""
    _worker_producer: Mapping[str, str] | None = None
    _has_worker_producer: bool = False
    """Whether `_worker_producer` is known."""
    _uses_producers: bool = False
    """Whether a batch was sent without a job."""

    def send(self, batch: PendingBatch, way: Way | None) -> None:
        """Queue a small batch for the lane or a producer in the worker, else for a job shared with other tasks.

        Without records it is done at once in place of the first two, whose results are those of records.
        """
        if not batch.table.num_rows and way in {Way.LANE, Way.WORKER_PRODUCER}:
            batch.done(batch.result())
            return
        self.pending = batch
        if way is Way.LANE:
            batch.carrier, batch.producer = self.context.lanes, self.lane_configs()
        elif way is Way.WORKER_PRODUCER:
            batch.carrier, batch.producer = self.context.worker_producers, self.worker_producer_configs()
        if batch.carrier is None:
            self.context.coalescer.put(batch)
        else:
            self._uses_producers = True
            batch.carrier.put(batch, self.group)
        if self.group.given_up:  # cancelled while the batch was prepared
            self.give_up_pending()

    def way_without_job(self, rows: int, size: int) -> Way | None:
        """Return the way that sends a plain table of `rows` records and `size` bytes now without a job, if any does."""
        if self.context.lanes.takes(rows, size):
            return Way.LANE
        takes = self.context.worker_producers.takes(rows, size)
        return Way.WORKER_PRODUCER if takes and self.worker_producer_configs() is not None else None

    def passed_here(self, batch: SourceBatch) -> SourceRecords | None:
        """Return the record path for a table that is small enough for this process; None: Spark converts it."""
        if self.records is not None:
            return self.records if self.records.takes(batch) else None
        table = batch.table
        if table is None or not is_small(table.num_rows, table.nbytes):
            return None
        return self.few if passes_alike(self.converters, batch, table) else None

    def give_up_pending(self) -> bool:
        """Withdraw a batch that shares a job or a producer; return whether a whole job is cancelled."""
        batch = self.pending
        if batch is None or (batch.carrier is not None and batch.carrier.give_up(batch)):
            return False
        return self.context.coalescer.give_up(batch)

    def close_producers(self) -> None:
        """Have the producers closed that only this run has used to send batches without a job."""
        if self._uses_producers:
            self.context.lanes.leave(self.group)
            self.context.worker_producers.leave(self.group)

    def lane_configs(self) -> Mapping[str, str]:
        """Return the configs of a lane's producer, with Kafka's names; its batches fit the topics seen so far."""
        if self.lane is None:
            self.lane = client_options.lane_configs(self.context.worker, self.spec.connector_config)
        return self.limits.capped(self.lane, BATCH_SIZE)

    def worker_producer_configs(self) -> Mapping[str, str] | None:
        """Return the settings of a producer in the worker's process; its batches fit the topics seen so far."""
        if not self._has_worker_producer:
            self._has_worker_producer = True
            self._worker_producer = client_options.worker_producer_configs(
                self.context.worker, self.spec.connector_config
            )
        configs = self._worker_producer
        return None if configs is None else self.limits.capped(configs, BATCH_SIZE)

    def plan(self, batch: SourceBatch) -> WritePlan:
        """Return the plan for writing a batch's columns through the converters, without its options."""
        return WritePlan(
            converters=self.converters,
            options={},
            key_schema=batch.key_schema,
            value_schema=batch.value_schema,
        )

    def options(self, client_id: str) -> Mapping[str, str]:
        """Return the producer's options; its batches fit the topics seen so far."""
        if client_id not in self.options_by_client:
            worker, connector = self.context.worker, self.spec.connector_config
            self.options_by_client[client_id] = client_options.producer_options(worker, connector, client_id)
        return self.limits.capped(self.options_by_client[client_id], f"kafka.{BATCH_SIZE}")

    def knows_topics(self, names: Sequence[str | None]) -> bool:
        """Whether `ensure_topics` has nothing to do."""
        is_new = self.topics is not None and self.topics.unseen(names)
        return not is_new and not self.limits.unseen(names)

    def ensure_topics(self, names: Sequence[str | None]) -> None:
        """Create missing topics, and look up limits. Job thread. Raises TopicsCancelled, and the errors of topics."""
        if self.topics is not None:
            self.topics.ensure(self.topics.unseen(names))
        self.limits.ensure(names, exist=self.topics is not None)
        if self.cancelled.is_set():
            raise TopicsCancelled


def found_by(batch: SourceBatch, spark: SparkSession) -> SourceBatch | None:
    """Return the batch, or the batch that it finds on this job's thread; None if there is no data.

    Raises ValueError as `with_kafka_types`.
    """
    if batch.discover is None:  # its table was cast when it was polled
        return batch
    discovered = batch.discover(spark)
    return None if discovered is None else with_kafka_types(discovered)


def make_frame(batch: SourceBatch, spark: SparkSession, *, is_tracked: bool = False) -> DataFrame:
    """Return a batch's records as a DataFrame, with their offsets only if `is_tracked`.

    Raises ValueError for a batch without records.
    """
    if batch.read is not None:
        frame = batch.read(spark)
        return frame if is_tracked or batch.tracking is None else frame.drop("offset")
    if batch.table is None:
        message = "a SourceBatch needs a table, a read or a discover function"
        raise ValueError(message)
    return spark.createDataFrame(batch.table).coalesce(1)

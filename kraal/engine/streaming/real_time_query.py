"""Starts, tracks and stops one streaming query in real-time mode. Must be used on one job thread at a time.

The checkpoint is a directory on the worker that is removed with the query, because the position is stored in Connect's
offset store. The query's `DeliveryTracker` tracks written records independently of Spark's batches.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kraal.core.ids import TopicName
from kraal.core.private_files import make_directory
from kraal.engine.kafka_io.offset_pairs import report
from kraal.engine.kafka_io.writer import WritePlan, kafka_frame
from kraal.engine.streaming import delivery_tracking
from kraal.engine.streaming.delivery_tracking import DeliveryTracker, PartitionProgress
from kraal.plugins.api import Offset, OffsetPair, SourcePartition, SourceStream, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINTS: Final = "streams"
"""The subdirectory of the scratch directory for checkpoints. Files in it at startup were left by a killed worker."""
_DRAIN_TIMEOUT_S: Final = 3.0
"""Maximum time to wait for acknowledgements on stop; unacknowledged records are sent again later."""
_DRAIN_INTERVAL_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """The records written since the last check."""

    offsets: Mapping[SourcePartition, Offset]
    records: int
    topics: frozenset[TopicName]
    pairs: Mapping[TopicPartition, OffsetPair]
    """The offsets of the last written record of each target partition, where known."""


def progress_between(
    stream: SourceStream,
    current: Mapping[TopicPartition, PartitionProgress],
    previous: Mapping[TopicPartition, PartitionProgress],
) -> QueryProgress | None:
    """Return the progress between two checks of a query; None if the query wrote no records."""
    offsets: dict[SourcePartition, Offset] = {}
    pairs: dict[TopicPartition, OffsetPair] = {}
    records, topics = 0, set()
    for target, progress in current.items():
        earlier_progress = previous.get(target)
        count = progress.acknowledged_count - (
            0 if earlier_progress is None else earlier_progress.acknowledged_count
        )
        if count and progress.source_offset is not None:
            source, offset = stream.stored(target, progress.source_offset)
            offsets[source] = offset
            records += count
            topics.add(TopicName(target.topic))
            if progress.target_offset is not None:
                pairs[target] = OffsetPair(progress.source_offset, progress.target_offset)
    if not records:
        return None
    return QueryProgress(offsets=offsets, records=records, topics=frozenset(topics), pairs=pairs)


class StreamQuery:
    """A query that runs until it is stopped or fails."""

    def __init__(
        self, spark: SparkSession, stream: SourceStream, plan: WritePlan, scratch: Path, name: str
    ) -> None:
        """Start the query. Raises Spark's errors for an invalid plan."""
        run_id = f"{name}-{uuid.uuid4().hex[:8]}"
        self._stream = stream
        self._tracker = DeliveryTracker(spark, run_id)
        self._last_progress: Mapping[TopicPartition, PartitionProgress] = {}
        self._checkpoint = new_checkpoint(scratch)
        writer = (
            _mark_records(stream.read(spark), plan, stream.topic)
            .writeStream.format("kafka")
            .options(**delivery_tracking.options(plan.options, run_id))
            .option("checkpointLocation", str(self._checkpoint))
            .outputMode("update")
            .trigger(**stream.trigger)
        )
        if stream.topic is not None:
            writer = writer.option("topic", stream.topic)
        self._query = writer.start()

    @property
    def is_running(self) -> bool:
        """Whether the query is active."""
        return bool(self._query.isActive)

    @property
    def has_unacknowledged(self) -> bool:
        """Whether records were in flight at the latest call of `new_progress`."""
        return any(partition.in_flight for partition in self._last_progress.values())

    def new_progress(self) -> QueryProgress | None:
        """Return the progress since the last call; None if the query wrote no records."""
        current = self._tracker.progress()
        progress = progress_between(self._stream, current, self._last_progress)
        self._last_progress = current
        if progress is not None and self._stream.tracking is not None:
            report(self._stream.tracking, {target: [pair] for target, pair in progress.pairs.items()})
        return progress

    def error(self) -> BaseException:
        """Return the error that terminated the query. The query must no longer be running."""
        return query_error(self._query, "Spark terminated the streaming query without an error")

    def cancel(self) -> None:
        """Stop the query and wait for Spark. Thread-safe. Records in flight may still be written."""
        with contextlib.suppress(Exception):  # the query has terminated, or its JVM has exited
            self._query.stop()

    def drain(self, cancelled: threading.Event) -> QueryProgress | None:
        """Stop the query, wait for acknowledgements, and return the progress since the last call of `new_progress`.

        Waits up to `_DRAIN_TIMEOUT_S` for the acknowledgements of records in flight, or until `cancelled` is set.
        """
        self._query.stop()
        deadline_s = time.monotonic() + _DRAIN_TIMEOUT_S
        while (
            any(target.in_flight for target in self._tracker.progress().values())
            and time.monotonic() < deadline_s
        ):
            if cancelled.wait(_DRAIN_INTERVAL_S):
                break
        return self.new_progress()

    def clean_up(self) -> None:
        """Remove the checkpoint and the tracked progress of a stopped query."""
        with contextlib.suppress(Exception):  # as above
            self._tracker.clear()
        shutil.rmtree(self._checkpoint, ignore_errors=True)


def new_checkpoint(scratch: Path) -> Path:
    """Create a directory for a query's checkpoint and return it; its name contains no user input."""
    directory = scratch / CHECKPOINTS / uuid.uuid4().hex
    make_directory(directory)
    return directory


def query_error(query: StreamingQuery, default_message: str) -> BaseException:
    """Return the error that terminated a query; RuntimeError with `default_message` if Spark reports no error."""
    try:
        query.awaitTermination()
    except Exception as error:  # noqa: BLE001 - any error is the result
        return error
    return RuntimeError(default_message)


def _mark_records(frame: DataFrame, plan: WritePlan, topic: str | None) -> Any:
    """Return the frame for Spark's Kafka writer, with each record marked for delivery tracking."""
    from pyspark.sql import functions  # noqa: PLC0415 - heavy; loaded after the start of Spark

    headers = delivery_tracking.mark(*(functions.col(name) for name in ("headers", "timestamp", "offset")))
    return kafka_frame(frame.withColumn("headers", headers).drop("timestamp", "offset"), plan, topic)

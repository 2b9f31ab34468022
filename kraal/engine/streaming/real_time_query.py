"""One streaming query in real-time mode: start, progress, stop. Job threads, one at a time.

Its checkpoint is a directory of the worker that is removed with the query: Connect's offset store holds the position,
and the query's `DeliveryTracker` tracks the written records, independently of Spark's batches.
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
from kraal.engine.streaming.delivery_tracking import DeliveryTracker, Place
from kraal.plugins.api import Offset, OffsetPair, SourcePartition, SourceStream, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINTS: Final = "streams"
"""A directory in the worker's scratch directory: files in it at startup belong to a worker that was killed."""
_DRAIN_TIMEOUT_S: Final = 3.0
"""How long a stop waits for acknowledgements; unacknowledged records are repeated."""
_DRAIN_INTERVAL_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """The records written since the last check."""

    offsets: Mapping[SourcePartition, Offset]
    records: int
    topics: frozenset[TopicName]
    pairs: Mapping[TopicPartition, OffsetPair]
    """The last written record of each partition of the target, where it is known."""


def progress_between(
    stream: SourceStream, now: Mapping[TopicPartition, Place], before: Mapping[TopicPartition, Place]
) -> QueryProgress | None:
    """Return the records written between two checks of a query; None if it wrote none."""
    offsets: dict[SourcePartition, Offset] = {}
    pairs: dict[TopicPartition, OffsetPair] = {}
    records, topics = 0, set()
    for where, place in now.items():
        earlier = before.get(where)
        count = place.written - (0 if earlier is None else earlier.written)
        if count and place.done is not None:
            source, offset = stream.stored(where, place.done)
            offsets[source] = offset
            records += count
            topics.add(TopicName(where.topic))
            if place.at is not None:
                pairs[where] = OffsetPair(place.done, place.at)
    if not records:
        return None
    return QueryProgress(offsets=offsets, records=records, topics=frozenset(topics), pairs=pairs)


class StreamQuery:
    """A query that runs until it is stopped or fails."""

    def __init__(
        self, spark: SparkSession, stream: SourceStream, plan: WritePlan, scratch: Path, name: str
    ) -> None:
        """Start the query. Raises Spark's errors for an invalid plan."""
        run = f"{name}-{uuid.uuid4().hex[:8]}"
        self._stream = stream
        self._tracker = DeliveryTracker(spark, run)
        self._seen: Mapping[TopicPartition, Place] = {}
        self._checkpoint = new_checkpoint(scratch)
        writer = (
            _with_marks(stream.read(spark), plan, stream.topic)
            .writeStream.format("kafka")
            .options(**delivery_tracking.options(plan.options, run))
            .option("checkpointLocation", str(self._checkpoint))
            .outputMode("update")
            .trigger(**stream.trigger)
        )
        if stream.topic is not None:
            writer = writer.option("topic", stream.topic)
        self._query = writer.start()

    @property
    def runs(self) -> bool:
        """Whether records flow."""
        return bool(self._query.isActive)

    @property
    def has_unacknowledged(self) -> bool:
        """Whether there were records in flight at the latest call of `news`."""
        return any(place.waiting for place in self._seen.values())

    def news(self) -> QueryProgress | None:
        """Return the records written since the last call; None if the query wrote none."""
        now = self._tracker.places()
        progress = progress_between(self._stream, now, self._seen)
        self._seen = now
        if progress is not None and self._stream.tracking is not None:
            report(self._stream.tracking, {where: [pair] for where, pair in progress.pairs.items()})
        return progress

    def error(self) -> BaseException:
        """Return the error that ended a query that is no longer running."""
        return why_ended(self._query, "Spark ended the streaming query and does not say why")

    def cancel(self) -> None:
        """Stop the query. Any thread; waits for Spark. Records in flight may still arrive."""
        with contextlib.suppress(Exception):  # it is over, or its JVM is gone
            self._query.stop()

    def rest(self, cancelled: threading.Event) -> QueryProgress | None:
        """Stop the query, wait for records in flight, and return those written since the last call."""
        self._query.stop()
        end_s = time.monotonic() + _DRAIN_TIMEOUT_S
        while any(place.waiting for place in self._tracker.places().values()) and time.monotonic() < end_s:
            if cancelled.wait(_DRAIN_INTERVAL_S):
                break
        return self.news()

    def forget(self) -> None:
        """Remove the files of a stopped query."""
        with contextlib.suppress(Exception):  # as above
            self._tracker.forget()
        shutil.rmtree(self._checkpoint, ignore_errors=True)


def new_checkpoint(scratch: Path) -> Path:
    """Return a new directory for a query's checkpoint, named without anything that a user chose."""
    directory = scratch / CHECKPOINTS / uuid.uuid4().hex
    make_directory(directory)
    return directory


def why_ended(query: StreamingQuery, otherwise: str) -> BaseException:
    """Return the error that ended a query that is no longer running; `otherwise` if Spark reports none."""
    try:
        query.awaitTermination()
    except Exception as error:  # noqa: BLE001 - any error is the result
        return error
    return RuntimeError(otherwise)


def _with_marks(frame: DataFrame, plan: WritePlan, topic: str | None) -> Any:
    """Return the frame for Spark's Kafka writer, with each record marked for delivery tracking."""
    from pyspark.sql import functions  # noqa: PLC0415 - loaded when Spark is

    headers = delivery_tracking.mark(*(functions.col(name) for name in ("headers", "timestamp", "offset")))
    return kafka_frame(frame.withColumn("headers", headers).drop("timestamp", "offset"), plan, topic)

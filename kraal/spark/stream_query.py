"""One streaming query in real-time mode: started, asked how far it came, stopped. Job threads, one at a time.

Its checkpoint is a directory of the worker that is gone with the query: where to go on is in Connect's offset store,
and what is written is known by the query's `Trail`, not when one of Spark's batches ends.
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

from kraal.ids import TopicName
from kraal.plugins.api import Offset, SourcePartition, SourceStream, TopicPartition
from kraal.spark import trail
from kraal.spark.kafka_writer import WritePlan, kafka_frame
from kraal.spark.trail import Place, Trail

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINTS: Final = "streams"
"""In a worker's scratch directory: what is there when it starts is of a worker that was killed."""
_DRAIN_S: Final = 3.0
"""How long a stop waits for what was sent to be acknowledged; what is not by then comes again."""
_DRAIN_EVERY_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What was written since it was asked last."""

    offsets: Mapping[SourcePartition, Offset]
    records: int
    topics: frozenset[TopicName]


def news_of(
    stream: SourceStream, now: Mapping[TopicPartition, Place], before: Mapping[TopicPartition, Place]
) -> News | None:
    """Return what was written between two looks at a query; None: nothing."""
    offsets: dict[SourcePartition, Offset] = {}
    records, topics = 0, set()
    for where, place in now.items():
        earlier = before.get(where)
        count = place.written - (0 if earlier is None else earlier.written)
        if count and place.done is not None:
            source, offset = stream.stored(where, place.done)
            offsets[source] = offset
            records += count
            topics.add(TopicName(where.topic))
    return News(offsets=offsets, records=records, topics=frozenset(topics)) if records else None


class StreamQuery:
    """A query that runs until it is stopped or fails."""

    def __init__(
        self, spark: SparkSession, stream: SourceStream, plan: WritePlan, scratch: Path, name: str
    ) -> None:
        """Start it. Raises what Spark raises for a plan that cannot be."""
        run = f"{name}-{uuid.uuid4().hex[:8]}"
        self._stream = stream
        self._trail = Trail(spark, run)
        self._seen: Mapping[TopicPartition, Place] = {}
        self._checkpoint = scratch / CHECKPOINTS / run
        writer = (
            _marked(stream.read(spark), plan, stream.topic)
            .writeStream.format("kafka")
            .options(**trail.options(plan.options, run))
            .option("checkpointLocation", str(self._checkpoint))
            .outputMode("update")
            .trigger(realTime=f"{stream.batch_ms} milliseconds")
        )
        if stream.topic is not None:
            writer = writer.option("topic", stream.topic)
        self._query = writer.start()

    @property
    def runs(self) -> bool:
        """Whether records flow."""
        return bool(self._query.isActive)

    def news(self) -> News | None:
        """Return what was written since the last time; None: nothing."""
        now = self._trail.places()
        found = news_of(self._stream, now, self._seen)
        self._seen = now
        return found

    def error(self) -> BaseException:
        """Return what ended a query that does not run any more."""
        return why_ended(self._query, "Spark ended the streaming query and does not say why")

    def cancel(self) -> None:
        """Stop it. Any thread; waits for Spark. What is on its way to Kafka may still arrive."""
        with contextlib.suppress(Exception):  # it is over, or its JVM is
            self._query.stop()

    def rest(self, given_up: threading.Event) -> News | None:
        """Stop it, wait for what is on its way, and return what was written since the last time."""
        self._query.stop()
        end_s = time.monotonic() + _DRAIN_S
        while any(place.waiting for place in self._trail.places().values()) and time.monotonic() < end_s:
            if given_up.wait(_DRAIN_EVERY_S):
                break
        return self.news()

    def forget(self) -> None:
        """Remove what a stopped query left."""
        with contextlib.suppress(Exception):  # as above
            self._trail.forget()
        shutil.rmtree(self._checkpoint, ignore_errors=True)


def why_ended(query: StreamingQuery, otherwise: str) -> BaseException:
    """Return what ended a query that does not run any more; `otherwise` is said where Spark says nothing."""
    try:
        query.awaitTermination()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return error
    return RuntimeError(otherwise)


def _marked(frame: DataFrame, plan: WritePlan, topic: str | None) -> Any:
    """Return the frame that Spark's Kafka writer takes, each record marked for the trail."""
    from pyspark.sql import functions  # noqa: PLC0415 - loaded when Spark is

    headers = trail.marked(*(functions.col(name) for name in ("headers", "timestamp", "offset")))
    return kafka_frame(frame.withColumn("headers", headers).drop("timestamp", "offset"), plan, topic)

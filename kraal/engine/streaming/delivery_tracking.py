"""Delivery tracking: the source offsets of a streaming query that Kafka has acknowledged, by partition.

Spark reports progress only when one of its long batches ends, and never for a batch that is stopped. So the records
carry it: each has its timestamp and source offset as the last header; an interceptor of Kafka's producer removes that
header, sets the timestamp, and tracks the offset until the record is acknowledged. Within a partition records are sent
and acknowledged in order (one request in flight, or idempotence), so the last acknowledged offset is the progress of
the partition. A query may be stopped at any time, and the stored offsets cover exactly the written records.

The interceptor's class is loaded by the loader that driver and executors of a local master share: only there can Kraal
query it. Source: KafkaProducer.doSend, ProducerInterceptors.onSendError (Kafka 4.4.0), which runs on the sender's own
thread for records that were never sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kraal.engine.kafka_io.record_times import with_interceptor, with_last
from kraal.engine.session.janino import loaded
from kraal.plugins.api import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

HEADER: Final = "kraal.trail"
_CLASS: Final = "kraal.DeliveryTracker"
_RUN: Final = "kafka.kraal.run"
_IDEMPOTENCE: Final = "kafka.enable.idempotence"
_IN_FLIGHT: Final = "kafka.max.in.flight.requests.per.connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The progress of one partition of the target."""

    waiting: int
    """Records that were sent and are not acknowledged yet."""
    done: int | None
    """The source offset of the last acknowledged record; None: no record yet."""
    at: int | None
    """The offset in the target of the last acknowledged record; None: no record yet, or Kafka returns none."""
    written: int
    """Number of acknowledged records."""


class DeliveryTracker:
    """Tracks one query by its name. Job threads; each call to the JVM takes a millisecond."""

    def __init__(self, spark: SparkSession, run: str) -> None:
        """Load the class into the JVM."""
        self._run = run
        self._runs = _runs(spark.sparkContext)

    def places(self) -> dict[TopicPartition, Place]:
        """Return the progress of each partition of the target that records were sent to."""
        run = self._runs.get(self._run)
        return {} if run is None else parse_places(str(run.toString()))

    def forget(self) -> None:
        """Remove the tracked data."""
        self._runs.remove(self._run)


def options(user_options: Mapping[str, str], run: str) -> dict[str, str]:
    """Return Kafka writer options for records with marked headers. The user's own interceptors run after it."""
    result = {**with_interceptor(user_options, _CLASS), _RUN: run}
    if user_options.get(_IDEMPOTENCE, "false").lower() != "true":
        result[_IN_FLIGHT] = "1"  # else a record could be acknowledged before one that is retried
    return result


def mark(headers: Column, timestamp: Column, offset: Column) -> Column:
    """Return a record's headers followed by its timestamp and source offset, which the interceptor removes."""
    from pyspark.sql import functions  # noqa: PLC0415 - loaded when Spark is

    time = functions.unix_millis(timestamp).cast("string")
    return with_last(headers, HEADER, functions.concat(time, functions.lit(" "), offset.cast("string")))


def parse_places(text: str) -> dict[TopicPartition, Place]:
    """Parse the text form of a run's map: `{TOPIC PARTITION=WAITING DONE AT WRITTEN, …}`."""
    places: dict[TopicPartition, Place] = {}
    for each in filter(None, text.strip("{}").split(", ")):
        where, _, numbers = each.partition("=")
        topic, _, partition = where.partition(" ")
        waiting, done, at, written = map(int, numbers.split(" "))
        place = Place(
            waiting=waiting, done=None if done < 0 else done, at=None if at < 0 else at, written=written
        )
        places[TopicPartition(topic, int(partition))] = place
    return places


def _runs(context: Any) -> Any:
    """Return the class's data by names of runs; compiles and loads the class on first use in a JVM."""
    return loaded(context, _CLASS).getField("RUNS").get(None)

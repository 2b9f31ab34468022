"""Delivery tracking: the source offsets of the records that Kafka has acknowledged to a streaming query.

Spark reports progress only when one of its long batches ends, and never for a batch that is stopped. So the last header
of each record contains its timestamp and source offset. A producer interceptor removes that header, sets the timestamp,
and tracks the offset until the record is acknowledged. Within a partition, records are sent and acknowledged in order
(one request in flight, or idempotence), so the last acknowledged offset is the progress of the partition. A query may
be stopped at any time, and the stored offsets cover only acknowledged records.

Kraal can query the interceptor only with a local master, where driver and executors share its class loader.
Source: KafkaProducer.doSend; ProducerInterceptors.onSendError (Kafka 4.4.0), which runs on the sending thread for
records that were never sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kraal.engine.kafka_io.record_times import with_interceptor, with_last
from kraal.engine.session.janino import load_class
from kraal.plugins.api import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

HEADER: Final = "kraal.trail"
_CLASS: Final = "kraal.DeliveryTracker"
_RUN_KEY: Final = "kafka.kraal.run"
_IDEMPOTENCE_KEY: Final = "kafka.enable.idempotence"
_IN_FLIGHT_KEY: Final = "kafka.max.in.flight.requests.per.connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """The progress of one target partition."""

    in_flight: int
    """Number of records that were sent and are not acknowledged yet."""
    source_offset: int | None
    """The source offset of the last acknowledged record; None before the first one."""
    target_offset: int | None
    """The target offset of the last acknowledged record; None before the first one, and with acks=0."""
    acknowledged_count: int
    """Number of acknowledged records."""


class DeliveryTracker:
    """Tracks the deliveries of one query. For job threads; each method calls the JVM."""

    def __init__(self, spark: SparkSession, run_id: str) -> None:
        """Load the interceptor's class into the JVM."""
        self._run_id = run_id
        self._runs = _load_runs(spark.sparkContext)

    def progress(self) -> dict[TopicPartition, PartitionProgress]:
        """Return the progress of each target partition that records were sent to."""
        run = self._runs.get(self._run_id)
        return {} if run is None else parse_progress(str(run.toString()))

    def clear(self) -> None:
        """Remove the tracked progress."""
        self._runs.remove(self._run_id)


def options(user_options: Mapping[str, str], run_id: str) -> dict[str, str]:
    """Return Kafka writer options for marked records. The user's interceptors run after Kraal's."""
    result = {**with_interceptor(user_options, _CLASS), _RUN_KEY: run_id}
    if user_options.get(_IDEMPOTENCE_KEY, "false").lower() != "true":
        result[_IN_FLIGHT_KEY] = "1"  # otherwise a record could be acknowledged before one that is retried
    return result


def mark(headers: Column, timestamp: Column, offset: Column) -> Column:
    """Return a record's headers followed by its timestamp and source offset, which the interceptor removes."""
    from pyspark.sql import functions  # noqa: PLC0415 - heavy; loaded after the start of Spark

    time = functions.unix_millis(timestamp).cast("string")
    return with_last(headers, HEADER, functions.concat(time, functions.lit(" "), offset.cast("string")))


def parse_progress(text: str) -> dict[TopicPartition, PartitionProgress]:
    """Parse the progress of a run: `{TOPIC PARTITION=IN_FLIGHT SOURCE_OFFSET TARGET_OFFSET ACKNOWLEDGED, …}`."""
    progress: dict[TopicPartition, PartitionProgress] = {}
    for entry in filter(None, text.strip("{}").split(", ")):
        target_name, _, numbers = entry.partition("=")
        topic, _, partition = target_name.partition(" ")
        in_flight, source, target, acknowledged_count = map(int, numbers.split(" "))
        progress[TopicPartition(topic, int(partition))] = PartitionProgress(
            in_flight=in_flight,
            source_offset=None if source < 0 else source,
            target_offset=None if target < 0 else target,
            acknowledged_count=acknowledged_count,
        )
    return progress


def _load_runs(context: Any) -> Any:
    """Return the interceptor's map from run to progress; compiles and loads the class on first use in a JVM."""
    return load_class(context, _CLASS).getField("RUNS").get(None)

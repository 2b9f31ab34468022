"""Pairs of a record's source offset and target offset, for sources that request them (`OffsetTracking`).

Spark's Kafka writer does not return offsets. Therefore, the last header of each record contains the record's source
offset and timestamp. A producer interceptor removes that header, and keeps the offset until the record is acknowledged.
The interceptor also thins out the pairs, so that Python receives only a few pairs per batch and partition.

The interceptor can be queried only in the same JVM, and it matches acknowledgements by order: within a partition,
records must be acknowledged in the order in which they are sent.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kraal.engine.kafka_io.record_times import with_interceptor
from kraal.engine.session.janino import load_class
from kraal.plugins.api import OffsetPair, OffsetTracking, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_CLASS: Final = "kraal.OffsetPairs"
_RUN_KEY: Final = "kafka.kraal.run"
_STEP_KEY: Final = "kafka.kraal.step"
_IDEMPOTENCE_KEY: Final = "kafka.enable.idempotence"
_IN_FLIGHT_KEY: Final = "kafka.max.in.flight.requests.per.connection"


class PairTracker:
    """Collects the offset pairs of a task's batches. For job threads; the methods call the JVM."""

    def __init__(self, spark: SparkSession, task: str, step: int) -> None:
        """Load the interceptor's class into the JVM unless it is already loaded."""
        self._task = task
        self._step = step
        self._runs: Any = load_class(spark.sparkContext, _CLASS).getField("RUNS").get(None)

    def options(self, user_options: Mapping[str, str]) -> dict[str, str]:
        """Return Kafka writer options for records with source offsets. The user's interceptors run after Kraal's."""
        return {**with_interceptor(user_options, _CLASS), _RUN_KEY: self._task, _STEP_KEY: str(self._step)}

    def discard(self) -> None:
        """Drop the pairs of a previous run, which may have had another source. Does not raise."""
        try:
            self.drain()
        except Exception as exc:  # noqa: BLE001 - the next job reports a broken JVM
            log.warning("Failed to drop the offsets of a previous run: %s", exc)

    def drain(self) -> dict[TopicPartition, list[OffsetPair]]:
        """Return the pairs of records that were acknowledged since the last call."""
        run = self._runs.get(self._task)
        return {} if run is None else parse_pairs(str(run.take()))


def untrackable_reason(options: Mapping[str, str], *, is_local: bool) -> str | None:
    """Return the reason why source offsets cannot be tracked with these producer options, or None if they can."""
    if not is_local:
        return "Spark does not run on the worker's machine"
    if options.get(_IDEMPOTENCE_KEY, "false").lower() != "true" and options.get(_IN_FLIGHT_KEY) != "1":
        return "the producer may reorder records (max.in.flight.requests.per.connection)"
    return None


def report_written(tracking: OffsetTracking, tracker: PairTracker) -> None:
    """Report the pairs of a written batch to the plugin. Does not raise, because the batch is already written."""
    try:
        pairs = tracker.drain()
    except Exception as exc:  # noqa: BLE001 - the next job reports a broken JVM
        log.warning("Failed to get the offsets of written records: %s", exc)
    else:
        report(tracking, pairs)


def report(tracking: OffsetTracking, pairs: Mapping[TopicPartition, Sequence[OffsetPair]]) -> None:
    """Report pairs to a plugin. Does not raise, because the records are already written."""
    try:
        tracking.found(pairs)
    except Exception:
        log.exception("Failed to report the offsets of written records")


def report_unknown(tracking: OffsetTracking, reason: str) -> None:
    """Report to a plugin why the offsets of a batch are unknown. Does not raise."""
    try:
        tracking.unknown(reason)
    except Exception:
        log.exception("Failed to report that offsets are unknown: %s", reason)


def parse_pairs(text: str) -> dict[TopicPartition, list[OffsetPair]]:
    """Parse lines of a topic, a partition, and pairs of offsets, separated by spaces."""
    pairs: dict[TopicPartition, list[OffsetPair]] = {}
    for line in text.splitlines():
        topic, partition, *numbers = line.split(" ")
        pairs[TopicPartition(topic, int(partition))] = _to_pairs(list(map(int, numbers)))
    return pairs


def _to_pairs(numbers: Sequence[int]) -> list[OffsetPair]:
    return [OffsetPair(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]

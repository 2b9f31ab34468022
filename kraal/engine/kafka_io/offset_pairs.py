"""Pairs of a record's offsets in the source and in the target, for sources that request them (`OffsetTracking`).

Spark's Kafka writer does not return the offsets of its records. So each record carries its source offset, beside its
timestamp, in its last header; an interceptor of Kafka's producer removes that header and keeps the offset until the
record is acknowledged. It reduces the pairs in the JVM: Python receives a few for each batch and partition.

The interceptor can be queried only in the same JVM, and it pairs by order: within a partition, records must be
acknowledged in the order in which they are sent.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kraal.engine.kafka_io.record_times import with_interceptor
from kraal.engine.session.janino import loaded
from kraal.plugins.api import OffsetPair, OffsetTracking, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_CLASS: Final = "kraal.OffsetPairs"
_RUN: Final = "kafka.kraal.run"
_STEP: Final = "kafka.kraal.step"
_IDEMPOTENCE: Final = "kafka.enable.idempotence"
_IN_FLIGHT: Final = "kafka.max.in.flight.requests.per.connection"


class PairTracker:
    """Collects the pairs of one task's batches. Job threads; each call to the JVM takes a millisecond."""

    def __init__(self, spark: SparkSession, task: str, step: int) -> None:
        """Load the class into the JVM, if it is not there yet."""
        self._task = task
        self._step = step
        self._runs: Any = loaded(spark.sparkContext, _CLASS).getField("RUNS").get(None)

    def options(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return Kafka writer options for records that carry their offsets; the user's own interceptors come last."""
        return {**with_interceptor(given, _CLASS), _RUN: self._task, _STEP: str(self._step)}

    def discard(self) -> None:
        """Drop the pairs of an earlier run, perhaps of another source. Does not raise."""
        try:
            self.take()
        except Exception as exc:  # noqa: BLE001 - the next job reports a broken JVM
            log.warning("Failed to drop the offsets of an earlier run: %s", exc)

    def take(self) -> dict[TopicPartition, list[OffsetPair]]:
        """Return the pairs of the records that were acknowledged since the last call."""
        run = self._runs.get(self._task)
        return {} if run is None else parse_pairs(str(run.take()))


def why_unknown(options: Mapping[str, str], *, is_local: bool) -> str | None:
    """Return why the offsets of records written with these options are not available; None: they are."""
    if not is_local:
        return "Spark does not run on the worker's machine"
    if options.get(_IDEMPOTENCE, "false").lower() != "true" and options.get(_IN_FLIGHT) != "1":
        return "the producer may reorder records (max.in.flight.requests.per.connection)"
    return None


def report_written(tracking: OffsetTracking, tracker: PairTracker) -> None:
    """Report the pairs of a written batch. Does not raise: the batch is written in any case."""
    try:
        pairs = tracker.take()
    except Exception as exc:  # noqa: BLE001 - the next job reports a broken JVM
        log.warning("Failed to get the offsets of written records: %s", exc)
    else:
        report(tracking, pairs)


def report(tracking: OffsetTracking, pairs: Mapping[TopicPartition, Sequence[OffsetPair]]) -> None:
    """Pass pairs to a plugin. Does not raise: the records are written in any case."""
    try:
        tracking.found(pairs)
    except Exception:
        log.exception("Failed to report the offsets of written records")


def report_unknown(tracking: OffsetTracking, reason: str) -> None:
    """Report to a plugin why the offsets of a batch are unknown. Does not raise: the batch is written in any case."""
    try:
        tracking.unknown(reason)
    except Exception:
        log.exception("Failed to report that offsets are unknown: %s", reason)


def parse_pairs(text: str) -> dict[TopicPartition, list[OffsetPair]]:
    """Parse lines of a topic, a partition, and pairs of offsets, all separated by blanks."""
    pairs: dict[TopicPartition, list[OffsetPair]] = {}
    for line in text.splitlines():
        topic, partition, *numbers = line.split(" ")
        pairs[TopicPartition(topic, int(partition))] = _to_pairs(list(map(int, numbers)))
    return pairs


def _to_pairs(numbers: Sequence[int]) -> list[OffsetPair]:
    return [OffsetPair(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]

"""Streaming sources, and the offsets of written records. Plugin authors import them from `kraal.plugins.api`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from kraal.core.offsets import Offset, SourcePartition, TopicPartition
from kraal.plugins.model.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class OffsetPair(NamedTuple):
    """The offsets of a written record in the source and in the target."""

    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTracking:
    """A source's request for the offsets at which Kafka has stored its records.

    The frame has the columns `partition`, `timestamp` and `offset long` (the record's offset in the source). Each
    partition of the target receives the records of one partition of the source, in order.
    """

    found: Callable[[Mapping[TopicPartition, Sequence[OffsetPair]]], None]
    """Receives the pairs by target partition once Kafka has acknowledged the records, in the order of the writes. The
    last pair belongs to the last record. Called on a job thread; must not block."""
    unknown: Callable[[str], None]
    """Receives the reason if the offsets of a batch cannot be determined. Called like `found`."""
    step: int
    """The maximum number of records between two pairs; increased for long batches. 0 for a pair per record.

    A transaction, and each checkpoint of a stream, has one pair per partition, regardless of the step.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStream:
    """The continuous input of a source task: one streaming query in real-time mode, from Kafka to Kafka.

    The frame has the columns of a batch, including `timestamp`, `headers` and `partition`, and `offset long` (the
    record's offset in the source). Offsets ascend within each partition of the target.
    """

    read: Callable[[SparkSession], DataFrame]
    """Builds the streaming frame on a job thread. The frame must not contain Python operators."""
    stored: Callable[[TopicPartition, int], tuple[SourcePartition, Offset]]
    """Returns the source partition and offset to store when a record is written.

    Receives the record's target partition and its offset in the source.
    """
    topics: frozenset[str]
    """The topics to which records may be written."""
    topic: str | None = None
    """The topic of all records; None if the frame has a column `topic`."""
    slots: int
    """The number of task slots that the running query occupies: one for each partition of the source."""
    batch_ms: int
    """The duration of one Spark batch; records are delayed briefly between two batches."""
    value_schema: Schema | None = None
    key_schema: Schema | None = None
    tracking: OffsetTracking | None = None
    """Requests the offsets of the last written records, whenever offsets are stored."""

    @property
    def trigger(self) -> dict[str, str]:
        """The arguments of Spark's `DataStreamWriter.trigger`."""
        return {"realTime": f"{self.batch_ms} milliseconds"}


class Streams:
    """Optional methods and properties of source tasks that replace or supplement `poll`."""

    polls_ahead: ClassVar[bool] = False
    """Whether `poll` may be called before the offsets of earlier batches are stored, but not before their records are
    written. On a busy worker, many small batches then cost little. A subclass that overrides `poll` must declare this
    again."""

    @classmethod
    def is_stream(cls, config: Mapping[str, str]) -> bool:
        """Return whether tasks with this config use `stream` and are never polled.

        The config may be invalid, because validation also calls this method.
        """
        del config
        return False

    def stream(self, offsets: Mapping[SourcePartition, Offset]) -> SourceStream:
        """Return the stream that continues at `offsets`.

        `offsets` are the offsets passed to `start`, updated with the offsets stored since then. Called on a job thread
        when the query starts or restarts after a pause. Raises the same errors as `poll`.
        """
        raise NotImplementedError("this source has no stream")

    @property
    def runs_on(self) -> bool:
        """Whether a polled task has background reads, so that `rest` must be called before a pause or a stop.

        Thread-safe; must not block.
        """
        return False

    def rest(self) -> None:
        """Stop background reads until the next `poll`.

        The last batch may be written although its offsets are not stored. Called on a job thread; may block. Never
        called without Spark (`kraal.testing.Cluster`).
        """

"""What a source gives that reads without end. Plugin authors import it from `kraal.plugins.api`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraal.offsets import Offset, SourcePartition, TopicPartition
from kraal.plugins.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStream:
    """What a source task reads without end: one streaming query in real-time mode, from Kafka to Kafka.

    The frame has columns as a batch has them, `timestamp`, `headers` and `partition` among them, and `offset long`:
    where the record comes from. Within a partition of the target, offsets ascend.
    """

    read: Callable[[SparkSession], DataFrame]
    """Builds the streaming frame, on a job thread. No Python operator may be in it."""
    stored: Callable[[TopicPartition, int], tuple[SourcePartition, Offset]]
    """Returns what to store when the record of an `offset` is written, for the partition of the target it went to."""
    topics: frozenset[str]
    """Where records may go."""
    topic: str | None = None
    """The topic of every record; None: the frame has a column `topic`."""
    slots: int
    """How many of Spark's core slots the query holds for as long as it runs: one for each partition of the source."""
    batch_ms: int
    """How long one of Spark's batches lasts; between two of them records wait a moment."""
    value_schema: Schema | None = None
    key_schema: Schema | None = None


class Streams:
    """What a source task may offer in place of `poll`, or beside it; by default it does not."""

    @classmethod
    def is_stream(cls, config: Mapping[str, str]) -> bool:
        """Tell whether tasks of a connector with this config are asked for `stream`, and never polled.

        The config may be wrong: it is asked by validation as well.
        """
        del config
        return False

    def stream(self, offsets: Mapping[SourcePartition, Offset]) -> SourceStream:
        """Return what comes behind `offsets`: those that `start` had, and what was stored since.

        Called on a job thread when the query starts, and when it starts again after a pause. Raises as `poll` does.
        """
        raise NotImplementedError("this source has no stream")

    @property
    def runs_on(self) -> bool:
        """Whether something of a task that is polled reads by itself, so that `rest` comes before a pause or a stop.

        Any thread, at once.
        """
        return False

    def rest(self) -> None:
        """End what reads by itself, until the next `poll`; what the last batch read may be written and not stored yet.

        Called on a job thread; may wait. Without Spark (`kraal.testing.Cluster`) nobody calls it.
        """

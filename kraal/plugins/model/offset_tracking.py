"""Where a source's records went in Kafka. Plugin authors import it from `kraal.plugins.api`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kraal.core.offsets import TopicPartition


class OffsetPair(NamedTuple):
    """One written record: its offset in the source, and its offset in the target."""

    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTracking:
    """A source's request to learn at which offsets Kafka has written its records.

    The frame has the columns `partition`, `timestamp` and `offset long`, the record's offset in the source. Each
    partition of the target receives the records of one partition of the source, in order.
    """

    found: Callable[[Mapping[TopicPartition, Sequence[OffsetPair]]], None]
    """Receives pairs by partition of the target, once Kafka has acknowledged the records: in the order of the writes,
    and the last pair is that of the last record. Called on a job thread; must return at once."""
    unknown: Callable[[str], None]
    """Receives the reason why the offsets of a batch are not known; likewise."""
    step: int
    """The number of records between two pairs, at most; a long batch has fewer pairs. 0: a pair for each record.

    A transaction, and each look at a stream, has one pair for each partition, whatever the step.
    """

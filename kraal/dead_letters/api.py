"""Kafka operations for reading and replaying dead letters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kraal.core.errors import KraalError
from kraal.dead_letters.records import DeadLetter, Target


class KafkaUnavailable(KraalError):
    """Kafka did not respond, or rejected a request."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Range of offsets of a partition, `[first, end)`."""

    first: int
    end: int

    @property
    def count(self) -> int:
        """Number of offsets; a compacted topic has fewer records."""
        return max(0, self.end - self.first)


class LettersKafka(Protocol):
    """Connection to a Kafka cluster. Not thread-safe. Calls block and may raise KafkaUnavailable."""

    @property
    def partitions(self) -> Mapping[str, int]:
        """Number of partitions by topic."""

    @property
    def internal(self) -> frozenset[str] | None:
        """Internal topics of the Connect cluster; None if they are unknown."""

    def compacted_topics(self, topics: Collection[str]) -> set[str]:
        """Return the topics that are compacted, such as the internal topics of a Connect cluster."""

    def spans(self, topic: str) -> dict[int, OffsetRange]:
        """Return the offset range of each partition of a topic; empty if the topic does not exist."""

    def committed_offsets(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets of a group by partition."""

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of a group."""

    def read(self, topic: str, spans: Mapping[int, OffsetRange]) -> Iterator[DeadLetter]:
        """Yield the records of the spans in offset order, one partition after another."""

    def write(self, letters: Sequence[tuple[DeadLetter, Target]]) -> None:
        """Write dead letters to their targets without the error headers, and wait until all are acknowledged."""

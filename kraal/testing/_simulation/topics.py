"""In-memory topics of the fake engine's tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """One Kafka record."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0
    """Milliseconds since the epoch."""


class Topics:
    """Topics by name, created by their first record. Not thread-safe."""

    def __init__(self) -> None:
        self._records: dict[str, dict[int, list[TopicRecord]]] = {}

    def append(
        self,
        topic: str,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        partition: int = 0,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int = 0,
    ) -> TopicRecord:
        """Write one record, by default to partition 0."""
        log = self._records.setdefault(topic, {}).setdefault(partition, [])
        record = TopicRecord(
            topic=topic,
            partition=partition,
            offset=len(log),
            key=key,
            value=value,
            headers=tuple(headers),
            timestamp_ms=timestamp_ms,
        )
        log.append(record)
        return record

    def read(self, topic: str) -> list[TopicRecord]:
        """Return all records of a topic by partition and offset; empty if the topic does not exist."""
        partitions = self._records.get(topic, {})
        return [record for number in sorted(partitions) for record in partitions[number]]

    def names(self) -> list[str]:
        """Return the names of all topics, sorted."""
        return sorted(self._records)

    def partitions(self, topic: str) -> list[int]:
        """Return the sorted partitions that have records."""
        return sorted(self._records.get(topic, {}))

    def read_partition(self, topic: str, partition: int, offset: int, limit: int) -> list[TopicRecord]:
        """Return at most `limit` records of one partition, starting at `offset`."""
        return self._records.get(topic, {}).get(partition, [])[offset : offset + limit]

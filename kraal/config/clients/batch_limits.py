"""Limits on the size of producer batches, derived from `max.message.bytes` of the topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

Record = tuple[str, bytes | None, bytes | None, Mapping[str, Any]]
"""Topic, value, key and other fields of a record."""
LimitReader = Callable[[str], int | None]
"""Returns `max.message.bytes` of a topic, or None if the limit is unknown. May block; never raises."""

_BATCH_OVERHEAD_BYTES: Final = 100
_RECORD_OVERHEAD_BYTES: Final = 40
"""Upper bounds of the overhead per batch, and per record or header, in Kafka's format."""
_MIN_BATCH_BYTES: Final = 256


class BatchLimits:
    """The size limits of topics and the size of the queued records.

    librdkafka has one maximum batch size for all topics, and does not split a batch that a broker rejects. The producer
    is therefore flushed before the queued records of a topic with a smaller limit exceed one batch.
    """

    def __init__(self, batch_size: int, read_limit: LimitReader) -> None:
        """Initialize the limits; `batch_size` is the producer's maximum batch size, in bytes."""
        self._batch_size = batch_size
        self._read_limit = read_limit
        self._limits: dict[str, int | None] = {}
        self._smaller_limits: dict[str, int] = {}
        """The limits of topics that require batches smaller than the producer's."""
        self._queued_bytes = _BATCH_OVERHEAD_BYTES

    def needs_smaller_batches(self, topics: AbstractSet[str]) -> bool:
        """Return whether any of the topics requires smaller batches. Blocks to read the limits of new topics."""
        for topic in topics - self._limits.keys():
            limit = self._limits[topic] = self._read_limit(topic)
            if limit is not None and limit < self._batch_size:
                self._smaller_limits[topic] = limit
        return bool(self._smaller_limits) and not self._smaller_limits.keys().isdisjoint(topics)

    def reset(self) -> None:
        """Reset the size of the queued records to the size of an empty batch."""
        self._queued_bytes = _BATCH_OVERHEAD_BYTES

    def flush_at_limits(self, records: Iterable[Record], flush: Callable[[], None]) -> Iterator[Record]:
        """Yield the records; call `flush` before a batch would exceed its topic's limit."""
        for record in records:
            limit = self._smaller_limits.get(record[0])
            if limit is not None:
                size = record_size(record)
                if self._queued_bytes + size > limit and self._queued_bytes > _BATCH_OVERHEAD_BYTES:
                    flush()
                    self.reset()
                self._queued_bytes += size
            yield record

    def reduce_limit(self, topic: str, size: int) -> bool:
        """Lower the limit of a topic that rejected a record of this size.

        Returns False if smaller batches cannot help.
        """
        if self.topic_limit(topic) is not None:
            return False  # batches are already small enough: the record itself is too large
        reduced_limit = self._smaller_limits.get(topic, self._batch_size) // 4
        if reduced_limit < max(size, _MIN_BATCH_BYTES):
            return False
        self._smaller_limits[topic] = reduced_limit
        return True

    def topic_limit(self, topic: str) -> int | None:
        """Return the limit of a topic in bytes, or None if it is unknown."""
        return self._limits.get(topic)


def record_size(record: Record) -> int:
    """Return an upper bound of a record's size in Kafka's format, in bytes."""
    _, value, key, options = record
    size = _RECORD_OVERHEAD_BYTES + len(value or b"") + len(key or b"")
    for name, content in options.get("headers") or ():
        size += _RECORD_OVERHEAD_BYTES + len(name) + len(content or b"")
    return size

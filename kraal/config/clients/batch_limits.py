"""Batches of librdkafka's producers that fit their topics, because librdkafka splits none that is refused. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

Record = tuple[str, bytes | None, bytes | None, Mapping[str, Any]]
"""Topic, value, key and other fields of a record."""
LimitOf = Callable[[str], int | None]
"""Returns `max.message.bytes` of a topic; None: not known. May block; raises nothing."""

_BATCH_BYTES: Final = 100
_RECORD_BYTES: Final = 40
"""Upper bounds of the overhead of Kafka's format for a batch, and for each record and header."""
_MIN_BATCH_BYTES: Final = 256


class BatchLimits:
    """Keeps batches below what their topics accept, because librdkafka does not split a batch that brokers refuse.

    librdkafka's batches have one maximum size for all topics. So the producer waits until the queued records of a topic
    with a smaller limit are sent, before it queues more of them than fit into one batch.
    """

    def __init__(self, batch_size: int, read_limit: LimitOf) -> None:
        """`batch_size`: the producer's, in bytes."""
        self._batch_size = batch_size
        self._read_limit = read_limit
        self._limits: dict[str, int | None] = {}
        self._smaller: dict[str, int] = {}
        """The topics whose batches must be smaller than the producer's."""
        self._queued = _BATCH_BYTES

    def apply_to(self, topics: AbstractSet[str]) -> bool:
        """Return whether a topic needs smaller batches. Blocks for new topics."""
        for topic in topics - self._limits.keys():
            limit = self._limits[topic] = self._read_limit(topic)
            if limit is not None and limit < self._batch_size:
                self._smaller[topic] = limit
        return bool(self._smaller) and not self._smaller.keys().isdisjoint(topics)

    def begin(self) -> None:
        """Record that no records are queued."""
        self._queued = _BATCH_BYTES

    def flush_in_time(self, records: Iterable[Record], flush: Callable[[], None]) -> Iterator[Record]:
        """Yield records, and flush in time."""
        for record in records:
            limit = self._smaller.get(record[0])
            if limit is not None:
                size = record_size(record)
                if self._queued + size > limit and self._queued > _BATCH_BYTES:
                    flush()
                    self.begin()
                self._queued += size
            yield record

    def learn(self, topic: str, size: int) -> bool:
        """Try smaller batches for a topic that refused a record of this size; return False if that is no use."""
        if self.of(topic) is not None:  # its batches fit, so this record alone is too large
            return False
        smaller = self._smaller.get(topic, self._batch_size) // 4
        if smaller < max(size, _MIN_BATCH_BYTES):
            return False
        self._smaller[topic] = smaller
        return True

    def of(self, topic: str) -> int | None:
        """Return the limit of a topic in bytes; None: not known."""
        return self._limits.get(topic)


def record_size(record: Record) -> int:
    """Return an upper bound of a record's size in Kafka's format, in bytes."""
    _, value, key, options = record
    size = _RECORD_BYTES + len(value or b"") + len(key or b"")
    for name, text in options.get("headers") or ():
        size += _RECORD_BYTES + len(name) + len(text or b"")
    return size

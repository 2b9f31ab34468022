"""Reads all partitions of an internal topic from any position, without a group.

A topic with several partitions has no total order; the reader defines one. It tracks its position in each
partition, and a record's *virtual offset* is the sum of these positions when it was read, minus one. Virtual offsets
are therefore strictly increasing, `offset + 1` is the position to continue from, and with one partition they equal
Kafka's offsets. The positions in each partition are stored for recent virtual offsets; for any other offset,
reading starts at the beginning.

An empty result always means the end of the topic. An empty poll does not imply the end: transaction markers and
compacted records leave gaps, and the end may have moved since the last check. A reader that receives no record
therefore requests the end with an admin client and reads up to this end. The admin client uses a separate connection,
because the consumer's connection is busy with a long poll.
Source: KafkaBasedLog.readToLogEnd (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kraal.core.errors import StoreError
from kraal.core.kafka_errors import UNKNOWN_TOPIC
from kraal.kafka.settings import LastClientError, reader_settings
from kraal.kafka.topics import TopicAdmin

log = logging.getLogger(__name__)

_CLOSE_CHECK_INTERVAL_S = 0.25
"""Interval at which a waiting reader checks whether it was closed."""
_POLL_TIMEOUT_S = 0.02
"""Timeout of a poll before the end is reached."""
_END_CHECK_INTERVAL_S = 1.0
"""Interval at which an idle reader checks that it is at the end and that a broker is reachable."""
_TRANSACTION_TIMEOUT_S = 1.0
"""Maximum time to wait until a committed transaction of this process becomes visible."""
_MAX_SKIP = 1000
"""Maximum number of offsets that the reader skips without reconnecting."""
_MAX_RECENT_POSITIONS = 256
"""Maximum number of recent read positions to remember; the oldest are evicted."""
_FATAL_CODES = UNKNOWN_TOPIC | {
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - librdkafka's local errors start with an underscore
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
}
"""Errors after which the consumer is closed; creating the next consumer determines the cause."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record with an undecoded key. `offset` is virtual; `partition` and `kafka_offset` are its position in Kafka."""

    offset: int
    partition: int
    kafka_offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class TopicReader:
    """Reads a topic. One thread reads, another may call `record_write` and `end`. Connects on first use."""

    def __init__(
        self,
        topic: str,
        options: Mapping[str, str],
        *,
        client_id: str,
        admin: TopicAdmin,
        read_committed: bool = False,
        awaits_open_transactions: bool = False,
        timeout_s: float = 5.0,
    ) -> None:
        """Create the reader without connecting.

        Args:
            topic: an existing topic.
            options: librdkafka's options.
            client_id: the client id of the consumer.
            admin: describes the topic and lists its offsets.
            read_committed: whether to skip uncommitted records.
            awaits_open_transactions: whether the end includes open transactions, for which a read then waits up to
                `timeout_s`; otherwise the end is the last stable offset.
            timeout_s: maximum time that brokers may be unavailable before a call fails.
        """
        self._topic = topic
        self._admin = admin
        self._reads_committed = read_committed and not awaits_open_transactions
        self._timeout_s = timeout_s
        self._last_error = LastClientError()
        self._settings = reader_settings(options, client_id, self._last_error, read_committed=read_committed)
        self._lock = threading.Lock()
        self._closed = False
        self._consumer: Consumer | None = None
        self._topic_id: str | None = None
        self._next_offset = 0
        """The virtual offset to continue from."""
        self._positions_by_partition: list[int] = []
        """The next offset to read in each partition."""
        self._read_up_to: list[int] = []
        """The offset in each partition up to which all records have been read since the last seek."""
        self._highest_read: list[int] = []
        """The highest position reached in each partition; the end of the partition cannot be lower."""
        self._recent_positions: OrderedDict[int, tuple[int, ...]] = OrderedDict()
        self._write_ends: dict[int, int] = {}
        """The offset after the last write of this process, by partition."""
        self._min_partitions = 0
        """Minimum number of partitions, based on the writes of this process."""
        self._end_reached_s = float("-inf")
        """The time when the end was last reached."""

    def read(self, start: int, limit: int, wait_s: float = 0.0) -> list[RawRecord]:
        """Return at most `limit` records from `start`; wait up to `wait_s` if there is none.

        Raises StoreError if no broker responds, or if the topic was deleted or has lost records that were read before.
        """
        with self._lock:
            self._check_open()
            if limit <= 0:
                return []
            try:
                if not self._can_continue_to(start):
                    self._seek(start)
                records = self._poll(limit, wait_s)
                if not records and not (wait_s > 0 and self._is_at_end()):
                    records = self._read_to_end(limit)
            except StoreError:
                self._close_consumer()  # the next consumer checks whether the topic is still the same
                raise
            except (KafkaException, RuntimeError) as exc:
                self._fail(self._last_error.append_to(exc), exc)
            return records

    def end(self) -> int:
        """Return the virtual offset of the next record. Raises StoreError."""
        self._check_open()
        return sum(self._ends())

    def record_write(self, partition: int, offset: int) -> None:
        """Record a write of this process, which the next read includes. Thread-safe."""
        self._write_ends[partition] = offset + 1
        self._min_partitions = max(self._min_partitions, partition + 1)

    def close(self) -> None:
        """Close the consumer; a read in progress fails."""
        self._closed = True
        with self._lock:
            self._close_consumer()

    # -- start positions -----------------------------------------------------------------------------------

    def _can_continue_to(self, start: int) -> bool:
        """Return whether `start` is the next offset or follows closely, for example after a transaction marker."""
        if self._consumer is None or self._min_partitions > len(self._positions_by_partition):
            return False  # in the second case, the topic has new partitions
        if (
            len(self._positions_by_partition) == 1
            and self._next_offset < start <= self._next_offset + _MAX_SKIP
        ):
            self._next_offset = start
        return start == self._next_offset

    def _seek(self, start: int) -> None:
        topic = self._admin.describe(self._topic)
        positions, next_offset = self._positions(start, topic.partitions)
        highest_read = [
            max(pair) for pair in zip_longest(self._highest_read, self._positions_by_partition, fillvalue=0)
        ]
        is_recreated = self._topic_id not in (None, topic.id)
        if not any(positions):
            self._recent_positions.clear()
            highest_read = []
            if is_recreated:
                self._write_ends.clear()
                self._min_partitions = 0
        elif is_recreated or len(positions) > topic.partitions:
            raise StoreError(
                f"the topic {self._topic!r} was deleted and created again since it was read; restart the worker "
                "to read the whole topic"
            )
        positions = self._clamp(positions, [*highest_read, *[0] * (topic.partitions - len(highest_read))])
        # Use a new consumer, because the old one may wait up to half a second for a pending fetch.
        self._close_consumer()
        self._consumer = Consumer(self._settings)
        self._consumer.assign([TopicPartition(self._topic, p, offset) for p, offset in enumerate(positions)])
        self._topic_id = topic.id
        self._positions_by_partition, self._read_up_to, self._highest_read, self._next_offset = (
            positions,
            list(positions),
            highest_read,
            next_offset,
        )
        self._end_reached_s = float("-inf")
        self._record_position()

    def _positions(self, start: int, partitions: int) -> tuple[list[int], int]:
        """Return the position in each partition for `start`, and the virtual offset of these positions."""
        if start <= 0:
            return [0] * partitions, 0
        if partitions == 1:
            return [start], start
        recent_positions = self._recent_positions.get(start)
        if recent_positions is None:
            log.warning(
                "Reading the topic %r from the beginning, because the positions of offset %d are unknown",
                self._topic,
                start,
            )
            return [0] * partitions, 0
        return [*recent_positions, *[0] * (partitions - len(recent_positions))], start

    def _clamp(self, positions: Sequence[int], highest_read: Sequence[int]) -> list[int]:
        """Return `positions`, limited to existing offsets. Raises StoreError if a partition has lost read records."""
        first_offsets = self._admin.first_offsets(self._topic, len(positions))
        end_offsets = self._admin.end_offsets(self._topic, len(positions))
        clamped_positions = list(positions)
        for partition, position in enumerate(positions):
            if position > end_offsets[partition]:
                if highest_read[partition] > end_offsets[partition]:
                    raise StoreError(
                        f"partition {partition} of the topic {self._topic!r} was read up to offset "
                        f"{highest_read[partition]}, but now ends at {end_offsets[partition]}: the topic was deleted "
                        "and created again, or has lost records; restart the worker to read the whole topic"
                    )
                clamped_positions[partition] = end_offsets[partition]
            elif position < first_offsets[partition]:
                if position:
                    log.warning(
                        "Records %d to %d of %s-%d were deleted before they were read",
                        position,
                        first_offsets[partition] - 1,
                        self._topic,
                        partition,
                    )
                clamped_positions[partition] = first_offsets[partition]
        return clamped_positions

    # -- reading -------------------------------------------------------------------------------------------

    def _poll(self, limit: int, wait_s: float) -> list[RawRecord]:
        """Return available records, or the first records that arrive within `wait_s`."""
        deadline_s = time.monotonic() + wait_s
        while True:
            consumer = self._check_consumer()
            remaining_s = deadline_s - time.monotonic()
            message = consumer.poll(min(max(remaining_s, 0.0), _CLOSE_CHECK_INTERVAL_S))
            if message is not None:
                further_messages = consumer.consume(limit - 1, 0) if limit > 1 else []
                if records := self._accept([message, *further_messages]):
                    return records
            elif remaining_s <= 0:
                return []

    def _accept(self, messages: Sequence[Message]) -> list[RawRecord]:
        records: list[RawRecord] = []
        total = sum(self._positions_by_partition)
        fatal_error: KafkaError | None = None
        for message in messages:
            error = message.error()
            partition, offset = message.partition(), message.offset()
            if error is None and partition is not None and offset is not None:
                if offset < self._positions_by_partition[partition]:
                    continue
                total += offset + 1 - self._positions_by_partition[partition]
                self._positions_by_partition[partition] = offset + 1
                if total > self._next_offset:  # otherwise, the record precedes the start position
                    records.append(_raw_record(message, total - 1, partition, offset))
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                if partition is not None and offset is not None:
                    self._read_up_to[partition] = max(self._read_up_to[partition], offset)
            elif error is not None and (error.code() in _FATAL_CODES or error.fatal()):
                fatal_error = error
                break
            elif error is not None:
                self._last_error(error)
        self._read_up_to = [
            max(pair) for pair in zip(self._positions_by_partition, self._read_up_to, strict=True)
        ]
        if records:
            self._next_offset = total
            self._record_position()
        if fatal_error is not None:
            self._close_consumer()
            if not records:
                raise StoreError(f"cannot read the topic {self._topic!r}: {fatal_error.str()}")
        return records

    def _record_position(self) -> None:
        self._recent_positions[self._next_offset] = tuple(self._positions_by_partition)
        self._recent_positions.move_to_end(self._next_offset)
        if len(self._recent_positions) > _MAX_RECENT_POSITIONS:
            self._recent_positions.popitem(last=False)

    # -- the end -------------------------------------------------------------------------------------------

    def _read_to_end(self, limit: int) -> list[RawRecord]:
        """Return the next records, or an empty list at the current end."""
        ends = self._ends()
        start_s = time.monotonic()
        while True:
            elapsed_s = time.monotonic() - start_s
            is_behind = self._is_behind(ends)
            if not is_behind and (
                elapsed_s > _TRANSACTION_TIMEOUT_S or not self._is_behind(self._list_write_ends())
            ):
                self._end_reached_s = time.monotonic()
                return []
            if is_behind and elapsed_s > self._timeout_s:
                self._fail(
                    self._last_error.append_to(f"received no records within {self._timeout_s:g} s"),
                    None,
                )
            if records := self._poll(limit, _POLL_TIMEOUT_S):
                return records

    def _is_at_end(self) -> bool:
        """Return whether the end was reached recently, without a later write of this process."""
        is_recent = time.monotonic() - self._end_reached_s < _END_CHECK_INTERVAL_S
        return is_recent and not self._is_behind(self._list_write_ends())

    def _is_behind(self, ends: Sequence[int]) -> bool:
        if all(position >= end for position, end in zip(self._read_up_to, ends, strict=True)):
            return False
        # The consumer's position includes transaction markers, which are not delivered as messages.
        partitions = [TopicPartition(self._topic, number) for number in range(len(self._read_up_to))]
        for position in self._check_consumer().position(partitions):
            self._read_up_to[position.partition] = max(self._read_up_to[position.partition], position.offset)
        return any(position < end for position, end in zip(self._read_up_to, ends, strict=True))

    def _ends(self) -> list[int]:
        partitions = len(self._read_up_to) or self._admin.describe(self._topic).partitions
        return self._admin.end_offsets(self._topic, partitions, committed=self._reads_committed)

    def _list_write_ends(self) -> list[int]:
        return [self._write_ends.get(partition, 0) for partition in range(len(self._read_up_to))]

    # -- errors --------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the topic {self._topic!r} cannot be read: its reader is closed")

    def _check_consumer(self) -> Consumer:
        self._check_open()
        if self._consumer is None:
            raise StoreError(f"the topic {self._topic!r} cannot be read: the connection was closed")
        return self._consumer

    def _fail(self, reason: str, cause: BaseException | None) -> NoReturn:
        self._close_consumer()
        raise StoreError(f"cannot read the topic {self._topic!r}: {reason}") from cause

    def _close_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()


def _raw_record(message: Message, offset: int, partition: int, kafka_offset: int) -> RawRecord:
    _, timestamp_ms = message.timestamp()
    return RawRecord(offset, partition, kafka_offset, message.key(), message.value(), timestamp_ms)

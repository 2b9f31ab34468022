"""Reads one internal topic from any position on, all its partitions at once, without a group.

A topic of several partitions has no order of its own; the reader gives it one. It keeps how far it is in each
partition, and a record's *virtual offset* is the sum of these positions when it was read, less one. So virtual
offsets strictly rise, `offset + 1` is where to go on, and with one partition they are Kafka's own. Where a
virtual offset lies in each partition is known for the latest reads; from any other one reads from the beginning.

"Nothing" is only ever said of the end: a poll that was too short proves nothing, a transaction's markers and
compacted records leave gaps, and the end that was met a moment ago may have moved. So a reader that finds
nothing asks an administrator's client for the end, over its own connection (the consumer's is busy waiting for
the next record), and reads until it is there. Source: KafkaBasedLog.readToLogEnd (Kafka 4.3.0); contract 3.1.
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

from kraal.errors import StoreError
from kraal.stores.kafka_settings import LastWord, reader
from kraal.stores.kafka_topics import TopicAdmin

log = logging.getLogger(__name__)

_SLICE_S = 0.25
"""A waiting reader looks this often whether it was closed."""
_PAUSE_S = 0.02
"""One wait on the way to the end."""
_CONFIRMED_S = 1.0
"""So long a reader that waits in vain does not ask again whether it is at the end, or whether a broker is there."""
_MARKERS_S = 1.0
"""How long a committed transaction of our own may take to become visible before the reader stops waiting for it."""
_SKIP = 1000
"""So many offsets further on is no reason to connect anew."""
_RECENT = 256
"""Reads whose positions are kept."""
_LOST = frozenset(
    {
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - librdkafka's local errors are spelled with it
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    }
)
"""Errors after which the consumer is given up; opening the next one finds out what is wrong."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record in bytes. `offset` is virtual; in Kafka it lies in `partition` at `kafka_offset`."""

    offset: int
    partition: int
    kafka_offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class TopicReader:
    """One thread reads, another may call `wrote` and `end`. Connects when it is used."""

    def __init__(
        self,
        topic: str,
        options: Mapping[str, str],
        *,
        client_id: str,
        admin: TopicAdmin,
        read_committed: bool = False,
        awaits_open: bool = False,
        timeout_s: float = 5.0,
    ) -> None:
        """`options`: librdkafka's. `timeout_s`: how long brokers may be away before that is an error.

        `awaits_open`: the end is behind open transactions, which are waited for, as long; else it is before the first.
        """
        self._topic = topic
        self._admin = admin
        self._committed = read_committed and not awaits_open
        self._timeout_s = timeout_s
        self._said = LastWord()
        self._settings = reader(options, client_id, self._said, read_committed=read_committed)
        self._lock = threading.Lock()
        self._closed = False
        self._consumer: Consumer | None = None
        self._topic_id: str | None = None
        self._next = 0
        """The virtual offset to go on with."""
        self._at: list[int] = []
        """The next offset to be read in each partition."""
        self._ended: list[int] = []
        """As far as nothing more is to be read in each partition, since the reader went to where it is."""
        self._seen: list[int] = []
        """As far as each partition was ever read: it cannot end before that."""
        self._recent: OrderedDict[int, tuple[int, ...]] = OrderedDict()
        self._written: dict[int, int] = {}
        self._partitions = 0
        """So many there are at least, as our own writes show."""
        self._confirmed_s = float("-inf")

    def read(self, start: int, limit: int, wait_s: float = 0.0) -> list[RawRecord]:
        """Return at most `limit` records from `start` on; wait at most `wait_s` for one when there is none.

        Raises StoreError: no broker answers, the topic is gone, or it lost what was read already.
        """
        with self._lock:
            self._check()
            if limit <= 0:
                return []
            try:
                if not self._is_near(start):
                    self._go_to(start)
                found = self._take(limit, wait_s)
                if not found and not (wait_s > 0 and self._is_at_end()):
                    found = self._on_to_the_end(limit)
            except StoreError:
                self._give_up()  # the next one looks whether the topic is still what it was
                raise
            except (KafkaException, RuntimeError) as exc:
                self._fail(self._said.added_to(exc), exc)
            return found

    def end(self) -> int:
        """Return the virtual offset of the end: what the next record gets. Raises StoreError."""
        self._check()
        return sum(self._ends())

    def wrote(self, partition: int, offset: int) -> None:
        """Take note of a record of our own: the next read goes at least as far. Any thread."""
        self._written[partition] = offset + 1
        self._partitions = max(self._partitions, partition + 1)

    def close(self) -> None:
        """Let go of the connection; ends a read that waits."""
        self._closed = True
        with self._lock:
            self._give_up()

    # -- where to begin ------------------------------------------------------------------------------------

    def _is_near(self, start: int) -> bool:
        """Whether reading on leads to `start`; behind a transaction one goes on after its marker."""
        if self._consumer is None or self._partitions > len(self._at):
            return False  # in the second case the topic has got more partitions
        if len(self._at) == 1 and self._next < start <= self._next + _SKIP:
            self._next = start
        return start == self._next

    def _go_to(self, start: int) -> None:
        topic = self._admin.describe(self._topic)
        at, begin = self._positions(start, topic.partitions)
        seen = [max(pair) for pair in zip_longest(self._seen, self._at, fillvalue=0)]
        renewed = self._topic_id not in (None, topic.id)
        if not any(at):
            self._recent.clear()
            seen = []
            if renewed:
                self._written.clear()
                self._partitions = 0
        elif renewed or len(at) > topic.partitions:
            raise StoreError(
                f"the topic {self._topic!r} was deleted and made anew since it was read; restart the worker, "
                "so that it reads all of it"
            )
        at = self._within(at, [*seen, *[0] * (topic.partitions - len(seen))])
        # A new one, for the old one's connection may be waiting for the next record, half a second long.
        self._give_up()
        self._consumer = Consumer(self._settings)
        self._consumer.assign([TopicPartition(self._topic, p, offset) for p, offset in enumerate(at)])
        self._topic_id = topic.id
        self._at, self._ended, self._seen, self._next = at, list(at), seen, begin
        self._confirmed_s = float("-inf")
        self._remember()

    def _positions(self, start: int, partitions: int) -> tuple[list[int], int]:
        """Return where `start` lies in each partition, and the virtual offset that this is."""
        if start <= 0:
            return [0] * partitions, 0
        if partitions == 1:
            return [start], start
        known = self._recent.get(start)
        if known is None:
            log.warning("The topic %r is read again: nothing is known of its offset %d", self._topic, start)
            return [0] * partitions, 0
        return [*known, *[0] * (partitions - len(known))], start

    def _within(self, at: Sequence[int], seen: Sequence[int]) -> list[int]:
        """Return positions that exist; `seen` says how far each partition was read."""
        first = self._admin.first_offsets(self._topic, len(at))
        end = self._admin.end_offsets(self._topic, len(at))
        found = list(at)
        for partition, position in enumerate(at):
            if position > end[partition]:
                if seen[partition] > end[partition]:
                    raise StoreError(
                        f"the topic {self._topic!r} was read up to offset {seen[partition]} of its partition "
                        f"{partition}, but ends at {end[partition]} now: it was deleted and made anew, or lost "
                        "records; restart the worker, so that it reads all of it"
                    )
                found[partition] = end[partition]
            elif position < first[partition]:
                if position:
                    log.warning(
                        "Records %d to %d of %s-%d are gone and were never read",
                        position,
                        first[partition] - 1,
                        self._topic,
                        partition,
                    )
                found[partition] = first[partition]
        return found

    # -- reading -------------------------------------------------------------------------------------------

    def _take(self, limit: int, wait_s: float) -> list[RawRecord]:
        """Return what is here, or comes in time."""
        deadline_s = time.monotonic() + wait_s
        while True:
            consumer = self._check_consumer()
            left_s = deadline_s - time.monotonic()
            message = consumer.poll(min(max(left_s, 0.0), _SLICE_S))
            if message is not None:
                more = consumer.consume(limit - 1, 0) if limit > 1 else []
                if found := self._accept([message, *more]):
                    return found
            elif left_s <= 0:
                return []

    def _accept(self, messages: Sequence[Message]) -> list[RawRecord]:
        found: list[RawRecord] = []
        total = sum(self._at)
        lost: KafkaError | None = None
        for message in messages:
            error = message.error()
            partition, offset = message.partition(), message.offset()
            if error is None and partition is not None and offset is not None:
                if offset < self._at[partition]:
                    continue
                total += offset + 1 - self._at[partition]
                self._at[partition] = offset + 1
                if total > self._next:  # else it lies before where we are to begin
                    found.append(_raw(message, total - 1, partition, offset))
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                if partition is not None and offset is not None:
                    self._ended[partition] = max(self._ended[partition], offset)
            elif error is not None and (error.code() in _LOST or error.fatal()):
                lost = error
                break
            elif error is not None:
                self._said(error)
        self._ended = [max(pair) for pair in zip(self._at, self._ended, strict=True)]
        if found:
            self._next = total
            self._remember()
        if lost is not None:
            self._give_up()
            if not found:
                raise StoreError(f"cannot read the topic {self._topic!r}: {lost.str()}")
        return found

    def _remember(self) -> None:
        self._recent[self._next] = tuple(self._at)
        self._recent.move_to_end(self._next)
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)

    # -- the end -------------------------------------------------------------------------------------------

    def _on_to_the_end(self, limit: int) -> list[RawRecord]:
        """Read until something is found, or the end that there is now; then nothing is there."""
        ends = self._ends()
        begun_s = time.monotonic()
        while True:
            passed_s = time.monotonic() - begun_s
            behind = self._is_behind(ends)
            if not behind and (passed_s > _MARKERS_S or not self._is_behind(self._own_ends())):
                self._confirmed_s = time.monotonic()
                return []
            if behind and passed_s > self._timeout_s:
                self._fail(
                    self._said.added_to(f"nothing came within {self._timeout_s:g} s"),
                    None,
                )
            if found := self._take(limit, _PAUSE_S):
                return found

    def _is_at_end(self) -> bool:
        """Whether the end was met lately, and we wrote nothing since."""
        lately = time.monotonic() - self._confirmed_s < _CONFIRMED_S
        return lately and not self._is_behind(self._own_ends())

    def _is_behind(self, ends: Sequence[int]) -> bool:
        if all(ended >= end for ended, end in zip(self._ended, ends, strict=True)):
            return False
        # The consumer's own position passes over the markers of transactions, which no message tells of.
        parts = [TopicPartition(self._topic, number) for number in range(len(self._ended))]
        for part in self._check_consumer().position(parts):
            self._ended[part.partition] = max(self._ended[part.partition], part.offset)
        return any(ended < end for ended, end in zip(self._ended, ends, strict=True))

    def _ends(self) -> list[int]:
        partitions = len(self._ended) or self._admin.describe(self._topic).partitions
        return self._admin.end_offsets(self._topic, partitions, committed=self._committed)

    def _own_ends(self) -> list[int]:
        return [self._written.get(partition, 0) for partition in range(len(self._ended))]

    # -- failing -------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._closed:
            raise StoreError(f"the topic {self._topic!r} cannot be read: it is closed")

    def _check_consumer(self) -> Consumer:
        self._check()
        if self._consumer is None:
            raise StoreError(f"the topic {self._topic!r} cannot be read: the connection was given up")
        return self._consumer

    def _fail(self, reason: str, cause: BaseException | None) -> NoReturn:
        self._give_up()
        raise StoreError(f"cannot read the topic {self._topic!r}: {reason}") from cause

    def _give_up(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()


def _raw(message: Message, offset: int, partition: int, kafka_offset: int) -> RawRecord:
    _, timestamp_ms = message.timestamp()
    return RawRecord(offset, partition, kafka_offset, message.key(), message.value(), timestamp_ms)

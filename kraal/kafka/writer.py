"""Ordered writes to an internal topic, with acknowledgements by all in-sync replicas and a timeout.

The records that a call writes to a partition form one batch (up to the producer's `batch.size`), which a broker
accepts or rejects as a whole. A failed call leaves no records queued, so that no record is written much later; records
in flight may or may not have been written.

A producer causes brokers to create a missing topic, with settings that lose records. Therefore the topic is looked up
before a producer is created, and again after a failure.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kraal.core.errors import Fenced, RecordTooLarge, StoreError
from kraal.kafka.settings import (
    LastClientError,
    error_code,
    leader_producer_settings,
    plain_producer_settings,
)
from kraal.kafka.topics import TopicAdmin

log = logging.getLogger(__name__)

Pair = tuple[bytes, bytes | None]
"""The key and value of a record; the value None is a tombstone."""

FENCED = "Failed to write to config topic; this may be due to a transient error and the request can be safely retried"
_CLAIM_FAILED = "Failed to create and initialize fencable producer for config topic"
_SIZE_ERRORS = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
_FLUSH_GRACE_S = 1.0
_ABORT_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """The position of a written record."""

    partition: int
    offset: int


class TopicWriter:
    """The non-transactional producer of a topic. Connects on first use. Thread-safe; calls are serialized."""

    def __init__(
        self,
        topic: str,
        options: Mapping[str, str],
        *,
        client_id: str,
        admin: TopicAdmin,
        timeout_s: float = 5.0,
    ) -> None:
        """`options` contains librdkafka's options; a write fails after `timeout_s`."""
        self._topic = topic
        self._admin = admin
        self._timeout_s = timeout_s
        self._last_error = LastClientError()
        self._settings = plain_producer_settings(options, client_id, self._last_error, timeout_s=timeout_s)
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._closed = False

    def write(self, pairs: Sequence[Pair]) -> list[RecordPosition]:
        """Write `pairs`; return their positions once they are acknowledged. Raises StoreError, RecordTooLarge."""
        with self._lock:
            if self._closed:
                raise StoreError(f"the topic {self._topic!r} cannot be written: its writer is closed")
            delivery = Delivery(len(pairs))
            try:
                if self._producer is None:
                    self._admin.describe(self._topic)
                    self._producer = Producer(self._settings)
                delivery.send(self._producer, self._topic, pairs, self._timeout_s)
                self._producer.flush(self._timeout_s + _FLUSH_GRACE_S)
                return delivery.result()
            except (KafkaException, BufferError) as exc:
                self._discard_producer()
                if error_code(exc) in _SIZE_ERRORS:
                    raise RecordTooLarge(str(exc)) from exc
                raise StoreError(self._last_error.append_to(exc)) from exc

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._closed = True
            self._producer = None

    def _discard_producer(self) -> None:
        failed_producer, self._producer = self._producer, None
        if failed_producer is not None:
            failed_producer.purge()
            failed_producer.flush(0)


class LeaderWriter:
    """The leader's transactional producer (KIP-618); later claims fence it. Thread-safe; calls are serialized."""

    def __init__(
        self,
        topic: str,
        options: Mapping[str, str],
        *,
        client_id: str,
        admin: TopicAdmin,
        transactional_id: str,
        timeout_s: float = 5.0,
    ) -> None:
        """`options` contains librdkafka's options; a write or claim fails after `timeout_s`."""
        self._topic = topic
        self._admin = admin
        self._timeout_s = timeout_s
        self._last_error = LastClientError()
        self._settings = leader_producer_settings(
            options, client_id, self._last_error, transactional_id=transactional_id, timeout_s=timeout_s
        )
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._closed = False

    def claim(self) -> None:
        """Fence earlier producers with the transactional id, on any worker. Raises StoreError; a retry may succeed."""
        with self._lock:
            if self._closed:
                raise StoreError(f"the topic {self._topic!r} cannot be claimed: its writer is closed")
            self._producer = None
            try:
                self._admin.describe(self._topic)
                new_producer = Producer(self._settings)
                new_producer.init_transactions(self._timeout_s)
            except (KafkaException, StoreError) as exc:
                log.warning("Failed to claim the topic %r: %s", self._topic, self._last_error.append_to(exc))
                raise StoreError(_CLAIM_FAILED) from exc
            self._producer = new_producer

    def write(self, pairs: Sequence[Pair]) -> list[RecordPosition]:
        """Write `pairs` in a transaction; return their positions. Raises Fenced after any failure.

        After a failure, `claim` must precede the next write. The failed transaction is aborted now or by this claim,
        unless only the response to its commit was lost.
        """
        with self._lock:
            claimed_producer = self._producer
            if claimed_producer is None:
                log.warning("Cannot write to the topic %r: this worker has not claimed it", self._topic)
                raise Fenced(FENCED)
            delivery = Delivery(len(pairs))
            try:
                claimed_producer.begin_transaction()
                delivery.send(claimed_producer, self._topic, pairs, self._timeout_s)
                claimed_producer.commit_transaction(self._timeout_s)
                return delivery.result()
            except (KafkaException, BufferError) as exc:
                log.warning(
                    "Failed to perform fencable send to config topic: %s", self._last_error.append_to(exc)
                )
                self._producer = None
                with suppress(KafkaException):  # usually another worker has claimed the id
                    claimed_producer.abort_transaction(_ABORT_TIMEOUT_S)
                raise Fenced(FENCED) from exc

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._closed = True
            self._producer = None


class Delivery:
    """The delivery results of a write, which the producer reports during a flush."""

    def __init__(self, count: int) -> None:
        self._positions: list[RecordPosition | None] = [None] * count
        self._error: KafkaError | None = None

    def send(self, producer: Producer, topic: str, pairs: Sequence[Pair], timeout_s: float) -> None:
        """Queue `pairs`, all with the same timestamp. Raises KafkaException, BufferError."""
        now_ms = time.time_ns() // 1_000_000
        for number, (key, value) in enumerate(pairs):
            on_delivery = partial(self._on_delivery, number)
            try:
                producer.produce(topic, value, key, on_delivery=on_delivery, timestamp=now_ms)
            except BufferError:  # the queue is full, so send the queued records first
                producer.flush(timeout_s)
                producer.produce(topic, value, key, on_delivery=on_delivery, timestamp=now_ms)

    def result(self) -> list[RecordPosition]:
        """Return the position of each record. Raises KafkaException if a record was not written."""
        if self._error is not None:
            raise KafkaException(self._error)
        positions = [position for position in self._positions if position is not None]
        if len(positions) < len(self._positions):
            raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT))
        return positions

    def _on_delivery(self, number: int, error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None:
            self._error = self._error or error
        elif partition is not None and offset is not None:
            self._positions[number] = RecordPosition(partition, offset)

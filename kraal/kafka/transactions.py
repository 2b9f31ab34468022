"""A source task's transactional producer (KIP-618), which writes records and their source offsets atomically.

A transaction starts with the first record, and ends with the offsets. After any error it is aborted, so that
read-committed consumers never receive its records. StoreUnavailable means that a retry may succeed, for example when a
broker is reachable again; StoreError is permanent. Fenced means that a newer producer of the same task, on any worker,
has the transactional id, or that the transaction exceeded its timeout.
Source: ExactlyOnceWorkerSourceTask, Worker.exactlyOnceSourceTaskProducerConfigs (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kraal.config.clients.batch_limits import BatchLimits, LimitReader, Record, record_size
from kraal.config.clients.record_size import (
    LIBRDKAFKA_NAME,
    MAX_REQUEST_SIZE,
    too_large_for_producer,
    too_large_for_topic,
)
from kraal.core.errors import Fenced, StoreError, StoreUnavailable
from kraal.core.ids import TaskId
from kraal.core.kafka_errors import NOT_AUTHORIZED
from kraal.core.offsets import Offset, SourcePartition
from kraal.kafka.settings import LastClientError, Settings, error_code
from kraal.kafka.writer import Pair

log = logging.getLogger(__name__)

FENCED: Final = "There is a newer producer with the same transactionalId which fences the current one."
OWN_OFFSETS: Final = (
    "Source tasks may not produce to their own offsets topics when exactly-once support is enabled"
)
_POLL_INTERVAL_S: Final = 2.0
"""Interval at which a blocking call checks whether the task was cancelled."""
_ABORT_TIMEOUT_S: Final = 10.0
_CLOSE_TIMEOUT_S: Final = 2.0
_FULL_QUEUE_WAIT_S: Final = 0.1
_RECORDS_PER_POLL: Final = 10_000
"""Number of records after which the producer is polled."""

_FENCED_CODES: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)
_PURGED_CODES: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001 - local errors
_PERMANENT_CODES: Final = NOT_AUTHORIZED | {
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.POLICY_VIOLATION,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._INVALID_ARG,  # noqa: SLF001 - as above
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - as above
}
"""Codes of errors that a retry cannot fix."""
Explain = Callable[[str], str]
"""Returns the likely reason why brokers reject records for a topic, or an empty string. May block; never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTarget:
    """The destination of a connector's offsets."""

    topic: str
    pairs: Callable[[Mapping[SourcePartition, Offset | None]], Sequence[Pair]]
    """Returns the records that store offsets."""
    delete_copies: Callable[[Mapping[SourcePartition, None]], None] | None = None
    """Called with deleted offsets before the deletions are committed. Raises StoreError, which prevents the commit."""
    on_stored: Callable[[Mapping[SourcePartition, Offset | None]], None] | None = None
    """Called with the committed offsets, without deletions. Must not raise."""


class TaskProducer:
    """The producer of a task. Not thread-safe, except for `cancel`; calls block."""

    def __init__(
        self,
        settings: Settings,
        last_error: LastClientError,
        task: TaskId,
        target: OffsetTarget,
        *,
        tracks: bool = False,
        limit_of: LimitReader = lambda _: None,
        explain_refusal: Explain = lambda _: "",
    ) -> None:
        """Create the producer without connecting; `settings` contains librdkafka's settings, with `transactional.id`.

        With `tracks`, `write` accepts `offset_callbacks`. The client then reports each delivery (0.1 µs per record).
        """
        report_settings = {"delivery.report.only.error": not tracks, "on_delivery": self._on_delivery}
        self._settings = {**settings, **report_settings}
        self._last_error = last_error
        self._task = task
        self._target = target
        self._timeout_s = int(settings["transaction.timeout.ms"]) / 1000
        self._producer: Producer | None = None
        self._is_cancelled = False
        self._is_open = self._must_abort = False
        self._began_s = 0.0
        self._count = 0
        self._delivery_error: KafkaError | None = None
        self._limits = BatchLimits(int(settings["batch.size"]), limit_of)
        self._explain_refusal = explain_refusal
        self._failed_record: tuple[str, int] = ("", 0)
        """Topic and size of the record that was not delivered."""

    @property
    def is_open(self) -> bool:
        """Whether there are uncommitted records."""
        return self._is_open and not self._must_abort

    def claim(self, timeout_s: float) -> None:
        """Fence all earlier producers of the task, on any worker. Raises StoreUnavailable, StoreError."""
        try:
            producer = Producer(self._settings)
            producer.init_transactions(timeout_s)
        except KafkaException as exc:
            text = f"cannot initialize transactions of task {self._task}: {self._last_error.append_to(exc)}"
            raise StoreError(text) if error_code(exc) in _PERMANENT_CODES else StoreUnavailable(text) from exc
        self._producer = producer

    def write(
        self,
        topic: str | None,
        columns: Mapping[str, Sequence[Any]],
        offset_callbacks: Mapping[int, Callable[[int], None]] | None = None,
    ) -> None:
        """Send records in the open transaction, or in a new one. Raises Fenced, StoreUnavailable, StoreError.

        `columns` contains at least `value`, and optionally `key`, `headers` (lists of pairs), `partition`, `timestamp`
        (milliseconds) and, if `topic` is None, `topic`. `offset_callbacks` maps the indexes of records to functions
        that receive the offsets of these records before `commit` returns.
        """
        topics = {topic} if topic is not None else set(columns["topic"])
        if self._target.topic in topics:
            raise StoreError(OWN_OFFSETS)
        needs_smaller_batches = self._limits.needs_smaller_batches(topics)
        producer = self._begin()
        try:
            records = _iterate_records(topic, columns)
            if needs_smaller_batches:
                records = self._limits.flush_at_limits(records, partial(self._flush, producer))
            for number, (record_topic, value, key, fields) in enumerate(
                self._attach_callbacks(records, offset_callbacks) if offset_callbacks else records
            ):
                self._send(producer, record_topic, value, key, fields)
                if not number % _RECORDS_PER_POLL:
                    producer.poll(0)
        except (KafkaException, ValueError, TypeError) as exc:
            raise self._abort_after(exc) from exc
        self._count += len(columns["value"])

    def commit(self, offsets: Mapping[SourcePartition, Offset | None]) -> int:
        """Add the offsets and commit; return the number of records in the transaction. Raises like `write`."""
        producer, target = self._begin(), self._target
        deleted_offsets = {partition: None for partition, offset in offsets.items() if offset is None}
        stored_offsets = {partition: offset for partition, offset in offsets.items() if offset is not None}
        try:
            for key, value in target.pairs(offsets):
                self._send(producer, target.topic, value, key, {})
            if deleted_offsets and target.delete_copies is not None:
                target.delete_copies(deleted_offsets)
            self._retry_call(producer.commit_transaction)
        except (KafkaException, StoreError) as exc:
            raise self._abort_after(exc) from exc
        count, self._count, self._is_open = self._count, 0, False
        if stored_offsets and target.on_stored is not None:
            target.on_stored(stored_offsets)
        return count

    def abort(self) -> None:
        """Abort the open transaction. Raises StoreUnavailable if that fails."""
        producer = self._require_producer()
        try:
            self._retry_call(producer.abort_transaction, _ABORT_TIMEOUT_S)
        except KafkaException as exc:
            self._must_abort = True
            raise StoreUnavailable(
                f"a transaction cannot be aborted: {self._last_error.append_to(exc)}"
            ) from exc
        self._is_open = self._must_abort = False
        self._count = 0
        self._delivery_error = None

    def cancel(self) -> None:
        """Make blocking calls return promptly. Thread-safe."""
        self._is_cancelled = True

    def close(self) -> None:
        """Abort the open transaction, and close the connection."""
        producer, self._producer = self._producer, None
        if producer is not None and (self._is_open or self._must_abort):
            with suppress(KafkaException):  # the producer is fenced, or the next claim aborts the transaction
                producer.abort_transaction(_CLOSE_TIMEOUT_S)

    # -- one transaction -----------------------------------------------------------------------------------

    def _require_producer(self) -> Producer:
        if self._producer is None:
            raise StoreError(f"the producer of task {self._task} is closed")
        return self._producer

    def _begin(self) -> Producer:
        producer = self._require_producer()
        if self._must_abort:
            self.abort()
        if not self._is_open:
            try:
                producer.begin_transaction()
            except KafkaException as exc:
                raise self._abort_after(exc) from exc
            self._is_open, self._count, self._delivery_error = True, 0, None
            self._limits.reset()
            self._began_s = time.monotonic()
        return producer

    def _send(
        self,
        producer: Producer,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        fields: Mapping[str, Any],
    ) -> None:
        while True:
            try:
                producer.produce(topic, value, key, **fields)
            except BufferError:  # the queue is full, so send the queued records first
                producer.poll(_FULL_QUEUE_WAIT_S)
                if self._is_cancelled:
                    raise KafkaException(KafkaError(KafkaError._QUEUE_FULL)) from None  # noqa: SLF001 - a local error
            except KafkaException as exc:
                if error_code(exc) == KafkaError.MSG_SIZE_TOO_LARGE:
                    self._failed_record = topic, record_size((topic, value, key, fields))
                raise
            else:
                return

    def _flush(self, producer: Producer) -> None:
        """Wait until all queued records are sent. Raises KafkaException if a record failed, or on `cancel`."""
        while producer.flush(_POLL_INTERVAL_S) and not self._is_cancelled:
            pass
        if self._delivery_error is not None or self._is_cancelled:
            raise KafkaException(self._delivery_error or KafkaError(KafkaError._QUEUE_FULL))  # noqa: SLF001 - local

    def _retry_call(self, call: Callable[[float], None], timeout_s: float | None = None) -> None:
        """Repeat a call on retriable errors, such as timeouts. Raises KafkaException."""
        began_s = time.monotonic()
        while True:
            try:
                call(_POLL_INTERVAL_S)
            except KafkaException as exc:
                error = _client_error(exc)
                has_timed_out = timeout_s is not None and time.monotonic() - began_s >= timeout_s
                if error is None or not error.retriable() or error.txn_requires_abort():
                    raise
                if has_timed_out or self._is_cancelled:
                    raise
            else:
                return

    def _abort_after(self, exc: BaseException) -> StoreError:
        """Abort the transaction if possible; return the exception to raise."""
        error = _client_error(exc)
        if self._producer is not None:
            self._producer.poll(0)  # calls `_on_delivery` with the failed record and its error
        cause = self._delivery_error or error
        has_expired = self._is_open and time.monotonic() - self._began_s >= self._timeout_s
        reason = cause.str() if cause is not None else str(exc)
        may_fit_smaller_batches = False
        if cause is not None and cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            may_fit_smaller_batches, reason = self._explain_too_large()
        elif self._delivery_error is not None and self._delivery_error.code() == KafkaError._MSG_TIMED_OUT:
            explanation = self._explain_refusal(self._failed_record[0])
            reason = f"{reason}: {explanation}" if explanation else reason
        message = f"Failed to flush offsets and/or records for task {self._task}: {self._last_error.append_to(reason)}"
        if error is not None and (error.fatal() or error.code() in _FENCED_CODES):
            self._is_open = self._must_abort = False
            if error.code() not in _FENCED_CODES:
                return StoreError(message)
            return Fenced(_expiry_message(self._task) if has_expired else FENCED)
        if self._is_open or self._must_abort:
            try:
                self.abort()
            except StoreUnavailable as abort_error:
                log.warning("%s: %s", self._task, abort_error)
                if abort_error.__cause__ is not None and error_code(abort_error.__cause__) in _FENCED_CODES:
                    return Fenced(_expiry_message(self._task) if has_expired else FENCED)
        is_permanent = (
            not isinstance(exc, StoreUnavailable)
            if cause is None
            else cause.code() in _PERMANENT_CODES and not may_fit_smaller_batches
        )
        return StoreError(message) if is_permanent else StoreUnavailable(message)

    def _attach_callbacks(
        self, records: Iterable[Record], offset_callbacks: Mapping[int, Callable[[int], None]]
    ) -> Iterator[Record]:
        """Yield the records, and attach the offset callbacks to the delivery reports of their records."""
        for number, (topic, value, key, fields) in enumerate(records):
            if number in offset_callbacks:
                on_delivery = partial(self._report_offset, offset_callbacks[number])
                yield topic, value, key, {**fields, "on_delivery": on_delivery}
            else:
                yield topic, value, key, fields

    def _report_offset(
        self, callback: Callable[[int], None], error: KafkaError | None, message: Message
    ) -> None:
        self._on_delivery(error, message)
        offset = message.offset()
        if error is None and offset is not None and offset >= 0:
            callback(offset)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Store the first failed delivery, whose error is more specific than the transaction's."""
        if error is None or error.code() in _PURGED_CODES:
            return
        if self._delivery_error is None:
            size = len(message.value() or b"") + len(message.key() or b"")
            self._delivery_error, self._failed_record = error, (message.topic() or "", size)

    def _explain_too_large(self) -> tuple[bool, str]:
        """Return whether smaller batches may succeed, and why the failed record was rejected."""
        topic, size = self._failed_record
        if self._delivery_error is None:
            limit = self._settings.get(LIBRDKAFKA_NAME)
            return False, too_large_for_producer(topic, size, limit, f"producer.override.{MAX_REQUEST_SIZE}")
        if self._limits.reduce_limit(topic, size):
            return (
                True,
                f"the brokers rejected a batch for the topic {topic!r} as too large; trying smaller batches",
            )
        return False, too_large_for_topic(topic, size, self._limits.topic_limit(topic))


def _iterate_records(topic: str | None, columns: Mapping[str, Sequence[Any]]) -> Iterator[Record]:
    """Yield the topic, value, key and other fields of each record; records without other fields share one mapping."""
    values = columns["value"]
    topics = columns["topic"] if topic is None else repeat(topic, len(values))
    keys = columns.get("key") or repeat(None, len(values))
    names = [name for name in ("headers", "partition", "timestamp") if name in columns]
    if not names:
        yield from zip(topics, values, keys, repeat({}), strict=False)
        return
    for record_topic, value, key, *extra_values in zip(
        topics, values, keys, *(columns[field] for field in names), strict=False
    ):
        extras = {field: extra for field, extra in zip(names, extra_values, strict=True) if extra is not None}
        yield record_topic, value, key, extras


def _client_error(exc: BaseException) -> KafkaError | None:
    if isinstance(exc, KafkaException) and exc.args and isinstance(exc.args[0], KafkaError):
        return exc.args[0]
    return None


def _expiry_message(task: TaskId) -> str:
    return (
        f"The task {task} was unable to finish writing records to Kafka before its producer transaction expired. It "
        "may be necessary to reconfigure this connector in order for it to run healthily with exactly-once support. "
        "Options for this include: tune the connector's producer configuration for higher throughput, increase the "
        "transaction timeout for the connector's producers, decrease the offset commit interval (if using "
        "interval-based transaction boundaries), or use the 'poll' transaction boundary (if the connector is not "
        "already configured to use it)."
    )

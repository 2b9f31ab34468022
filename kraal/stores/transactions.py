"""A source task's transactional producer (KIP-618): its records, and the offsets they came from, or neither.

A transaction begins with the first record, and ends with the offsets. When anything goes wrong in it, it is aborted:
a reader of committed records never sees it. StoreAway then says that the same may be done again, as while a broker is
away, and StoreError that it would fail again. Fenced says that a newer producer has the transactional id, which is that
of the same task wherever it runs; or that the transaction took longer than brokers wait for one.
Source: ExactlyOnceWorkerSourceTask, Worker.exactlyOnceSourceTaskProducerConfigs (Kafka 4.3.0); contract 6.6.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kraal.errors import Fenced, StoreAway, StoreError
from kraal.ids import TaskId
from kraal.offsets import Offset, SourcePartition
from kraal.stores.kafka_settings import LastWord, Settings, code
from kraal.stores.kafka_writer import Pair

log = logging.getLogger(__name__)

FENCED: Final = "There is a newer producer with the same transactionalId which fences the current one."
OWN_OFFSETS: Final = (
    "Source tasks may not produce to their own offsets topics when exactly-once support is enabled"
)
_STEP_S: Final = 2.0
"""One wait for brokers; between two it is looked whether the task was given up."""
_ABORT_S: Final = 10.0
_CLOSE_S: Final = 2.0
_FULL_S: Final = 0.1
_SERVED: Final = 10_000
"""After so many records the producer is asked what it has to say."""

_NEWER: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}  # noqa: SLF001 - librdkafka's spelling
)
_TAKEN_BACK: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001 - as above
_HOPELESS: Final = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.POLICY_VIOLATION,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._INVALID_ARG,  # noqa: SLF001 - as above
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - as above
    }
)
"""What is the same however often one tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTarget:
    """Where a connector's offsets go."""

    topic: str
    pairs: Callable[[Mapping[SourcePartition, Offset | None]], Sequence[Pair]]
    """Makes their records."""
    stored: Callable[[Mapping[SourcePartition, Offset | None]], None] | None = None
    """Told what is committed; must not raise."""


class TaskProducer:
    """One task's producer. One thread at a time, `give_up` excepted; calls block."""

    def __init__(self, settings: Settings, said: LastWord, task: TaskId, target: OffsetTarget) -> None:
        """`settings`: librdkafka's, with transactional id; nothing connects yet."""
        self._settings = {**settings, "delivery.report.only.error": True, "on_delivery": self._delivered}
        self._said = said
        self._task = task
        self._target = target
        self._timeout_s = int(settings["transaction.timeout.ms"]) / 1000
        self._producer: Producer | None = None
        self._given_up = False
        self._is_open = self._must_abort = False
        self._began_s = 0.0
        self._count = 0
        self._undelivered: KafkaError | None = None

    @property
    def is_open(self) -> bool:
        """Whether there are records that are not committed yet."""
        return self._is_open and not self._must_abort

    def claim(self, timeout_s: float) -> None:
        """Fence every older producer of the task, here or elsewhere. Raises StoreAway, StoreError."""
        try:
            producer = Producer(self._settings)
            producer.init_transactions(timeout_s)
        except KafkaException as exc:
            text = f"cannot begin to write in transactions for task {self._task}: {self._said.added_to(exc)}"
            raise StoreError(text) if code(exc) in _HOPELESS else StoreAway(text) from exc
        self._producer = producer

    def write(self, topic: str | None, columns: Mapping[str, Sequence[Any]]) -> None:
        """Send records in the open transaction, or in one that begins. Raises Fenced, StoreAway, StoreError.

        `columns`: `value` at least, of `key`, `headers` (lists of pairs), `partition`, `timestamp` (milliseconds) those
        that there are, and `topic`, unless all go to the topic that is given.
        """
        if self._target.topic in ({topic} if topic is not None else set(columns["topic"])):
            raise StoreError(OWN_OFFSETS)
        producer = self._begin()
        try:
            for number, (name, value, key, rest) in enumerate(_records(topic, columns)):
                self._send(producer, name, value, key, rest)
                if not number % _SERVED:
                    producer.poll(0)
        except (KafkaException, ValueError, TypeError) as exc:
            raise self._failed(exc) from exc
        self._count += len(columns["value"])

    def commit(self, offsets: Mapping[SourcePartition, Offset | None]) -> int:
        """Add the offsets and commit; return how many records the transaction had. Raises as `write`."""
        producer = self._begin()
        try:
            for key, value in self._target.pairs(offsets):
                self._send(producer, self._target.topic, value, key, {})
            self._patiently(producer.commit_transaction)
        except KafkaException as exc:
            raise self._failed(exc) from exc
        count, self._count, self._is_open = self._count, 0, False
        if self._target.stored is not None:
            self._target.stored(offsets)
        return count

    def abort(self) -> None:
        """Take back what is not committed. Raises StoreAway while that cannot be done."""
        producer = self._claimed()
        try:
            self._patiently(producer.abort_transaction, _ABORT_S)
        except KafkaException as exc:
            self._must_abort = True
            raise StoreAway(f"a transaction cannot be aborted: {self._said.added_to(exc)}") from exc
        self._is_open = self._must_abort = False
        self._count = 0
        self._undelivered = None

    def give_up(self) -> None:
        """End what blocks, soon. Any thread."""
        self._given_up = True

    def close(self) -> None:
        """Take back what is not committed, and let go of the connection."""
        producer, self._producer = self._producer, None
        if producer is not None and (self._is_open or self._must_abort):
            with suppress(KafkaException):  # a fenced one has nothing to abort; the next claim does it else
                producer.abort_transaction(_CLOSE_S)

    # -- one transaction -----------------------------------------------------------------------------------

    def _claimed(self) -> Producer:
        if self._producer is None:
            raise StoreError(f"the producer of task {self._task} is closed")
        return self._producer

    def _begin(self) -> Producer:
        producer = self._claimed()
        if self._must_abort:
            self.abort()
        if not self._is_open:
            try:
                producer.begin_transaction()
            except KafkaException as exc:
                raise self._failed(exc) from exc
            self._is_open, self._count, self._undelivered = True, 0, None
            self._began_s = time.monotonic()
        return producer

    def _send(
        self, producer: Producer, topic: str, value: bytes | None, key: bytes | None, rest: Mapping[str, Any]
    ) -> None:
        while True:
            try:
                producer.produce(topic, value, key, **rest)
            except BufferError:  # its queue is full: it has to send first
                producer.poll(_FULL_S)
                if self._given_up:
                    raise KafkaException(KafkaError(KafkaError._QUEUE_FULL)) from None  # noqa: SLF001 - as above
            else:
                return

    def _patiently(self, call: Callable[[float], None], at_most_s: float | None = None) -> None:
        """Call until brokers have answered; a call that timed out is to be made again. Raises KafkaException."""
        began_s = time.monotonic()
        while True:
            try:
                call(_STEP_S)
            except KafkaException as exc:
                error = _error(exc)
                over = at_most_s is not None and time.monotonic() - began_s >= at_most_s
                if error is None or not error.retriable() or error.txn_requires_abort():
                    raise
                if over or self._given_up:
                    raise
            else:
                return

    def _failed(self, exc: BaseException) -> StoreError:
        """Abort, if that can be done; return what to raise."""
        error = _error(exc)
        if self._producer is not None:
            self._producer.poll(0)  # which record it was, and why
        cause = self._undelivered or error
        expired = self._is_open and time.monotonic() - self._began_s >= self._timeout_s
        reason = cause.str() if cause is not None else str(exc)
        told = f"Failed to flush offsets and/or records for task {self._task}: {self._said.added_to(reason)}"
        if error is not None and (error.fatal() or error.code() in _NEWER):
            self._is_open = self._must_abort = False
            if error.code() not in _NEWER:
                return StoreError(told)
            return Fenced(_expired(self._task) if expired else FENCED)
        if self._is_open or self._must_abort:
            try:
                self.abort()
            except StoreAway as away:
                log.warning("%s: %s", self._task, away)
                if away.__cause__ is not None and code(away.__cause__) in _NEWER:
                    return Fenced(_expired(self._task) if expired else FENCED)
        hopeless = cause is None or cause.code() in _HOPELESS
        return StoreError(told) if hopeless else StoreAway(told)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        """Take note of the first record that did not arrive: it says more than the transaction's own error."""
        del message
        if error is not None and error.code() not in _TAKEN_BACK:
            self._undelivered = self._undelivered or error


def _records(
    topic: str | None, columns: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, bytes | None, bytes | None, Mapping[str, Any]]]:
    """Yield topic, value, key and whatever else of each record; nothing is built for records without it."""
    values = columns["value"]
    topics = columns["topic"] if topic is None else repeat(topic, len(values))
    keys = columns.get("key") or repeat(None, len(values))
    names = [name for name in ("headers", "partition", "timestamp") if name in columns]
    if not names:
        yield from zip(topics, values, keys, repeat({}), strict=False)
        return
    for name, value, key, *others in zip(
        topics, values, keys, *(columns[each] for each in names), strict=False
    ):
        rest = {each: other for each, other in zip(names, others, strict=True) if other is not None}
        yield name, value, key, rest


def _error(exc: BaseException) -> KafkaError | None:
    if isinstance(exc, KafkaException) and exc.args and isinstance(exc.args[0], KafkaError):
        return exc.args[0]
    return None


def _expired(task: TaskId) -> str:
    return (
        f"The task {task} was unable to finish writing records to Kafka before its producer transaction expired. It "
        "may be necessary to reconfigure this connector in order for it to run healthily with exactly-once support. "
        "Options for this include: tune the connector's producer configuration for higher throughput, increase the "
        "transaction timeout for the connector's producers, decrease the offset commit interval (if using "
        "interval-based transaction boundaries), or use the 'poll' transaction boundary (if the connector is not "
        "already configured to use it)."
    )

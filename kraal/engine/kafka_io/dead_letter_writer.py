"""Creates the dead letter topic of a task if it is missing, and writes the dead letters of sinks.

Dead letters keep the timestamps of their records, so a separate client writes them instead of Spark. The dead letters
of a source are written with its batch (`kraal.engine.records.source_pass`).
Source: DeadLetterQueueReporter, Worker.sinkTaskReporters (Kafka 4.4.0); KIP-298.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kraal.config.clients.keys import Client
from kraal.config.clients.layers import bootstrap, merge_layers
from kraal.config.clients.librdkafka import librdkafka_options
from kraal.config.clients.record_size import (
    DEFAULT_BYTES,
    LIBRDKAFKA_NAME,
    MAX_REQUEST_SIZE,
    too_large_for_producer,
    too_large_for_topic,
)
from kraal.config.connector.sink import DEAD_LETTERS, DLQ_TOPIC
from kraal.core.ids import TaskId
from kraal.core.kafka_errors import RETRIABLE, UNKNOWN_TOPIC
from kraal.core.message_headers import replace_nul
from kraal.engine.kafka_io.message_limits import read_limits
from kraal.engine.kafka_io.topic_state import describe_write_failure
from kraal.engine.records.source_pass import DeadTopic
from kraal.plugins.api import RetriableError

log = logging.getLogger(__name__)

_ADMIN_TIMEOUT_S: Final = 20.0
_WRITE_TIMEOUT_S: Final = 60.0
_DELIVERY_TIMEOUT_MS: Final = "30000"
_DEFAULT_BATCH_BYTES: Final = 16_384
"""Java's default of `batch.size`, which is used for a topic whose `max.message.bytes` is unknown."""
_RECORD_OVERHEAD_BYTES: Final = 100
"""Upper bound for the overhead of a record and its batch in Kafka's format."""
_RETRIABLE_CODES = (
    RETRIABLE
    | UNKNOWN_TOPIC  # a new topic that is not propagated to all brokers yet
    | {
        ck.KafkaError._MSG_TIMED_OUT,
        ck.KafkaError._PURGE_QUEUE,  # noqa: SLF001
        ck.KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        ck.KafkaError.NOT_LEADER_FOR_PARTITION,
        ck.KafkaError.NOT_ENOUGH_REPLICAS,
    }
)
"""Codes of transient errors."""


class DeadLettersFailed(Exception):
    """The dead letter topic cannot be created or written to, and a retry would fail as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterTopic:
    """The dead letter settings of a connector."""

    name: str
    replication_factor: int
    with_context: bool
    """Whether to add headers that describe the error."""

    def of_source(self, task: TaskId) -> DeadTopic:
        """Return the settings for the pass of a source task."""
        return DeadTopic(
            name=self.name, with_context=self.with_context, connector=task.connector, task=task.task
        )


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be processed: its unchanged key and value, and the headers to write."""

    headers: Sequence[tuple[str, bytes | None]]
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None

    @property
    def size(self) -> int:
        """The approximate size in bytes, without the overhead of the record and its batch."""
        headers_size = sum(len(name) + len(text or b"") + 10 for name, text in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers_size


def read_dead_letter_topic(config: Mapping[str, str]) -> DeadLetterTopic | None:
    """Parse the config of a connector; return None if dead letters are disabled. Raises ConfigInvalid."""
    parsed_config = DEAD_LETTERS.parse(config)
    name = str(parsed_config[DLQ_TOPIC] or "").strip()
    if not name:
        return None
    return DeadLetterTopic(
        name=name,
        replication_factor=int(str(parsed_config["errors.deadletterqueue.topic.replication.factor"])),
        with_context=parsed_config["errors.deadletterqueue.context.headers.enable"] is True,
    )


class DeadLetters:
    """Writes the dead letters of a task. Not thread-safe, except for `cancel`; methods block."""

    def __init__(
        self, topic: DeadLetterTopic, task: TaskId, worker: Mapping[str, str], connector: Mapping[str, str]
    ) -> None:
        self.topic = topic
        self.is_ready = False
        """Whether the topic is known to exist."""
        self._task = task
        self._worker = worker
        self._connector = connector
        self._admin_id = f"connector-dlq-adminclient-{task}"
        self._producer: Any = None
        self._limit: int | None = None
        """`max.message.bytes` of the topic; None if unknown."""
        self._cancelled = threading.Event()

    def prepare(self) -> None:
        """Create the topic if it is missing. Raises RetriableError and DeadLettersFailed."""
        name = self.topic.name
        settings = self._settings("admin", self._admin_id)
        try:
            admin: Any = AdminClient(settings)
            if name not in admin.list_topics(timeout=_ADMIN_TIMEOUT_S).topics:
                log.info("%s: Creating the dead letter queue topic %s", self._task, name)
                topic = NewTopic(name, 1, self.topic.replication_factor)
                admin.create_topics([topic], request_timeout=_ADMIN_TIMEOUT_S)[name].result(
                    _ADMIN_TIMEOUT_S + 5
                )
        except ck.KafkaException as exc:
            error = exc.args[0]
            if error.code() != ck.KafkaError.TOPIC_ALREADY_EXISTS:
                text = f"Could not initialize dead letter queue with topic={name}: {error.str()}"
                raise _as_error(error, text) from None  # the text contains the error
        self._limit = read_limits(settings, [name]).get(name)
        self.is_ready = True

    def write(self, letters: Sequence[DeadLetter]) -> None:
        """Write dead letters, and wait for their acknowledgements. Raises RetriableError and DeadLettersFailed."""
        if not letters:
            return
        if self._producer is None:
            self._producer = ck.Producer(self._settings("producer", f"connector-dlq-producer-{self._task}"))
        failures: list[Any] = []
        max_letter_size = max(letter.size for letter in letters)

        def on_delivery(error: Any, message: Any) -> None:
            del message
            if error is not None:
                failures.append(error)

        deadline_s = time.monotonic() + _WRITE_TIMEOUT_S
        queued_bytes, max_bytes = 0, _DEFAULT_BATCH_BYTES if self._limit is None else self._limit
        for letter in letters:
            queued_bytes += letter.size + _RECORD_OVERHEAD_BYTES
            if queued_bytes > max_bytes:  # librdkafka does not split a batch that is too large for the topic
                self._flush(failures, deadline_s)
                queued_bytes = letter.size + _RECORD_OVERHEAD_BYTES
            self._produce(letter, on_delivery, deadline_s)
        self._flush(failures, deadline_s)
        if failures:
            self._producer.purge()
            self._producer.flush(1)
            reason = failures[0].str()
            if failures[0].code() == ck.KafkaError.MSG_SIZE_TOO_LARGE:
                reason = too_large_for_topic(self.topic.name, max_letter_size, self._limit)
            elif failures[0].code() == ck.KafkaError._MSG_TIMED_OUT:
                state = describe_write_failure(self._settings("admin", self._admin_id), self.topic.name)
                reason = f"{reason}: {state}" if state else reason
            text = f"dead letters could not be written to {self.topic.name}: {reason}"
            raise _as_error(failures[0], text)

    def cancel(self) -> None:
        """Make a running write return promptly."""
        self._cancelled.set()

    def close(self) -> None:
        """Close the client."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(0.1)

    def _flush(self, failures: Sequence[Any], deadline_s: float) -> None:
        """Wait until all queued dead letters are acknowledged or one has failed. Raises RetriableError."""
        while len(self._producer) and not failures:
            self._poll(deadline_s)

    def _produce(self, letter: DeadLetter, on_delivery: Any, deadline_s: float) -> None:
        timestamp_option = {} if letter.timestamp_ms is None else {"timestamp": letter.timestamp_ms}
        while True:
            try:
                self._producer.produce(
                    self.topic.name,
                    key=letter.key,
                    value=letter.value,
                    headers=replace_nul(letter.headers),
                    on_delivery=on_delivery,
                    **timestamp_option,
                )
            except BufferError:
                self._poll(deadline_s)
            except ck.KafkaException as exc:
                reason = exc.args[0].str()
                if exc.args[0].code() == ck.KafkaError.MSG_SIZE_TOO_LARGE:
                    key = f"producer.override.{MAX_REQUEST_SIZE}"
                    limit = self._settings("producer", "")[LIBRDKAFKA_NAME]
                    reason = too_large_for_producer(self.topic.name, letter.size, limit, key)
                raise _as_error(exc.args[0], f"cannot write a dead letter: {reason}") from None
            else:
                self._producer.poll(0)
                return

    def _poll(self, deadline_s: float) -> None:
        self._producer.flush(0.1)
        if self._cancelled.is_set() or time.monotonic() > deadline_s:
            self._producer.purge()
            self._producer.flush(1)
            raise RetriableError(
                f"failed to write dead letters to {self.topic.name} within {_WRITE_TIMEOUT_S:.0f} s"
            )

    def _settings(self, client: Client, client_id: str) -> dict[str, Any]:
        overrides = merge_layers(self._worker, self._connector, client)

        def key_name(key: str) -> str:
            candidates = (f"{client}.override.{key}", f"{client}.{key}")
            return next((n for n in candidates if n in self._connector or n in self._worker), key)

        defaults = {"client.id": client_id}
        if client == "producer":
            defaults |= {"acks": "all", "delivery.timeout.ms": _DELIVERY_TIMEOUT_MS}
            defaults["linger.ms"] = "200"  # a flush ignores this delay, and sends one batch
            # A retried batch must not be written after a later one. Source: Worker.baseProducerConfigs (Kafka 4.4.0).
            defaults["max.in.flight.requests.per.connection"] = "1"
            defaults[MAX_REQUEST_SIZE] = DEFAULT_BYTES
        settings: dict[str, Any] = dict(librdkafka_options(defaults | overrides, key_name))
        settings["bootstrap.servers"] = bootstrap(self._worker, self._connector, client)
        if client == "producer":
            settings["partitioner"] = "murmur2_random"  # as in Java
        settings["log_level"] = 2
        return settings


def _as_error(error: Any, text: str) -> Exception:
    """Return the exception for a client's error."""
    if error.code() in _RETRIABLE_CODES or error.retriable():
        return RetriableError(text)
    return DeadLettersFailed(text)

"""Kafka client that counts, reads and replays dead letters.

All calls block. Failures raise KafkaUnavailable with a message.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import confluent_kafka as ck
from confluent_kafka.admin import (  # type: ignore[attr-defined] # documented in this module
    AdminClient,
    ConfigResource,
    ResourceType,
)

from kraal.config.clients.librdkafka import librdkafka_options
from kraal.config.clients.record_size import (
    LIBRDKAFKA_DEFAULT,
    LIBRDKAFKA_NAME,
    MAX_REQUEST_SIZE,
    too_large_for_producer,
    too_large_for_topic,
)
from kraal.core.errors import StoreError
from kraal.core.message_headers import find_nul, read_headers
from kraal.dead_letters.api import KafkaUnavailable, OffsetRange
from kraal.dead_letters.records import DeadLetter, Target
from kraal.kafka.settings import LastClientError, client_settings, error_code

if TYPE_CHECKING:
    from kraal.dead_letters.malformed_headers import HeaderReader

REQUEST_TIMEOUT_S: Final = 20.0
WRITE_TIMEOUT_S: Final = 60.0
_CLIENT_ID: Final = "kraal-dlq"
_IGNORED_KEYS: Final = frozenset(
    {"group.id", "client.id", "transactional.id", "group.instance.id", "auto.offset.reset"}
)
"""Client configs that are ignored, because this client sets or does not need them."""


class Kafka:
    """Connection to a Kafka cluster. Use as a context manager."""

    def __init__(
        self,
        settings: Mapping[str, str],
        *,
        producer: Mapping[str, str] | None = None,
        admin: Mapping[str, str] | None = None,
        request_timeout_s: float | None = None,
        write_timeout_s: float | None = None,
        internal: frozenset[str] | None = None,
    ) -> None:
        """Set the configs of the clients, which connect on first use. Raises ConfigInvalid.

        Args:
            settings: configs of the consumer, including `bootstrap.servers`. They are also the defaults of the next two
                arguments.
            producer: configs of the producer.
            admin: configs of the admin client.
            request_timeout_s: timeout of each response, and of the next record of a partition. Default: 20 s.
            write_timeout_s: timeout until written records are acknowledged. Default: 60 s.
            internal: internal topics of the Connect cluster; None if they are unknown.
        """
        self.address = settings["bootstrap.servers"]
        self._settings = settings
        self.internal = internal
        self._consumer_options = _to_librdkafka_options(settings)
        self._producer_options = (
            self._consumer_options if producer is None else _to_librdkafka_options(producer)
        )
        self._admin_options = self._consumer_options if admin is None else _to_librdkafka_options(admin)
        self._request_timeout_s = REQUEST_TIMEOUT_S if request_timeout_s is None else request_timeout_s
        self._write_timeout_s = WRITE_TIMEOUT_S if write_timeout_s is None else write_timeout_s
        self._last_error = LastClientError()

    def __enter__(self) -> Self:
        """Return the client, which connects on first use."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close open connections."""
        if "_consumer" in vars(self):
            self._consumer.close()
        if "_header_reader" in vars(self):
            self._header_reader.close()

    @cached_property
    def partitions(self) -> Mapping[str, int]:
        """Number of partitions by topic. Raises KafkaUnavailable."""
        try:
            metadata = self._admin.list_topics(timeout=self._request_timeout_s)
        except ck.KafkaException as exc:
            raise self._to_error("failed to list topics", exc) from exc
        return {name: len(topic.partitions) for name, topic in metadata.topics.items()}

    def compacted_topics(self, topics: Collection[str]) -> set[str]:
        """Return the topics that are compacted. Raises KafkaUnavailable."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        try:
            futures = (
                self._admin.describe_configs(resources, request_timeout=self._request_timeout_s)
                if resources
                else {}
            )
            return {
                resource.name
                for resource, future in futures.items()
                if "compact" in future.result(self._request_timeout_s + 5)["cleanup.policy"].value
            }
        except (ck.KafkaException, TimeoutError) as exc:
            raise self._to_error("failed to describe topics", exc) from exc

    def spans(self, topic: str) -> dict[int, OffsetRange]:
        """Return the offset range of each partition; empty if the topic does not exist. Raises KafkaUnavailable."""
        consumer = self._consumer
        try:
            return {
                number: OffsetRange(
                    *consumer.get_watermark_offsets(
                        ck.TopicPartition(topic, number), timeout=self._request_timeout_s
                    )
                )
                for number in range(self.partitions.get(topic, 0))
            }
        except (ck.KafkaException, TypeError) as exc:  # TypeError: the offsets are None after a timeout
            raise self._to_error(f"failed to list offsets of topic {topic}", exc) from exc

    def committed_offsets(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets of a group by partition. Raises KafkaUnavailable."""
        partitions = [ck.TopicPartition(topic, number) for number in range(self.partitions.get(topic, 0))]
        action = f"failed to fetch the committed offsets of group {group}"
        results = self._request_group(self._admin.list_consumer_group_offsets, group, partitions, action)
        return {partition.partition: partition.offset for partition in results if partition.offset >= 0}

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of a group. Raises KafkaUnavailable."""
        partitions = [ck.TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        action = f"failed to commit the offsets of group {group}"
        self._request_group(self._admin.alter_consumer_group_offsets, group, partitions, action)

    def _request_group(
        self, request: Any, group: str, partitions: Sequence[Any], action: str
    ) -> Sequence[Any]:
        """Send a request for the offsets of a group without joining it."""
        try:
            futures = request(
                [ck.ConsumerGroupTopicPartitions(group, list(partitions))],
                request_timeout=self._request_timeout_s,
            )
            results: Sequence[Any] = futures[group].result(self._request_timeout_s + 5).topic_partitions
        except (ck.KafkaException, TimeoutError) as exc:
            raise self._to_error(action, exc) from exc
        for partition in results:
            if partition.error is not None:
                raise self._to_error(action, partition.error)
        return results

    def read(self, topic: str, spans: Mapping[int, OffsetRange]) -> Iterator[DeadLetter]:
        """Yield the records of the spans in offset order, one partition after another. Raises KafkaUnavailable."""
        consumer = self._consumer
        for number, span in sorted(spans.items()):
            if span.count:
                consumer.assign([ck.TopicPartition(topic, number, span.first)])
                yield from self._read_partition(consumer, topic, number, span)
        consumer.unassign()

    def _read_partition(
        self, consumer: Any, topic: str, number: int, span: OffsetRange
    ) -> Iterator[DeadLetter]:
        deadline_s = time.monotonic() + self._request_timeout_s
        while True:
            message = consumer.poll(0.2)
            if message is None:
                if time.monotonic() > deadline_s:
                    raise self._to_error(
                        f"returned no records of {topic}-{number} for {self._request_timeout_s:.0f} s", ""
                    )
                continue
            deadline_s = time.monotonic() + self._request_timeout_s
            if (error := message.error()) is not None:
                if error.code() == ck.KafkaError._PARTITION_EOF:
                    return
                raise self._to_error(f"failed to read {topic}-{number}", error)
            if message.offset() >= span.end:
                return
            yield self._to_letter(message)
            if message.offset() + 1 >= span.end:
                return

    def _to_letter(self, message: Any) -> DeadLetter:
        kind, timestamp_ms = message.timestamp()
        return DeadLetter(
            topic=message.topic(),
            partition=message.partition(),
            offset=message.offset(),
            timestamp_ms=None if kind == ck.TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
            key=message.key(),
            value=message.value(),
            headers=tuple(self._read_headers(message)),
        )

    def _read_headers(self, message: Any) -> Sequence[tuple[str, bytes | None]]:
        """Return a record's headers, read again by `_header_reader` if a header name is not valid UTF-8."""
        if (headers := read_headers(message)) is not None:
            return headers
        try:
            return self._header_reader.read(message.topic(), message.partition(), message.offset())
        except StoreError as exc:
            raise KafkaUnavailable(f"Kafka at {self.address} {exc}") from exc

    def write(self, letters: Sequence[tuple[DeadLetter, Target]]) -> None:
        """Write dead letters to their targets without the error headers, and wait until all are acknowledged.

        Raises KafkaUnavailable. In this case, some dead letters may have been written. None is written if a header name
        contains NUL, because the producer would truncate the name.
        """
        for letter, _ in letters:
            if (header := find_nul(name for name, _ in letter.original_headers)) is not None:
                reason = f"the header name {header!r} of {letter.topic}-{letter.partition}@{letter.offset} contains NUL"
                raise self._to_error("failed to write all letters", reason)
        producer = self._producer
        failures: list[Any] = []

        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                failures.append(_delivery_error(error, message))

        try:
            for letter, target in letters:
                self._produce(producer, letter, target, on_delivery)
            unacknowledged_count = producer.flush(self._write_timeout_s)
        except (ck.KafkaException, BufferError) as exc:
            raise self._to_error("failed to write all letters", exc) from exc
        if failures or unacknowledged_count:
            cause = (
                failures[0]
                if failures
                else f"{unacknowledged_count} not acknowledged within {self._write_timeout_s:.0f} s"
            )
            raise self._to_error("failed to write all letters", cause)

    def _produce(self, producer: Any, letter: DeadLetter, target: Target, on_delivery: Any) -> None:
        partition_options = {} if target.partition is None else {"partition": target.partition}
        timestamp_options = {} if letter.timestamp_ms is None else {"timestamp": letter.timestamp_ms}
        try:
            producer.produce(
                target.topic,
                key=letter.key,
                value=letter.value,
                headers=letter.original_headers,
                on_delivery=on_delivery,
                **partition_options,
                **timestamp_options,
            )
        except ck.KafkaException as exc:
            if error_code(exc) != ck.KafkaError.MSG_SIZE_TOO_LARGE:
                raise
            limit = (LIBRDKAFKA_DEFAULT | self._producer_options)[LIBRDKAFKA_NAME]
            size = len(letter.key or b"") + len(letter.value or b"")
            reason = too_large_for_producer(target.topic, size, limit, f"producer.{MAX_REQUEST_SIZE}")
            raise self._to_error("failed to write all letters", reason) from exc

    @cached_property
    def _producer(self) -> Any:
        settings = client_settings(
            {**LIBRDKAFKA_DEFAULT, **self._producer_options}, _CLIENT_ID, self._last_error
        )
        return self._make_client(
            ck.Producer,
            {**settings, "acks": "all", "enable.idempotence": "true", "partitioner": "murmur2_random"},
        )

    @cached_property
    def _consumer(self) -> Any:
        overrides = {
            "group.id": _CLIENT_ID,  # required by librdkafka; the consumer neither subscribes nor commits
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "enable.partition.eof": "true",
            "auto.offset.reset": "earliest",  # records deleted by retention are skipped
            "allow.auto.create.topics": "false",
            "queued.max.messages.kbytes": "16384",
        }
        return self._make_client(
            ck.Consumer,
            {**client_settings(self._consumer_options, _CLIENT_ID, self._last_error), **overrides},
        )

    @cached_property
    def _header_reader(self) -> HeaderReader:
        from kraal.dead_letters.malformed_headers import HeaderReader  # noqa: PLC0415 - rarely used

        settings = {key: value for key, value in self._settings.items() if key not in _IGNORED_KEYS}
        return HeaderReader({**settings, "client.id": _CLIENT_ID}, self._request_timeout_s)

    @cached_property
    def _admin(self) -> Any:
        return self._make_client(
            AdminClient, client_settings(self._admin_options, _CLIENT_ID, self._last_error)
        )

    def _make_client(self, kind: Any, settings: Mapping[str, Any]) -> Any:
        try:
            return kind(dict(settings))
        except (ck.KafkaException, ValueError) as exc:
            raise self._to_error("cannot be used with these client configs", exc) from exc

    def _to_error(self, action: str, cause: object) -> KafkaUnavailable:
        reason = self._last_error.append_to(cause) if cause else ""
        return KafkaUnavailable(f"Kafka at {self.address} {action}" + (f": {reason}" if reason else ""))


def _to_librdkafka_options(settings: Mapping[str, str]) -> dict[str, str]:
    return librdkafka_options({key: value for key, value in settings.items() if key not in _IGNORED_KEYS})


def _delivery_error(error: Any, message: Any) -> object:
    if error.code() != ck.KafkaError.MSG_SIZE_TOO_LARGE:
        return error
    return too_large_for_topic(message.topic(), len(message.key() or b"") + len(message.value() or b""), None)

"""Functions that read all records of a topic or write new ones, for tests and demos."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kraal.config.clients.record_size import LIBRDKAFKA_DEFAULT
from kraal.jars.errors import BrokerError

_POLL_INTERVAL_S = 0.2
_NO_LEADER_CODES = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecord:
    """A record of a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    """The timestamp in milliseconds since the epoch."""


def read_topic(bootstrap: str, topic: str, *, timeout_s: float) -> list[BrokerRecord]:
    """Return all current records of a topic, ordered by partition and offset; empty if the topic does not exist.

    Blocks for at most about `timeout_s`. Joins no group. Raises BrokerError if the broker does not respond in time.
    """
    deadline = time.monotonic() + timeout_s
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "kraal-testing",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        ends = _list_ends(consumer, topic, timeout_s, deadline)
        return _read_to_ends(consumer, topic, ends, deadline)
    except KafkaException as exc:
        raise BrokerError(f"Failed to read topic {topic} at {bootstrap}: {exc}") from exc
    finally:
        consumer.close()


def write_topic(
    bootstrap: str, topic: str, values: Iterable[bytes | None], *, key: bytes | None = None, timeout_s: float
) -> None:
    """Write a record for each value and wait until all are acknowledged. Raises BrokerError on errors and timeouts."""
    errors: list[KafkaError] = []
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    producer = Producer({**LIBRDKAFKA_DEFAULT, **settings})

    def on_delivery(error: KafkaError | None, _: object) -> None:
        if error is not None:
            errors.append(error)

    for value in values:
        producer.produce(topic, key=key, value=value, on_delivery=on_delivery)
    unacknowledged_count = producer.flush(timeout_s)
    if unacknowledged_count or errors:
        timeout = f"{unacknowledged_count} records were not acknowledged within {timeout_s:g} s"
        reason = errors[0] if errors else timeout
        raise BrokerError(f"Failed to write all records to topic {topic} at {bootstrap}: {reason}")


def _to_record(message: Message) -> BrokerRecord:
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return BrokerRecord(
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        key=message.key(),
        value=message.value(),
        headers=tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs),
        timestamp_ms=message.timestamp()[1],
    )


def _list_ends(consumer: Consumer, topic: str, timeout_s: float, deadline: float) -> dict[int, int]:
    metadata = consumer.list_topics(topic, timeout=timeout_s).topics.get(topic)
    if metadata is None or metadata.error is not None:
        return {}
    ends = {}
    for number in sorted(metadata.partitions):
        low, high = _list_watermarks(consumer, TopicPartition(topic, number), timeout_s, deadline)
        if high > low:
            ends[number] = high
    return ends


def _list_watermarks(
    consumer: Consumer, partition: TopicPartition, timeout_s: float, deadline: float
) -> tuple[int, int]:
    """Return a partition's watermarks; retry while a new topic has no leader."""
    while True:
        try:
            return consumer.get_watermark_offsets(partition, timeout=timeout_s)
        except KafkaException as exc:
            if exc.args[0].code() not in _NO_LEADER_CODES or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_INTERVAL_S)


def _read_to_ends(
    consumer: Consumer, topic: str, ends: dict[int, int], deadline: float
) -> list[BrokerRecord]:
    """Return the records before the offsets in `ends`, sorted by partition and offset.

    Compares positions with `ends`, because the last offsets may be those of transaction markers.
    """
    records: list[BrokerRecord] = []
    remaining_ends = dict(ends)
    consumer.assign([TopicPartition(topic, number, 0) for number in ends])
    while remaining_ends:
        if time.monotonic() > deadline:
            raise BrokerError(
                f"Timed out reading topic {topic}; unfinished partitions: {sorted(remaining_ends)}."
            )
        messages = consumer.consume(500, _POLL_INTERVAL_S)
        records += [_to_record(message) for message in messages if message.error() is None]
        for position in consumer.position([TopicPartition(topic, number) for number in remaining_ends]):
            if position.offset >= remaining_ends[position.partition]:
                del remaining_ends[position.partition]
    return sorted(records, key=lambda record: (record.partition, record.offset))

"""Kafka clients for scripts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from scripts.harness.processes import ScriptFailed

REQUEST_TIMEOUT_S = 10.0


def create_topic(
    bootstrap: str, topic: str, config: Mapping[str, str] | None = None, *, partitions: int = 1
) -> None:
    """Create a topic, and wait until the broker has created it. Raises ScriptFailed."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    new_topic = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
    future = admin.create_topics([new_topic])[topic]
    try:
        future.result(30)
    except KafkaException as exc:
        raise ScriptFailed(f"Failed to create the topic {topic}: {exc}") from exc


class Reader:
    """A consumer of a topic's only partition, without a consumer group."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        """Create the consumer without reading."""
        self._partition = TopicPartition(topic, 0)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "scripts",  # required by the library; nothing is subscribed or committed
                "enable.auto.commit": False,
                "enable.partition.eof": False,
                "isolation.level": "read_committed",  # the library's default; `end` relies on it
                "log_level": 2,
            }
        )

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def end(self) -> int:
        """Return the offset after the last record and before any open transaction; 0 if the offset cannot be queried.

        Transaction markers also occupy offsets.
        """
        try:
            offsets = self._consumer.get_watermark_offsets(
                self._partition, timeout=REQUEST_TIMEOUT_S, cached=False
            )
        except KafkaException:
            return 0
        return offsets[1] if offsets else 0

    def seek(self, offset: int) -> None:
        """Continue reading at `offset`."""
        self._consumer.assign([TopicPartition(self._partition.topic, 0, offset)])

    def next(self, timeout_s: float) -> bytes | None:
        """Return the value of the next record, or None on a timeout."""
        message = self._consumer.poll(timeout_s)
        if message is None:
            return None
        if (error := message.error()) is not None:
            raise ScriptFailed(f"Failed to read the topic {self._partition.topic}: {error}")
        return message.value()

    def sha256(self, count: int) -> str:
        """Return the SHA-256 of the first `count` values in order, each followed by a line feed."""
        self.seek(0)
        digest, count_read = hashlib.sha256(), 0
        while count_read < count:
            messages = self._consumer.consume(min(10_000, count - count_read), timeout=REQUEST_TIMEOUT_S)
            if not messages:
                raise ScriptFailed(
                    f"Only {count_read} of {count} records were read from {self._partition.topic}."
                )
            digest.update(b"".join((message.value() or b"") + b"\n" for message in messages))
            count_read += len(messages)
        return digest.hexdigest()

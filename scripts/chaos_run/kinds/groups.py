"""Consumer groups and topics, as a client of Kafka sees them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from scripts.chaos_run.pipes import Pipe

REQUEST_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.1
_CLIENT: Final = "chaos"
"""The range assignor serves members by their ids, which start so: before those of the product's."""


def get_group(pipe: Pipe) -> str:
    """Return the consumer group of a pipe's sink."""
    return f"connect-{pipe.name}-sink"


def ends(bootstrap: str, pipe: Pipe) -> dict[int, int]:
    """Return where each partition of a pipe's topic ends. Raises KafkaException."""
    consumer = _consumer(bootstrap, get_group(pipe))
    try:
        return {
            part.partition: consumer.get_watermark_offsets(part, timeout=REQUEST_TIMEOUT_S, cached=False)[1]
            for part in _partitions(pipe)
        }
    finally:
        consumer.close()


def committed(bootstrap: str, pipe: Pipe) -> dict[int, int]:
    """Return what the group of a pipe's sink has committed; -1 where it has not. Raises KafkaException."""
    consumer = _consumer(bootstrap, get_group(pipe))
    try:
        partitions = consumer.committed(_partitions(pipe), timeout=REQUEST_TIMEOUT_S)
        return {part.partition: max(part.offset, -1) for part in partitions}
    finally:
        consumer.close()


class Intruder:
    """One more member of the group of a pipe's sink, which takes a partition and commits nothing."""

    def __init__(self, bootstrap: str, pipe: Pipe) -> None:
        """Join; `assigned` says when that is done."""
        self._assigned: list[TopicPartition] = []
        self._consumer = _consumer(bootstrap, get_group(pipe))
        self._consumer.subscribe([pipe.name], on_assign=self._on_assign)

    def assigned(self) -> bool:
        """Serve the group for a moment; return whether there is a partition."""
        if not self._assigned:
            self._consumer.consume(1, _POLL_S)
        return bool(self._assigned)

    def read(self, most: int, seconds: float) -> Sequence[Message]:
        """Return the next records of the first partition, from what the group has committed."""
        place = self._assigned[0]
        [start] = self._consumer.committed([place], timeout=REQUEST_TIMEOUT_S)
        self._consumer.assign([TopicPartition(place.topic, place.partition, max(start.offset, 0))])
        messages: list[Message] = []
        deadline_s = time.monotonic() + seconds
        while len(messages) < most and time.monotonic() < deadline_s:
            batch = self._consumer.consume(most - len(messages), _POLL_S)
            messages += [
                each for each in batch if each.error() is None and each.partition() == place.partition
            ]
        return messages

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _on_assign(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        del consumer
        self._assigned = sorted(parts, key=lambda part: part.partition)


def _partitions(pipe: Pipe) -> list[TopicPartition]:
    return [TopicPartition(pipe.name, number) for number in range(pipe.partitions)]


def _consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": _CLIENT,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 1000,
            "log_level": 0,
        }
    )

"""Reads the state of consumer groups and topics through a Kafka client."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from scripts.chaos_run.pipes import Pipe

REQUEST_TIMEOUT_S: Final = 10.0
_POLL_TIMEOUT_S: Final = 0.1
_CLIENT_ID: Final = "chaos"
"""Prefix of member ids. It sorts before the ids of Kraal's members; the range assignor orders members by id."""


def get_group(pipe: Pipe) -> str:
    """Return the consumer group of a pipe's sink."""
    return f"connect-{pipe.name}-sink"


def get_end_offsets(bootstrap: str, pipe: Pipe) -> dict[int, int]:
    """Return the end offset of each partition of a pipe's topic. Raises KafkaException."""
    consumer = _create_consumer(bootstrap, get_group(pipe))
    try:
        return {
            partition.partition: consumer.get_watermark_offsets(
                partition, timeout=REQUEST_TIMEOUT_S, cached=False
            )[1]
            for partition in _list_partitions(pipe)
        }
    finally:
        consumer.close()


def get_committed(bootstrap: str, pipe: Pipe) -> dict[int, int]:
    """Return the committed offset of each partition of a pipe's topic; -1 if none. Raises KafkaException."""
    consumer = _create_consumer(bootstrap, get_group(pipe))
    try:
        partitions = consumer.committed(_list_partitions(pipe), timeout=REQUEST_TIMEOUT_S)
        return {partition.partition: max(partition.offset, -1) for partition in partitions}
    finally:
        consumer.close()


class AdditionalMember:
    """An additional member of the group of a pipe's sink. The member reads a partition, but commits nothing."""

    def __init__(self, bootstrap: str, pipe: Pipe) -> None:
        """Start joining the group; the join is complete when `has_assignment` returns True."""
        self._assigned: list[TopicPartition] = []
        self._consumer = _create_consumer(bootstrap, get_group(pipe))
        self._consumer.subscribe([pipe.name], on_assign=self._on_assign)

    def has_assignment(self) -> bool:
        """Poll the group once; return whether a partition is assigned."""
        if not self._assigned:
            self._consumer.consume(1, _POLL_TIMEOUT_S)
        return bool(self._assigned)

    def read(self, max_records: int, seconds: float) -> Sequence[Message]:
        """Return up to `max_records` records of the first assigned partition from the committed offset on."""
        assigned = self._assigned[0]
        [start] = self._consumer.committed([assigned], timeout=REQUEST_TIMEOUT_S)
        self._consumer.assign([TopicPartition(assigned.topic, assigned.partition, max(start.offset, 0))])
        messages: list[Message] = []
        deadline_s = time.monotonic() + seconds
        while len(messages) < max_records and time.monotonic() < deadline_s:
            batch = self._consumer.consume(max_records - len(messages), _POLL_TIMEOUT_S)
            messages += [
                message
                for message in batch
                if message.error() is None and message.partition() == assigned.partition
            ]
        return messages

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        del consumer
        self._assigned = sorted(partitions, key=lambda partition: partition.partition)


def _list_partitions(pipe: Pipe) -> list[TopicPartition]:
    return [TopicPartition(pipe.name, number) for number in range(pipe.partitions)]


def _create_consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": _CLIENT_ID,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 1000,
            "log_level": 0,
        }
    )

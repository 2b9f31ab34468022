"""Requests of a sink's group member for topics and offsets, which do not depend on the group."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import confluent_kafka as ck

from kraal.core.kafka_errors import NOT_AUTHENTICATED
from kraal.engine.sink.ranges import Bounds
from kraal.plugins.api import RetriableError, TopicPartition

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
FATAL_CODES = NOT_AUTHENTICATED | {
    ck.KafkaError.TOPIC_AUTHORIZATION_FAILED,
    ck.KafkaError.GROUP_AUTHORIZATION_FAILED,
    ck.KafkaError.TOPIC_EXCEPTION,
    ck.KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    ck.KafkaError._FATAL,  # noqa: SLF001 - librdkafka's local errors have this prefix
}
"""Codes of errors that a retry cannot resolve."""
_MISSING_PARTITION_CODES = frozenset(
    {ck.KafkaError.UNKNOWN_TOPIC_OR_PART, ck.KafkaError._UNKNOWN_PARTITION}  # noqa: SLF001 - as above
)


class MemberFailed(Exception):
    """The group coordinator or a broker rejects the member permanently."""


def as_error(error: Any) -> Exception:
    """Return the exception for a client's error: MemberFailed if the error is permanent, otherwise RetriableError."""
    cause = error.args[0]
    if cause.code() in FATAL_CODES or cause.fatal():
        return MemberFailed(cause.str())
    return RetriableError(cause.str())


class BrokerQueries:
    """The requests of one client. Methods block, and raise RetriableError and MemberFailed."""

    def __init__(self, group: str, consumer: Any) -> None:
        self.group = group
        self.assigned: frozenset[TopicPartition] = frozenset()
        self._consumer = consumer

    def topics(self) -> Collection[str]:
        """Return the names of all topics that the client is authorized to describe."""
        try:
            topics: dict[str, Any] = self._consumer.list_topics(timeout=TIMEOUT_S).topics
        except ck.KafkaException as error:
            raise as_error(error) from error
        return topics

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Return the partitions of topics."""
        partitions: list[TopicPartition] = []
        for topic in topics:
            try:
                metadata = self._consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
            except ck.KafkaException as error:
                raise as_error(error) from error
            if metadata.error is not None:
                raise as_error(ck.KafkaException(metadata.error))
            partitions += [TopicPartition(topic, number) for number in sorted(metadata.partitions)]
        return partitions

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return the offset range of each partition; missing partitions are omitted."""
        ranges: dict[TopicPartition, Bounds] = {}
        for partition in partitions:
            try:
                low, high = self._consumer.get_watermark_offsets(
                    ck.TopicPartition(partition.topic, partition.partition), timeout=TIMEOUT_S
                )
            except ck.KafkaException as error:
                if error.args[0].code() in _MISSING_PARTITION_CODES:
                    log.warning("%s: %s no longer exists", self.group, partition)
                    continue
                raise as_error(error) from error
            ranges[partition] = Bounds(low, high)
        return ranges

    def find_offset_since(self, partition: TopicPartition, age_ms: int) -> int | None:
        """Return the offset of the first record that is not older than `age_ms`; None if all records are older."""
        since_ms = max(0, int(time.time() * 1000) - age_ms)
        request = ck.TopicPartition(partition.topic, partition.partition, since_ms)
        try:
            (response,) = self._consumer.offsets_for_times([request], timeout=TIMEOUT_S)
        except ck.KafkaException as error:
            raise as_error(error) from error
        if response.error is not None:
            raise as_error(ck.KafkaException(response.error))
        offset: int = response.offset
        return offset if offset >= 0 else None

    def known_ends(self) -> dict[TopicPartition, int]:
        """Return the end offsets that fetch responses contained for assigned partitions. Sends no requests.

        Blocks while another thread is in a callback of the client.
        """
        ends: dict[TopicPartition, int] = {}
        for partition in self.assigned:
            ck_partition = ck.TopicPartition(partition.topic, partition.partition)
            with contextlib.suppress(ck.KafkaException, RuntimeError):  # not cached, or the client is closed
                ends[partition] = self._consumer.get_watermark_offsets(ck_partition, cached=True)[1]
        return {partition: end for partition, end in ends.items() if end >= 0}


@contextlib.contextmanager
def query_brokers(settings: Mapping[str, str | int | bool]) -> Iterator[BrokerQueries]:
    """Yield the requests of a client that does not join its group. `settings` are librdkafka's."""
    consumer = ck.Consumer(dict(settings))
    try:
        yield BrokerQueries(str(settings["group.id"]), consumer)
    finally:
        consumer.close()

"""Writes the offset-syncs topic, which maps the offsets of source records to the offsets of their copies.

MirrorCheckpointConnector reads this topic to translate the offsets of consumer groups. A consumer that has read up to a
synced record resumes after its copy; one that has read further resumes after the copy of the last synced record before
its position, and reads some records again. So with fewer syncs the translation is less precise, but no record is lost.
Source: OffsetSync, OffsetSyncWriter, MirrorSourceConfig.offsetSyncsTopic (Kafka 4.3.0).
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import confluent_kafka as ck

from kraal.config.clients.librdkafka import librdkafka_options
from kraal.config.clients.record_size import LIBRDKAFKA_DEFAULT
from kraal.connectors.mirror.config import make_sync_producer_settings
from kraal.connectors.mirror.topics import ReplicationPolicy
from kraal.core.errors import ConfigInvalid
from kraal.plugins.api import OffsetPair, OffsetTracking, TopicPartition

log = logging.getLogger(__name__)

PARTITION: Final = 0
"""The only partition of the topic."""
TOPIC_SETTINGS: Final = {"cleanup.policy": "compact"}
_FLUSH_TIMEOUT_S: Final = 3.0
"""Timeout of `close` for unwritten syncs."""
_WARN_INTERVAL_S: Final = 60.0
"""Minimum interval between two warnings."""


def serialize_key(tp: TopicPartition) -> bytes:
    """Return the record key of a sync: the source topic as a Kafka string, and the partition."""
    topic = tp.topic.encode()
    return struct.pack(f">h{len(topic)}si", len(topic), topic, tp.partition)


def serialize_value(pair: OffsetPair) -> bytes:
    """Return the record value of a sync: the offset in the source and the offset in the target."""
    return struct.pack(">qq", pair.source, pair.target)


def writes_syncs(parsed: Mapping[str, object]) -> bool:
    """Return whether a mirror with this config writes offset syncs."""
    return bool(parsed["emit.offset-syncs.enabled"])


def is_in_source(parsed: Mapping[str, object]) -> bool:
    """Return whether the offset-syncs topic is in the source cluster."""
    return parsed["offset-syncs.topic.location"] == "source"


def get_topic_name(parsed: Mapping[str, object], policy: ReplicationPolicy) -> str:
    """Return the name of the offset-syncs topic, which contains the alias of the other cluster."""
    separator, alias = policy.internal_separator, policy.target if is_in_source(parsed) else policy.alias
    return f"mm2-offset-syncs{separator}{alias}{separator}internal"


class OffsetSyncs:
    """Writes the offset syncs of one task. Not thread-safe. No method raises; only `close` may block."""

    def __init__(
        self, settings: Mapping[str, str], client_id: str, topic: str, source_topics: Mapping[str, str]
    ) -> None:
        """Set the producer settings, by the names of Kafka's Java client. Does not connect yet.

        `source_topics` maps topics of the target to their names in the source.
        """
        self._settings = settings
        self._client_id = client_id
        self._topic = topic
        self._source_topics = source_topics
        self._producer: Any = None
        self._is_closed = False
        self._last_warning_s: float | None = None
        self._last_reason = ""

    def connect(self) -> None:
        """Start to connect, so that the first syncs do not wait for the connection. Does not block."""
        self._connect()

    def write(self, pairs: Mapping[TopicPartition, Sequence[OffsetPair]]) -> None:
        """Send a sync for each pair. `pairs` maps partitions of the target to offset pairs."""
        producer = self._connect()
        if producer is None:
            return
        try:
            for target, offset_pairs in pairs.items():
                key = serialize_key(TopicPartition(self._source_topics[target.topic], target.partition))
                for pair in offset_pairs:
                    producer.produce(self._topic, serialize_value(pair), key, PARTITION)
            producer.poll(0)
        except (ck.KafkaException, BufferError) as exc:
            self._warn(exc)

    def report_unknown(self, reason: str) -> None:
        """Log a warning that the offsets of written records are unknown, unless `reason` equals the previous one."""
        if reason != self._last_reason:
            self._last_reason = reason
            log.warning("%s: Not writing offset syncs: %s", self._client_id, reason)

    def close(self) -> None:
        """Wait up to `_FLUSH_TIMEOUT_S` for unwritten syncs, and disconnect."""
        self._is_closed = True  # first, because an abandoned run may still call `write`
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.flush(_FLUSH_TIMEOUT_S)
            producer.purge()
            producer.flush(0)

    def _connect(self) -> Any:
        if self._producer is None and not self._is_closed:
            try:
                self._producer = ck.Producer(self._make_options(), logger=log)
            except (ConfigInvalid, ck.KafkaException) as exc:
                self._is_closed = True
                log.warning("%s: Not writing offset syncs: invalid settings: %s", self._client_id, exc)
        return self._producer

    def _make_options(self) -> dict[str, Any]:
        return {
            "client.id": self._client_id,
            **LIBRDKAFKA_DEFAULT,
            **librdkafka_options(self._settings),
            "acks": "all",
            "max.in.flight.requests.per.connection": 5,
            "enable.idempotence": True,  # a retried sync must not be written after a newer one
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: self._warn(error),
            "log_level": 2,
        }

    def _warn(self, error: object) -> None:
        now_s = time.monotonic()
        if self._last_warning_s is None or now_s >= self._last_warning_s + _WARN_INTERVAL_S:
            self._last_warning_s = now_s
            log.warning("%s: Failed to write offset syncs to %s: %s", self._client_id, self._topic, error)


def make_syncs(
    config: Mapping[str, str],
    parsed: Mapping[str, object],
    policy: ReplicationPolicy,
    partitions: Collection[TopicPartition],
    name: str,
) -> OffsetSyncs | None:
    """Return the offset sync writer of a task with these partitions; None if the config disables syncs."""
    if not writes_syncs(parsed):
        return None
    location = "source" if is_in_source(parsed) else "target"
    return OffsetSyncs(
        make_sync_producer_settings(config, location),
        f"{policy.alias}->{policy.target}|{name}|offset-syncs-{location}-producer",
        get_topic_name(parsed, policy),
        {policy.remote_topic(tp.topic): tp.topic for tp in partitions},
    )


def make_tracking(syncs: OffsetSyncs | None, parsed: Mapping[str, object]) -> OffsetTracking | None:
    """Return a tracking request whose offset pairs are written by `syncs`; None without `syncs`."""
    if syncs is None:
        return None
    return OffsetTracking(
        found=syncs.write, unknown=syncs.report_unknown, step=int(str(parsed["offset.lag.max"]))
    )

"""The offset-syncs topic: which offset in the target the copy of a source record has.

MirrorCheckpointConnector reads it to translate the offsets of consumer groups. A consumer that has read up to a synced
record continues after its copy; one that has read further continues after the copy of the last synced record before its
position, and reads some records again. So fewer syncs cost accuracy and never a record.
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
from kraal.connectors.mirror.config import sync_producer
from kraal.connectors.mirror.topics import Naming
from kraal.core.errors import ConfigInvalid
from kraal.plugins.api import OffsetPair, OffsetTracking, TopicPartition

log = logging.getLogger(__name__)

PARTITION: Final = 0
"""The partition of the topic, which has only one."""
SETTINGS: Final = {"cleanup.policy": "compact"}
_FLUSH_TIMEOUT_S: Final = 1.0
"""How long a stop waits for syncs that are not written yet."""
_WARN_INTERVAL_S: Final = 60.0
"""Minimum time between two warnings."""


def sync_key(place: TopicPartition) -> bytes:
    """Return the key of a sync's record: the source topic as a Kafka string, and the partition."""
    topic = place.topic.encode()
    return struct.pack(f">h{len(topic)}si", len(topic), topic, place.partition)


def sync_value(pair: OffsetPair) -> bytes:
    """Return the value of a sync's record: the offset in the source, and that in the target."""
    return struct.pack(">qq", pair.source, pair.target)


def is_written(parsed: Mapping[str, object]) -> bool:
    """Return whether a mirror with this config writes offset syncs."""
    return bool(parsed["emit.offset-syncs.enabled"])


def is_in_source(parsed: Mapping[str, object]) -> bool:
    """Return whether the topic is in the source cluster."""
    return parsed["offset-syncs.topic.location"] == "source"


def topic_name(parsed: Mapping[str, object], naming: Naming) -> str:
    """Return the topic's name, which contains the alias of the other cluster."""
    between, other = naming.internal_separator, naming.target if is_in_source(parsed) else naming.alias
    return f"mm2-offset-syncs{between}{other}{between}internal"


class OffsetSyncs:
    """Writes the offset syncs of one task. Not thread-safe; only `close` blocks, and no method raises."""

    def __init__(
        self, settings: Mapping[str, str], client_id: str, topic: str, origins: Mapping[str, str]
    ) -> None:
        """Take producer settings with Connect's names; does not connect yet.

        `origins`: the names in the source of topics of the target.
        """
        self._settings = settings
        self._client_id = client_id
        self._topic = topic
        self._origins = origins
        self._producer: Any = None
        self._is_over = False
        self._warned_s: float | None = None
        self._reason = ""

    def write(self, pairs: Mapping[TopicPartition, Sequence[OffsetPair]]) -> None:
        """Send syncs for pairs by partition of the target."""
        producer = self._connect()
        if producer is None:
            return
        try:
            for where, some in pairs.items():
                key = sync_key(TopicPartition(self._origins[where.topic], where.partition))
                for pair in some:
                    producer.produce(self._topic, sync_value(pair), key, PARTITION)
            producer.poll(0)
        except (ck.KafkaException, BufferError) as exc:
            self._warn(exc)

    def unknown(self, reason: str) -> None:
        """Warn that offsets of written records are not known, once for each reason."""
        if reason != self._reason:
            self._reason = reason
            log.warning("%s: Writing no offset syncs: %s", self._client_id, reason)

    def close(self) -> None:
        """Wait a moment for syncs that are not written yet, and disconnect."""
        self._is_over = True  # first: a run that was abandoned may still report
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.flush(_FLUSH_TIMEOUT_S)
            producer.purge()
            producer.flush(0)

    def _connect(self) -> Any:
        if self._producer is None and not self._is_over:
            try:
                self._producer = ck.Producer(self._options(), logger=log)
            except (ConfigInvalid, ck.KafkaException) as exc:
                self._is_over = True
                log.warning("%s: Writing no offset syncs: invalid settings: %s", self._client_id, exc)
        return self._producer

    def _options(self) -> dict[str, Any]:
        return {
            "client.id": self._client_id,
            **LIBRDKAFKA_DEFAULT,
            **librdkafka_options(self._settings),
            "acks": "all",
            "max.in.flight.requests.per.connection": 5,
            "enable.idempotence": True,  # a retried sync must not follow a newer one
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: self._warn(error),
            "log_level": 2,
        }

    def _warn(self, error: object) -> None:
        now_s = time.monotonic()
        if self._warned_s is None or now_s >= self._warned_s + _WARN_INTERVAL_S:
            self._warned_s = now_s
            log.warning("%s: Failed to write offset syncs to %s: %s", self._client_id, self._topic, error)


def make_syncs(
    config: Mapping[str, str],
    parsed: Mapping[str, object],
    naming: Naming,
    partitions: Collection[TopicPartition],
    name: str,
) -> OffsetSyncs | None:
    """Return the writer of a task with these partitions; None if the config disables syncs."""
    if not is_written(parsed):
        return None
    location = "source" if is_in_source(parsed) else "target"
    return OffsetSyncs(
        sync_producer(config, location),
        f"{naming.alias}->{naming.target}|{name}|offset-syncs-{location}-producer",
        topic_name(parsed, naming),
        {naming.remote(place.topic): place.topic for place in partitions},
    )


def make_tracking(syncs: OffsetSyncs | None, parsed: Mapping[str, object]) -> OffsetTracking | None:
    """Return the request for the offsets of written records, of which `syncs` are made."""
    if syncs is None:
        return None
    return OffsetTracking(found=syncs.write, unknown=syncs.unknown, step=int(str(parsed["offset.lag.max"])))

"""Offsets and transactional producers of source connectors on a worker with exactly-once support.

A connector's offsets are in the worker's topic, unless its config names another topic or other brokers. In that case,
the offsets are in the connector's own topic, which is created if it is missing, and are afterwards copied to the
worker's topic on a best-effort basis. Deletions are written to the worker's topic first, and fail if this write fails,
because an offset in the worker's topic is used if the connector's own topic has none.
Source: Worker.offsetStoreForExactlyOnceSourceTask, ConnectorOffsetBackingStore.set (Kafka 4.3.0, KAFKA-15018).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from kraal.config.clients.keys import Client
from kraal.config.clients.layers import SOURCE_PRODUCER, bootstrap, merge_layers
from kraal.config.clients.librdkafka import librdkafka_options
from kraal.config.clients.record_size import DEFAULT_BYTES, MAX_REQUEST_SIZE, TOPIC_LIMIT
from kraal.config.connector.source import OFFSETS_TOPIC
from kraal.core.errors import StoreError, StoreUnavailable, TopicUnusable
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.kafka.offset_store import KafkaOffsets
from kraal.kafka.settings import LastClientError, Settings, client_settings
from kraal.kafka.topics import InternalTopic, TopicAdmin, ensure_topics
from kraal.kafka.transactions import OffsetTarget, TaskProducer

log = logging.getLogger(__name__)

CLAIM_TIMEOUT_S: Final = 15.0
_MIN_IN_SYNC: Final = "min.insync.replicas"
_TRANSACTION_TIMEOUT_MS: Final = 60_000
"""Java's default."""
_SOCKET_TIMEOUT_MS: Final = 60_000
"""librdkafka's default; the maximum is 300,000, but transactions may last longer."""
_DEFAULTS: Final[Mapping[str, str]] = {
    **SOURCE_PRODUCER,
    MAX_REQUEST_SIZE: DEFAULT_BYTES,
}
"""The defaults of source producers that differ from Kafka's."""
_RESERVED_KEYS: Final = frozenset({"transactional.id", "enable.idempotence", "group.id", "client.id"})


@dataclass(frozen=True, slots=True)
class _OffsetTopic:
    """An offset topic other than the worker's own."""

    admin: TopicAdmin
    store: KafkaOffsets

    def close(self) -> None:
        self.store.close()
        self.admin.close()


class SourceTransactions:
    """Claims producers and reads offsets of source tasks. Thread-safe; calls block. Connects on first use."""

    def __init__(
        self,
        worker: Mapping[str, str],
        *,
        group_id: str,
        topic: InternalTopic,
        worker_offsets: KafkaOffsets,
        client_id_base: str,
        creates_topics: bool = True,
    ) -> None:
        """Create the object without connecting.

        Args:
            worker: the worker's resolved config.
            group_id: the worker's group, the prefix of transactional ids.
            topic: the worker's offset topic.
            worker_offsets: the offsets in the worker's topic; not closed here.
            client_id_base: the prefix of client ids.
            creates_topics: whether missing offset topics of connectors are created (KIP-1209).
        """
        self._worker = worker
        self._group_id = group_id
        self._topic = topic
        self._worker_offsets = worker_offsets
        self._client_id_base = client_id_base
        self._creates_topics = creates_topics
        self._lock = threading.Lock()
        self._offset_topics: dict[tuple[object, ...], _OffsetTopic] = {}

    def claim(self, task: TaskId, config: Mapping[str, str], *, tracks: bool = False) -> TaskProducer:
        """Return a new producer of a task, which has fenced all earlier producers.

        `config` is the connector's resolved config; `tracks` specifies whether the producer reports the offsets of
        records. Raises StoreUnavailable, StoreError, ConfigInvalid.
        """
        last_error = LastClientError()
        settings = producer_settings(self._worker, config, task, self._group_id, last_error)
        target = self._target(task.connector, config)
        producer = TaskProducer(
            settings,
            last_error,
            task,
            target,
            tracks=tracks,
            limit_of=partial(self._read_topic_limit, config),
            explain_refusal=partial(self._explain_refusal, config),
        )
        producer.claim(CLAIM_TIMEOUT_S)
        return producer

    def load(self, connector: ConnectorName, config: Mapping[str, str]) -> Mapping[SourcePartition, Offset]:
        """Return a connector's offsets; wait for open transactions first. Raises StoreUnavailable, StoreError."""
        offset_topic = self._offset_topic(config)
        offsets = self._worker_offsets.load(connector)
        return offsets if offset_topic is None else {**offsets, **offset_topic.store.load(connector)}

    def alter(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        offsets: Mapping[SourcePartition, Offset | None],
    ) -> None:
        """Store offsets in a transaction of the connector's first task, and thereby fence this task.

        A None value deletes the offset of that partition. Raises StoreError.
        Source: Worker.modifySourceConnectorOffsets.
        """
        producer = self.claim(TaskId(connector, 0), config)
        try:
            producer.commit(offsets)
        finally:
            producer.close()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            offset_topics, self._offset_topics = list(self._offset_topics.values()), {}
        for offset_topic in offset_topics:
            offset_topic.close()

    def _target(self, connector: ConnectorName, config: Mapping[str, str]) -> OffsetTarget:
        offset_topic = self._offset_topic(config)
        if offset_topic is None:
            return OffsetTarget(topic=self._topic.name, pairs=partial(self._worker_offsets.pairs, connector))
        return OffsetTarget(
            topic=config.get(OFFSETS_TOPIC) or self._topic.name,
            pairs=partial(offset_topic.store.pairs, connector),
            delete_copies=partial(self._delete_copies, connector),
            on_stored=partial(self._store_copies, connector),
        )

    def _read_topic_limit(self, config: Mapping[str, str], topic: str) -> int | None:
        """Return `max.message.bytes` of a topic; None if the setting is unknown."""
        with closing(self._topic_admin(config)) as admin:
            try:
                return int(admin.settings(topic)[TOPIC_LIMIT])
            except (StoreError, KeyError, ValueError) as exc:
                log.info("Failed to read %s of the topic %s: %r", TOPIC_LIMIT, topic, exc)
                return None

    def _explain_refusal(self, config: Mapping[str, str], topic: str) -> str:
        """Return the likely reason why brokers reject records for a topic, or an empty string."""
        with closing(self._topic_admin(config)) as admin:
            try:
                description = admin.describe(topic)
                min_in_sync = int(admin.settings(topic).get(_MIN_IN_SYNC, "1"))
            except (StoreError, ValueError) as exc:
                return str(exc)
        if description.in_sync >= min(min_in_sync, description.replicas):  # Partition.effectiveMinIsr
            return ""
        return (
            f"a partition of the topic {topic!r} has {description.in_sync} replicas in sync, fewer than "
            f"{_MIN_IN_SYNC}={min_in_sync} of the topic"
        )

    def _topic_admin(self, config: Mapping[str, str]) -> TopicAdmin:
        return TopicAdmin(
            self._options(config, "admin"), client_id=f"{self._client_id_base}source-topics-admin"
        )

    def _store_copies(
        self, connector: ConnectorName, offsets: Mapping[SourcePartition, Offset | None]
    ) -> None:
        try:
            self._worker_offsets.store({connector: offsets})
        except StoreError as exc:
            log.warning("Failed to copy offsets of %s to the worker's topic: %s", connector, exc)

    def _delete_copies(self, connector: ConnectorName, offsets: Mapping[SourcePartition, None]) -> None:
        """Delete offsets from the worker's topic. Raises StoreUnavailable, TopicUnusable."""
        try:
            self._worker_offsets.store({connector: offsets})
        except TopicUnusable:
            raise
        except StoreError as exc:
            raise StoreUnavailable(str(exc)) from exc

    def _offset_topic(self, config: Mapping[str, str]) -> _OffsetTopic | None:
        """Return a connector's own offset topic, which is created if necessary; None for the worker's topic.

        Raises StoreUnavailable, StoreError; TopicUnusable if the topic is missing and must not be created.
        """
        name = config.get(OFFSETS_TOPIC) or self._topic.name
        brokers = bootstrap(self._worker, config, "producer")
        worker_brokers = self._worker.get("bootstrap.servers", "")
        if name == self._topic.name and set(brokers.split(",")) == set(worker_brokers.split(",")):
            return None
        options = self._options(config, "consumer")
        key = (name, *sorted(options.items()))
        with self._lock:
            offset_topic = self._offset_topics.get(key)
        if offset_topic is not None:
            return offset_topic
        admin = TopicAdmin(
            self._options(config, "admin"), client_id=f"{self._client_id_base}source-offsets-admin"
        )
        try:
            topic = replace(self._topic, name=name, property=OFFSETS_TOPIC)
            ensure_topics(admin, [topic], create=self._creates_topics)
        except TopicUnusable:
            raise
        except StoreError as exc:
            raise StoreUnavailable(str(exc)) from exc
        new_topic = _OffsetTopic(
            admin,
            KafkaOffsets(
                name,
                options,
                client_id=f"{self._client_id_base}source-offsets",
                admin=admin,
                read_committed=True,
            ),
        )
        with self._lock:
            offset_topic = self._offset_topics.setdefault(key, new_topic)
        if offset_topic is not new_topic:
            new_topic.close()
        return offset_topic

    def _options(self, config: Mapping[str, str], client: Client) -> dict[str, str]:
        client_config = merge_layers(self._worker, config, client)
        client_config["bootstrap.servers"] = bootstrap(self._worker, config, client)
        options = librdkafka_options(client_config)
        return {key: value for key, value in options.items() if key not in ("group.id", "isolation.level")}


def producer_settings(
    worker: Mapping[str, str],
    connector: Mapping[str, str],
    task: TaskId,
    group_id: str,
    last_error: LastClientError,
) -> Settings:
    """Return librdkafka's settings for a task's transactional producer. Raises ConfigInvalid.

    librdkafka requires that no timeout of the producer exceeds the transaction timeout.
    """
    overrides = {
        k: v for k, v in merge_layers(worker, connector, "producer").items() if k not in _RESERVED_KEYS
    }
    client_config = {**_DEFAULTS, **overrides, "bootstrap.servers": bootstrap(worker, connector, "producer")}
    client_config.setdefault("transaction.timeout.ms", str(_TRANSACTION_TIMEOUT_MS))
    options: Settings = dict(librdkafka_options(client_config))
    transaction_timeout_ms = int(options["transaction.timeout.ms"])
    for name, default in (
        ("delivery.timeout.ms", transaction_timeout_ms),
        ("socket.timeout.ms", _SOCKET_TIMEOUT_MS),
    ):
        options[name] = str(
            min(int(options.get(name, default)) or transaction_timeout_ms, transaction_timeout_ms)
        )
    options["linger.ms"] = str(min(int(options["linger.ms"]), transaction_timeout_ms // 2))
    options["max.in.flight.requests.per.connection"] = str(
        min(int(options.get("max.in.flight.requests.per.connection", 5)), 5)
    )
    options |= {
        "acks": "all",
        "enable.idempotence": "true",
        "partitioner": "murmur2_random",
        "queue.buffering.max.messages": "1000000",
        "transactional.id": f"{group_id}-{task}",
    }
    return client_settings(options, f"connector-producer-{task}", last_error)

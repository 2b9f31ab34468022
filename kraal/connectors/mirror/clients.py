"""Clients of a mirror's two clusters. They use librdkafka to manage topics and to get the offsets of partitions.

Spark reads the records. `SourceClient` uses a consumer to detect new records: the fetch requests of the consumer
wait at the broker, so an idle task uses almost no resources and still detects new records immediately.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka.admin import (  # type: ignore[attr-defined] # documented, but not exported explicitly
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from kraal.config.clients.librdkafka import librdkafka_options
from kraal.core.kafka_errors import NOT_AUTHENTICATED, NOT_AUTHORIZED, UNKNOWN_TOPIC
from kraal.engine.sink.ranges import Bounds
from kraal.plugins.api import RetriableError, TopicPartition

log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 10.0
_SPECS: Final[Any] = OffsetSpec  # OffsetSpec has no type hints
_EARLIEST: Final = _SPECS.earliest()
_LATEST: Final = _SPECS.latest()
_ERROR_CODES: Final = ck.KafkaError
_REJECTED_CODES: Final = NOT_AUTHORIZED | NOT_AUTHENTICATED
_NOT_FOUND_CODES: Final = UNKNOWN_TOPIC | {ck.KafkaError._UNKNOWN_PARTITION}  # noqa: SLF001 - librdkafka's local errors have this prefix
_TOPIC_LEVEL: Final = ConfigSource.DYNAMIC_TOPIC_CONFIG.name


class MirrorRequestFailed(Exception):
    """Raised if a cluster rejects the client's authentication or denies access."""


class SourceClient:
    """One task's client of the source cluster. Not thread-safe."""

    def __init__(self, settings: Mapping[str, str], client_id: str) -> None:
        """Set the consumer settings, by the names of Kafka's Java client, without connecting. Raises ConfigInvalid."""
        consumer_settings = {key: value for key, value in settings.items() if key != "auto.offset.reset"}
        self._options = {"client.id": client_id, **librdkafka_options(consumer_settings), "log_level": 2}
        self._reads_committed = settings.get("isolation.level", "").lower() == "read_committed"
        self._admin: Any = None
        self._consumer: Any = None

    def fetch_bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return the beginning and end offsets of partitions; partitions that do not exist are omitted.

        Raises RetriableError, MirrorRequestFailed.
        """
        beginning_offsets = self._list_offsets(partitions, _EARLIEST)
        end_offsets = self._list_offsets(partitions, _LATEST)
        return {
            tp: Bounds(beginning_offset, end_offsets[tp])
            for tp, beginning_offset in beginning_offsets.items()
            if tp in end_offsets
        }

    def find_offset_since(self, partition: TopicPartition, age_ms: int) -> int | None:
        """Return the offset of the first record that is not older than `age_ms`; None if all records are older.

        Raises RetriableError, MirrorRequestFailed.
        """
        since_ms = max(0, int(time.time() * 1000) - age_ms)
        tp = ck.TopicPartition(partition.topic, partition.partition, since_ms)
        try:
            (result,) = self._connect().offsets_for_times([tp], timeout=_TIMEOUT_S)
        except ck.KafkaException as exc:
            raise _translate_error(exc) from exc
        if result.error is not None:
            raise _translate_error(ck.KafkaException(result.error))
        offset: int = result.offset
        return offset if offset >= 0 else None

    def watch(self, positions: Mapping[TopicPartition, int]) -> None:
        """Start to watch for records at these positions."""
        self._connect().assign(
            [ck.TopicPartition(tp.topic, tp.partition, offset) for tp, offset in positions.items()]
        )

    def has_new_records(self) -> bool | None:
        """Return whether there are new records, without blocking; None if the consumer reports an error.

        Denied access to the consumer's group is ignored, because the consumer never joins the group.
        """
        if self._consumer is None:
            return False
        message = self._consumer.poll(0)
        if message is None:
            return False
        error = message.error()
        if error is None:
            return True
        log.debug("Error of a mirror's consumer: %s", error.str())
        return None if error.code() != _ERROR_CODES.GROUP_AUTHORIZATION_FAILED else False

    def close(self) -> None:
        """Disconnect from the cluster."""
        consumer, self._consumer, self._admin = self._consumer, None, None
        if consumer is not None:
            consumer.close()

    def _connect(self) -> Any:
        if self._consumer is None:
            self._consumer = ck.Consumer(
                {
                    "group.id": "kraal-mirror",  # required by librdkafka; the group is never joined
                    **self._options,
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "error",
                    "queued.min.messages": 1,
                    "fetch.message.max.bytes": 1024,
                },
                logger=log,
            )
        return self._consumer

    def _list_offsets(
        self, partitions: Collection[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        if self._admin is None:
            self._admin = AdminClient(_select_admin_options(self._options))
        level = (
            ck.IsolationLevel.READ_COMMITTED if self._reads_committed else ck.IsolationLevel.READ_UNCOMMITTED
        )
        specs = {ck.TopicPartition(tp.topic, tp.partition): spec for tp in partitions}
        futures = self._admin.list_offsets(specs, isolation_level=level, request_timeout=_TIMEOUT_S)
        offsets: dict[TopicPartition, int] = {}
        for tp, future in futures.items():
            try:
                offset = _wait_for_result(future, _TIMEOUT_S)
            except ck.KafkaException as exc:
                if _get_error_code(exc) in _NOT_FOUND_CODES:
                    continue
                self._admin = None  # the client may never reconnect
                raise _translate_error(exc) from exc
            if offset.offset < 0:  # librdkafka returns this if no broker responded
                self._admin = None
                raise RetriableError("no broker of the source cluster responded in time")
            offsets[TopicPartition(tp.topic, tp.partition)] = offset.offset
        return offsets


class ClusterTopics:
    """The topics of one cluster; creates an admin client for each request because requests are rare."""

    def __init__(self, settings: Mapping[str, str], timeout_s: float) -> None:
        """Set the admin client settings, by the names of Kafka's Java client. Raises ConfigInvalid."""
        self._options = _select_admin_options({**librdkafka_options(settings), "log_level": 2})
        self._timeout_s = timeout_s

    def count_partitions(self) -> dict[str, int]:
        """Return the number of partitions of each topic. Raises RetriableError, MirrorRequestFailed."""
        admin = AdminClient(self._options)
        try:
            metadata = admin.list_topics(timeout=self._timeout_s)
        except ck.KafkaException as exc:
            raise _translate_error(exc) from exc
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None}

    def describe_settings(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        """Return the settings configured on each of the topics. Raises RetriableError, MirrorRequestFailed."""
        admin = AdminClient(self._options)
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        settings: dict[str, dict[str, str]] = {}
        for resource, future in admin.describe_configs(resources, request_timeout=self._timeout_s).items():
            try:
                entries = _wait_for_result(future, self._timeout_s)
            except ck.KafkaException as exc:
                raise _translate_error(exc) from exc
            settings[resource.name] = {
                name: entry.value
                for name, entry in entries.items()
                if ConfigSource(entry.source).name == _TOPIC_LEVEL
                and entry.value is not None
                and not entry.is_sensitive
            }
        return settings

    def create_topics(
        self, counts: Mapping[str, int], factor: int, topic_configs: Mapping[str, Mapping[str, str]]
    ) -> dict[str, str]:
        """Create topics; return the errors by topic. A topic that already exists is not an error."""
        new_topics = [
            NewTopic(
                name,
                num_partitions=count,
                replication_factor=factor,
                config=dict(topic_configs.get(name, {})),
            )
            for name, count in counts.items()
        ]
        admin: Any = AdminClient(self._options)  # referenced until the futures complete
        timeout_s = self._timeout_s
        futures = admin.create_topics(new_topics, operation_timeout=timeout_s, request_timeout=timeout_s)
        return self._collect_errors(futures, _ERROR_CODES.TOPIC_ALREADY_EXISTS)

    def add_partitions(self, counts: Mapping[str, int]) -> dict[str, str]:
        """Increase the number of partitions of each topic to its count in `counts`; return the errors by topic.

        A rejected count is ignored, because the topic may already have that many partitions.
        """
        new_partitions = [NewPartitions(name, count) for name, count in counts.items()]
        admin: Any = AdminClient(self._options)  # referenced until the futures complete
        timeout_s = self._timeout_s
        futures = admin.create_partitions(
            new_partitions, operation_timeout=timeout_s, request_timeout=timeout_s
        )
        return self._collect_errors(futures, _ERROR_CODES.INVALID_PARTITIONS)

    def _collect_errors(self, futures: Mapping[str, Future[Any]], tolerated_code: int) -> dict[str, str]:
        errors: dict[str, str] = {}
        for name, future in futures.items():
            try:
                _wait_for_result(future, self._timeout_s)
            except ck.KafkaException as exc:
                if _get_error_code(exc) != tolerated_code:
                    errors[name] = exc.args[0].str()
            except RetriableError as exc:
                errors[name] = str(exc)
        return errors


def _select_admin_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a client's options without consumer options, for which an admin client logs warnings."""
    consumer_prefixes = (
        "group.",
        "fetch.",
        "queued.",
        "auto.",
        "enable.auto",
        "isolation.",
        "session.",
        "heartbeat.",
        "max.poll",
    )
    return {key: value for key, value in options.items() if not key.startswith(consumer_prefixes)}


def _wait_for_result(future: Future[Any], timeout_s: float) -> Any:
    try:
        return future.result(timeout_s + 1)
    except TimeoutError as exc:
        raise RetriableError(f"no broker responded within {timeout_s:g} s") from exc


def _get_error_code(error: ck.KafkaException) -> int:
    code: int = error.args[0].code()
    return code


def _translate_error(error: ck.KafkaException) -> Exception:
    text = error.args[0].str()
    return MirrorRequestFailed(text) if _get_error_code(error) in _REJECTED_CODES else RetriableError(text)

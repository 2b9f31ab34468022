"""A mirror's clients of its two clusters, on librdkafka: list topics, get the offsets of partitions, create topics.

Spark reads the records. `SourceClient` has a consumer only for notification of new records: its fetch requests wait at
the broker, so an idle task costs almost nothing and still learns of new records immediately.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka.admin import (  # type: ignore[attr-defined] # they are documented there
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
_SPECS: Final[Any] = OffsetSpec  # has no type hints
_EARLIEST: Final = _SPECS.earliest()
_LATEST: Final = _SPECS.latest()
_CODE: Final = ck.KafkaError
_REFUSED: Final = NOT_AUTHORIZED | NOT_AUTHENTICATED
_MISSING: Final = UNKNOWN_TOPIC | {ck.KafkaError._UNKNOWN_PARTITION}  # noqa: SLF001 - librdkafka's own are spelled so
_TOPIC_LEVEL: Final = ConfigSource.DYNAMIC_TOPIC_CONFIG.name


class MirrorRequestFailed(Exception):
    """Raised if a cluster rejects this client or denies it access to topics."""


class SourceClient:
    """One task's client of the source cluster. Not thread-safe."""

    def __init__(self, settings: Mapping[str, str], client_id: str) -> None:
        """Take consumer settings with Connect's names; does not connect yet. Raises ConfigInvalid."""
        consumer_settings = {key: value for key, value in settings.items() if key != "auto.offset.reset"}
        self._options = {"client.id": client_id, **librdkafka_options(consumer_settings), "log_level": 2}
        self._committed = settings.get("isolation.level", "").lower() == "read_committed"
        self._admin: Any = None
        self._consumer: Any = None

    def bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return the first and end offsets of partitions, without those that do not exist.

        Raises RetriableError, MirrorRequestFailed.
        """
        lows = self._offsets(partitions, _EARLIEST)
        highs = self._offsets(partitions, _LATEST)
        return {place: Bounds(low, highs[place]) for place, low in lows.items() if place in highs}

    def first_since(self, partition: TopicPartition, age_ms: int) -> int | None:
        """Return the offset of the first record that is at most this old; None if there is none.

        Raises RetriableError, MirrorRequestFailed.
        """
        since_ms = max(0, int(time.time() * 1000) - age_ms)
        place = ck.TopicPartition(partition.topic, partition.partition, since_ms)
        try:
            (answer,) = self._connect().offsets_for_times([place], timeout=_TIMEOUT_S)
        except ck.KafkaException as exc:
            raise _refusal(exc) from exc
        if answer.error is not None:
            raise _refusal(ck.KafkaException(answer.error))
        offset: int = answer.offset
        return offset if offset >= 0 else None

    def watch(self, positions: Mapping[TopicPartition, int]) -> None:
        """Watch for records at these positions."""
        self._connect().assign(
            [ck.TopicPartition(each.topic, each.partition, offset) for each, offset in positions.items()]
        )

    def has_new_records(self) -> bool | None:
        """Return, within microseconds, whether there are new records; None if the consumer has a temporary error."""
        if self._consumer is None:
            return False
        message = self._consumer.poll(0)
        if message is None:
            return False
        error = message.error()
        if error is None:
            return True
        log.debug("a mirror's consumer: %s", error.str())
        return None if error.code() != _CODE.GROUP_AUTHORIZATION_FAILED else False

    def close(self) -> None:
        """Disconnect from the cluster."""
        consumer, self._consumer, self._admin = self._consumer, None, None
        if consumer is not None:
            consumer.close()

    def _connect(self) -> Any:
        if self._consumer is None:
            self._consumer = ck.Consumer(
                {
                    "group.id": "kraal-mirror",  # never joined; librdkafka requires one
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

    def _offsets(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        if self._admin is None:
            self._admin = AdminClient(_admin_options(self._options))
        level = ck.IsolationLevel.READ_COMMITTED if self._committed else ck.IsolationLevel.READ_UNCOMMITTED
        specs = {ck.TopicPartition(each.topic, each.partition): spec for each in partitions}
        futures = self._admin.list_offsets(specs, isolation_level=level, request_timeout=_TIMEOUT_S)
        offsets: dict[TopicPartition, int] = {}
        for each, answer in futures.items():
            try:
                offset = _result(answer, _TIMEOUT_S)
            except ck.KafkaException as exc:
                if _code(exc) in _MISSING:
                    continue
                self._admin = None  # it may never reconnect
                raise _refusal(exc) from exc
            if offset.offset < 0:  # librdkafka's sign that no broker responded
                self._admin = None
                raise RetriableError("no broker of the source answered in time")
            offsets[TopicPartition(each.topic, each.partition)] = offset.offset
        return offsets


class ClusterTopics:
    """The topics of one cluster; creates an admin client for each request because requests are rare."""

    def __init__(self, settings: Mapping[str, str], timeout_s: float) -> None:
        """Take admin client settings with Connect's names. Raises ConfigInvalid."""
        self._options = _admin_options({**librdkafka_options(settings), "log_level": 2})
        self._timeout_s = timeout_s

    def counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic. Raises RetriableError, MirrorRequestFailed."""
        admin = AdminClient(self._options)
        try:
            metadata = admin.list_topics(timeout=self._timeout_s)
        except ck.KafkaException as exc:
            raise _refusal(exc) from exc
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None}

    def settings(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        """Return the settings configured on each of these topics. Raises RetriableError, MirrorRequestFailed."""
        admin = AdminClient(self._options)
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        settings: dict[str, dict[str, str]] = {}
        for resource, answer in admin.describe_configs(resources, request_timeout=self._timeout_s).items():
            try:
                entries = _result(answer, self._timeout_s)
            except ck.KafkaException as exc:
                raise _refusal(exc) from exc
            settings[resource.name] = {
                name: entry.value
                for name, entry in entries.items()
                if ConfigSource(entry.source).name == _TOPIC_LEVEL
                and entry.value is not None
                and not entry.is_sensitive
            }
        return settings

    def create(
        self, counts: Mapping[str, int], factor: int, settings: Mapping[str, Mapping[str, str]]
    ) -> dict[str, str]:
        """Create topics; return the errors of those that could not be created."""
        new = [
            NewTopic(
                name, num_partitions=count, replication_factor=factor, config=dict(settings.get(name, {}))
            )
            for name, count in counts.items()
        ]
        admin: Any = AdminClient(self._options)  # keep a reference until it has responded
        limit_s = self._timeout_s
        answers = admin.create_topics(new, operation_timeout=limit_s, request_timeout=limit_s)
        return self._errors(answers, _CODE.TOPIC_ALREADY_EXISTS)

    def grow(self, counts: Mapping[str, int]) -> dict[str, str]:
        """Increase the numbers of partitions of topics; return the errors of those that failed."""
        new = [NewPartitions(name, count) for name, count in counts.items()]
        admin: Any = AdminClient(self._options)  # as above
        limit_s = self._timeout_s
        answers = admin.create_partitions(new, operation_timeout=limit_s, request_timeout=limit_s)
        return self._errors(answers, _CODE.INVALID_PARTITIONS)

    def _errors(self, answers: Mapping[str, Future[Any]], fine: int) -> dict[str, str]:
        errors: dict[str, str] = {}
        for name, answer in answers.items():
            try:
                _result(answer, self._timeout_s)
            except ck.KafkaException as exc:
                if _code(exc) != fine:
                    errors[name] = exc.args[0].str()
            except RetriableError as exc:
                errors[name] = str(exc)
        return errors


def _admin_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a client's options without those of consumers, which an admin client would warn about."""
    consumers = (
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
    return {key: value for key, value in options.items() if not key.startswith(consumers)}


def _result(answer: Future[Any], timeout_s: float) -> Any:
    try:
        return answer.result(timeout_s + 1)
    except TimeoutError as exc:
        raise RetriableError(f"no broker answered within {timeout_s:g} s") from exc


def _code(error: ck.KafkaException) -> int:
    code: int = error.args[0].code()
    return code


def _refusal(error: ck.KafkaException) -> Exception:
    text = error.args[0].str()
    return MirrorRequestFailed(text) if _code(error) in _REFUSED else RetriableError(text)

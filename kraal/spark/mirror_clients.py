"""A mirror's own look at its two clusters, on librdkafka: what topics there are, and how far their partitions reach.

Records themselves are Spark's to read. `SourceClient` holds a consumer only to be told that there is something new: its
requests wait at the broker, so an idle task costs next to nothing and yet knows at once.
"""

from __future__ import annotations

import logging
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

from kraal.config.kafka.librdkafka import librdkafka_options
from kraal.plugins.api import RetriableError, TopicPartition
from kraal.spark.ranges import Bounds

log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 10.0
_SPECS: Final[Any] = OffsetSpec  # without types
_EARLIEST: Final = _SPECS.earliest()
_LATEST: Final = _SPECS.latest()
_CODE: Final = ck.KafkaError
_REFUSED: Final = frozenset(
    {
        _CODE.TOPIC_AUTHORIZATION_FAILED,
        _CODE.CLUSTER_AUTHORIZATION_FAILED,
        _CODE.SASL_AUTHENTICATION_FAILED,
        _CODE._AUTHENTICATION,  # noqa: SLF001 - librdkafka's local errors are spelled with it
    }
)
_MISSING: Final = frozenset(
    {_CODE.UNKNOWN_TOPIC_OR_PART, _CODE._UNKNOWN_PARTITION, _CODE._UNKNOWN_TOPIC}  # noqa: SLF001 - as above
)
_TOPIC_LEVEL: Final = ConfigSource.DYNAMIC_TOPIC_CONFIG.name


class MirrorRefused(Exception):
    """A cluster does not let this client in, or not at these topics."""


class SourceClient:
    """One task's look at the source. One thread at a time."""

    def __init__(self, settings: Mapping[str, str], client_id: str) -> None:
        """Take consumer settings in Connect's words; asks nobody yet. Raises ConfigInvalid."""
        own = {key: value for key, value in settings.items() if key != "auto.offset.reset"}
        self._options = {"client.id": client_id, **librdkafka_options(own), "log_level": 2}
        self._committed = settings.get("isolation.level", "").lower() == "read_committed"
        self._admin: Any = None
        self._consumer: Any = None

    def bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return what the source has of partitions; those that are not there are left out.

        Raises RetriableError, MirrorRefused.
        """
        lows = self._offsets(partitions, _EARLIEST)
        highs = self._offsets(partitions, _LATEST)
        return {place: Bounds(low, highs[place]) for place, low in lows.items() if place in highs}

    def watch(self, positions: Mapping[TopicPartition, int]) -> None:
        """Be told of what comes at these positions."""
        if self._consumer is None:
            self._consumer = ck.Consumer(
                {
                    "group.id": "kraal-mirror",  # never joined; librdkafka wants one
                    **self._options,
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "error",
                    "queued.min.messages": 1,
                    "fetch.message.max.bytes": 1024,
                },
                logger=log,
            )
        self._consumer.assign(
            [ck.TopicPartition(each.topic, each.partition, offset) for each, offset in positions.items()]
        )

    def told(self) -> bool | None:
        """Tell in microseconds whether something is new; None: the consumer has trouble that may pass."""
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
        """Let go of the cluster."""
        consumer, self._consumer, self._admin = self._consumer, None, None
        if consumer is not None:
            consumer.close()

    def _offsets(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        if self._admin is None:
            self._admin = AdminClient(_admin_options(self._options))
        level = ck.IsolationLevel.READ_COMMITTED if self._committed else ck.IsolationLevel.READ_UNCOMMITTED
        wanted = {ck.TopicPartition(each.topic, each.partition): spec for each in partitions}
        asked = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=_TIMEOUT_S)
        found: dict[TopicPartition, int] = {}
        for each, answer in asked.items():
            try:
                offset = _result(answer, _TIMEOUT_S)
            except ck.KafkaException as exc:
                if _code(exc) in _MISSING:
                    continue
                self._admin = None  # it may never find a broker again
                raise _refusal(exc) from exc
            if offset.offset < 0:  # librdkafka's way to say that nobody answered
                self._admin = None
                raise RetriableError("no broker of the source answered in time")
            found[TopicPartition(each.topic, each.partition)] = offset.offset
        return found


class ClusterTopics:
    """One cluster's topics, by an administrator of its own for each look: there are few."""

    def __init__(self, settings: Mapping[str, str], timeout_s: float) -> None:
        """Take administrator's settings in Connect's words. Raises ConfigInvalid."""
        self._options = _admin_options({**librdkafka_options(settings), "log_level": 2})
        self._timeout_s = timeout_s

    def counts(self) -> dict[str, int]:
        """Return how many partitions each topic has. Raises RetriableError, MirrorRefused."""
        admin = AdminClient(self._options)
        try:
            metadata = admin.list_topics(timeout=self._timeout_s)
        except ck.KafkaException as exc:
            raise _refusal(exc) from exc
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None}

    def settings(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        """Return what is set for each of these topics itself. Raises RetriableError, MirrorRefused."""
        admin = AdminClient(self._options)
        asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        found: dict[str, dict[str, str]] = {}
        for resource, answer in admin.describe_configs(asked, request_timeout=self._timeout_s).items():
            try:
                entries = _result(answer, self._timeout_s)
            except ck.KafkaException as exc:
                raise _refusal(exc) from exc
            found[resource.name] = {
                name: entry.value
                for name, entry in entries.items()
                if ConfigSource(entry.source).name == _TOPIC_LEVEL
                and entry.value is not None
                and not entry.is_sensitive
            }
        return found

    def create(
        self, counts: Mapping[str, int], factor: int, settings: Mapping[str, Mapping[str, str]]
    ) -> dict[str, str]:
        """Create topics; return what was wrong with those that are not there now."""
        new = [
            NewTopic(
                name, num_partitions=count, replication_factor=factor, config=dict(settings.get(name, {}))
            )
            for name, count in counts.items()
        ]
        admin: Any = AdminClient(self._options)  # kept until it has answered
        limit_s = self._timeout_s
        answers = admin.create_topics(new, operation_timeout=limit_s, request_timeout=limit_s)
        return self._errors(answers, _CODE.TOPIC_ALREADY_EXISTS)

    def grow(self, counts: Mapping[str, int]) -> dict[str, str]:
        """Give topics more partitions; return what was wrong with those that have not got them."""
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
    """Return a client's options without those of consumers, which an administrator would warn of."""
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
    return MirrorRefused(text) if _code(error) in _REFUSED else RetriableError(text)

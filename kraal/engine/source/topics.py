"""Looks up the topics of a source task's records before the first record is sent, and creates missing ones.

A run caches the topics that it has seen, like Java's task; only other topics require a request. If the topics are known
before a job starts, a job thread ensures that they exist (`SourceTopics.ensure`). If a transform sets the topics in
Spark's Python workers, the workers create missing topics before they yield the records (`SourcePass`), which avoids a
second pass over the records.
Source: AbstractWorkerSourceTask.maybeCreateTopic, TopicAdmin.describeTopics, createOrFindTopics (Kafka 4.4.0); KIP-158.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as ClientTopic
from typing_extensions import override

from kraal.config.connector.topic_creation import NewTopic, TopicRules, read_enabled_rules
from kraal.core.ids import TaskId
from kraal.core.kafka_errors import NOT_AUTHORIZED, RETRIABLE, UNKNOWN_TOPIC
from kraal.engine import client_options
from kraal.engine.records.topics import Ensure, TopicFailed, TopicLookupCancelled
from kraal.plugins.api import RetriableError, SourceBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S: Final = 30.0
_POLL_INTERVAL_S: Final = 0.2
_UNSUPPORTED_CODES: Final = frozenset({ck.KafkaError.UNSUPPORTED_VERSION, ck.KafkaError._UNSUPPORTED_FEATURE})  # noqa: SLF001 - librdkafka's local errors have this prefix
_TIMEOUT_CODES: Final = RETRIABLE | {ck.KafkaError._DESTROY}  # noqa: SLF001
"""Errors that Java's client retries until its timeout."""


class Cluster(Protocol):
    """The admin operations of the brokers that topic creation uses. Calls block; results are not cached."""

    @property
    def brokers(self) -> str:
        """The bootstrap servers."""

    def describe(self, names: Collection[str]) -> Mapping[str, ck.KafkaError | None]:
        """Return the error of each topic's lookup, or None if the topic exists."""

    def create(self, topics: Collection[NewTopic]) -> Mapping[str, ck.KafkaError | None]:
        """Create topics; return the error of each topic, or None if it was created."""


@dataclass(frozen=True, slots=True)
class TopicCreator:
    """Looks up topics and creates missing ones. Picklable, together with its cluster."""

    task: str
    rules: TopicRules
    cluster: Cluster

    def create_missing(self, names: Collection[str]) -> None:
        """Create the missing topics. Blocks. Raises RetriableError and TopicFailed, with Connect's messages."""
        for name in names:
            log.info("%s: The task will send records to topic '%s' for the first time. Checking whether "
                     "topic exists", self.task, name)  # fmt: skip
        missing_names = []
        for name, error in self.cluster.describe(names).items():
            if error is None:
                log.info("%s: Topic '%s' already exists.", self.task, name)
            elif error.code() in UNKNOWN_TOPIC:
                missing_names.append(name)
            else:
                raise _describe_failure(name, error, self.cluster.brokers)
        if not missing_names:
            return
        new_topics = {name: self.rules.find_group(name).new_topic(name) for name in missing_names}
        for name, error in self.cluster.create(new_topics.values()).items():
            topic = new_topics[name]
            if error is None:
                group = self.rules.find_group(name).name
                log.info("%s: Created topic '%s' using creation group %s", self.task, topic, group)
            elif error.code() == ck.KafkaError.TOPIC_ALREADY_EXISTS:
                log.info("%s: Found existing topic '%s'", self.task, topic)
            else:
                raise _create_failure(topic, error)


@dataclass(slots=True)
class SourceTopics:
    """The topics that one run has seen. Not thread-safe."""

    creator: TopicCreator
    _seen: set[str] = field(default_factory=set)

    def list_unseen(self, names: Iterable[str | None]) -> list[str]:
        """Return the topics that the run has not seen yet, sorted."""
        return sorted({name for name in names if name} - self._seen)

    def ensure(self, names: Iterable[str | None]) -> None:
        """Create the topics that do not exist. Blocks for new topics. Raises the errors of `create_missing`."""
        if unseen_names := self.list_unseen(names):
            self.creator.create_missing(unseen_names)
            self._seen.update(unseen_names)

    def add(self, names: Iterable[str]) -> None:
        """Add topics that records were written to."""
        self._seen.update(names)

    def gate(self) -> TopicGate:
        """Return an object that creates missing topics during a pass."""
        return TopicGate(self.creator, frozenset(self._seen))


@dataclass(frozen=True, slots=True)
class TopicGate:
    """Creates missing topics during a pass. Picklable."""

    creator: TopicCreator
    seen: frozenset[str]

    def begin_pass(self) -> Ensure:
        """See Gate."""
        return SourceTopics(self.creator, set(self.seen)).ensure


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """The brokers, accessed through a new librdkafka admin client for each request, because requests are rare."""

    settings: Mapping[str, Any] = field(repr=False)
    cancelled: threading.Event | None = None
    """Aborts a wait for a response; None in other processes, whose jobs Spark cancels."""

    @property
    def brokers(self) -> str:
        """See Cluster."""
        return str(self.settings["bootstrap.servers"])

    def describe(self, names: Collection[str]) -> Mapping[str, ck.KafkaError | None]:
        """See Cluster."""
        admin: Any = AdminClient(dict(self.settings))
        collection = ck.TopicCollection(list(names))
        return self._wait_for_errors(admin.describe_topics(collection, request_timeout=_REQUEST_TIMEOUT_S))

    def create(self, topics: Collection[NewTopic]) -> Mapping[str, ck.KafkaError | None]:
        """See Cluster."""
        admin: Any = AdminClient(dict(self.settings))
        new_topics = [
            ClientTopic(
                topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                config=dict(topic.settings),
            )
            for topic in topics
        ]
        return self._wait_for_errors(
            admin.create_topics(
                new_topics, operation_timeout=_REQUEST_TIMEOUT_S, request_timeout=_REQUEST_TIMEOUT_S
            )
        )

    @override
    def __getstate__(self) -> Mapping[str, Any]:
        return self.settings

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        object.__setattr__(self, "settings", state)
        object.__setattr__(self, "cancelled", None)

    def _wait_for_errors(self, futures: Mapping[str, Future[Any]]) -> dict[str, ck.KafkaError | None]:
        return {name: self._wait_for_error(future) for name, future in futures.items()}

    def _wait_for_error(self, future: Future[Any]) -> ck.KafkaError | None:
        deadline_s = time.monotonic() + _REQUEST_TIMEOUT_S + 1
        while True:
            try:
                future.result(_POLL_INTERVAL_S)
            except TimeoutError:
                if self.cancelled is not None and self.cancelled.is_set():
                    raise TopicLookupCancelled from None
                if time.monotonic() > deadline_s:
                    return ck.KafkaError(ck.KafkaError._TIMED_OUT)
            except ck.KafkaException as exc:
                error: ck.KafkaError = exc.args[0]
                return error
            else:
                return None


def read_source_topics(
    task: TaskId, worker: Mapping[str, str], connector: Mapping[str, str], cancelled: threading.Event
) -> SourceTopics | None:
    """Return a run's topics; None if Kraal creates no topics for it. Connects on first use. Raises ConfigInvalid."""
    rules = read_enabled_rules(worker, connector)
    if rules is None:
        return None
    settings = client_options.admin_options(worker, connector, f"connector-adminclient-{task}")
    return SourceTopics(TopicCreator(str(task), rules, KafkaCluster(settings, cancelled)))


def _describe_failure(name: str, error: Any, brokers: str) -> Exception:
    """Return the exception for a topic that cannot be looked up. Source: TopicAdmin.describeTopics."""
    code = error.code()
    if code in NOT_AUTHORIZED:
        return TopicFailed(f"Not authorized to describe topic(s) '{name}' on the brokers {brokers}")
    if code in _UNSUPPORTED_CODES:
        return TopicFailed(
            f"Unable to describe topic(s) '{name}' since the brokers at {brokers} do not support the "
            "DescribeTopics API."
        )
    if code in _TIMEOUT_CODES or error.retriable():
        return RetriableError(f"Timed out while describing topics '{name}'")
    return TopicFailed(f"Error while attempting to describe topics '{name}': {error.str()}")


def _create_failure(topic: NewTopic, error: Any) -> Exception:
    """Return the exception for a topic that cannot be created. Source: TopicAdmin.createOrFindTopics.

    Kraal retries where Java fails the task because of a timeout (docs/compat.md).
    """
    code, name = error.code(), topic.name
    if code in NOT_AUTHORIZED or code in _UNSUPPORTED_CODES:
        return TopicFailed(
            f"Task failed to create new topic {topic}. Ensure that the task is authorized to create topics or that "
            "the topic exists and restart the task"
        )
    if code == ck.KafkaError.INVALID_CONFIG:
        return TopicFailed(f"Unable to create topic(s) '{name}': {error.str()}")
    if code in _TIMEOUT_CODES or error.retriable():
        return RetriableError(
            f"Timed out while checking for or creating topic(s) '{name}'. This could indicate a connectivity issue, "
            "unavailable topic partitions, or if this is your first use of the topic it may have taken too long to "
            "create."
        )
    return TopicFailed(f"Error while attempting to create/find topic(s) '{name}': {error.str()}")


def list_topics(batch: SourceBatch, topic: str | None) -> Sequence[str | None]:
    """Return the topics of a small batch: `topic`, or the topics of the records if `topic` is None."""
    if batch.table is None or not batch.table.num_rows:
        return []
    if topic is not None:
        return [topic]
    names: list[str | None] = batch.table["topic"].unique().to_pylist()
    return names


def collect_topics(frame: DataFrame, topic: str | None) -> Sequence[str | None]:
    """Return the topics of a DataFrame: `topic`, or if `topic` is None, the topics of the records.

    Runs a job in the latter case.
    """
    if topic is not None:
        return [topic]
    return [row[0] for row in frame.select("topic").distinct().collect()]

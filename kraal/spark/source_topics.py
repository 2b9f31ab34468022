"""The topics of a source task's records: looked up before the first record goes there, and created when missing.

A run knows the topics that it has seen, as Java's task does; only others cost a request. Where they are known before a
job, a job's thread asks (`SourceTopics.ensure`). Where a transform finds them in Spark's Python processes, those ask,
before they hand the records on (`SourcePass`), for to know them earlier every record would have to take its pass twice.
Source: AbstractWorkerSourceTask.maybeCreateTopic, TopicAdmin.describeTopics, createOrFindTopics (Kafka 4.3.0); KIP-158.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from typing_extensions import override

from kraal.config.topic_creation import TopicRules, WantedTopic, read_rules_of
from kraal.ids import TaskId
from kraal.plugins.api import RetriableError
from kraal.spark import kafka_options
from kraal.spark.records.topics import Ensure, TopicFailed, TopicsCancelled

log = logging.getLogger(__name__)

_ASK_S: Final = 30.0
_LOOK_S: Final = 0.2
_MISSING: Final = frozenset({ck.KafkaError.UNKNOWN_TOPIC_OR_PART, ck.KafkaError._UNKNOWN_TOPIC})  # noqa: SLF001
_MAY_NOT: Final = frozenset(
    {ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED, ck.KafkaError.TOPIC_AUTHORIZATION_FAILED}
)
_CANNOT: Final = frozenset({ck.KafkaError.UNSUPPORTED_VERSION, ck.KafkaError._UNSUPPORTED_FEATURE})  # noqa: SLF001
_LATE: Final = frozenset(
    {
        ck.KafkaError._TRANSPORT,  # noqa: SLF001 - librdkafka's local errors are spelled with it
        ck.KafkaError._TIMED_OUT,  # noqa: SLF001
        ck.KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        ck.KafkaError._RESOLVE,  # noqa: SLF001
        ck.KafkaError._DESTROY,  # noqa: SLF001
        ck.KafkaError.REQUEST_TIMED_OUT,
        ck.KafkaError.NOT_CONTROLLER,
        ck.KafkaError.LEADER_NOT_AVAILABLE,
    }
)
"""What Java's client asks again about until its time is over."""


class Cluster(Protocol):
    """The brokers, as one who asks for topics sees them. Calls wait; nothing is kept between them."""

    @property
    def brokers(self) -> str:
        """Their address list."""

    def describe(self, names: Collection[str]) -> Mapping[str, ck.KafkaError | None]:
        """Return for each topic what is in the way of knowing it; None: it is there."""

    def create(self, topics: Collection[WantedTopic]) -> Mapping[str, ck.KafkaError | None]:
        """Create topics; return for each what is in the way; None: it was created."""


@dataclass(frozen=True, slots=True)
class TopicMaker:
    """Looks topics up and creates those that are missing. Can be pickled, with the cluster that ships."""

    task: str
    rules: TopicRules
    cluster: Cluster

    def make(self, names: Collection[str]) -> None:
        """See to it that each topic is there. Waits. Raises RetriableError and TopicFailed, with Connect's words."""
        for name in names:
            log.info("%s: The task will send records to topic '%s' for the first time. Checking whether "
                     "topic exists", self.task, name)  # fmt: skip
        missing = []
        for name, error in self.cluster.describe(names).items():
            if error is None:
                log.info("%s: Topic '%s' already exists.", self.task, name)
            elif error.code() in _MISSING:
                missing.append(name)
            else:
                raise _undescribed(name, error, self.cluster.brokers)
        if not missing:
            return
        wanted = {name: self.rules.group_of(name).topic(name) for name in missing}
        for name, error in self.cluster.create(wanted.values()).items():
            topic = wanted[name]
            if error is None:
                group = self.rules.group_of(name).name
                log.info("%s: Created topic '%s' using creation group %s", self.task, topic, group)
            elif error.code() == ck.KafkaError.TOPIC_ALREADY_EXISTS:
                log.info("%s: Found existing topic '%s'", self.task, topic)
            else:
                raise _uncreated(topic, error)


@dataclass(slots=True)
class SourceTopics:
    """The topics that one run has seen. One thread at a time."""

    maker: TopicMaker
    _seen: set[str] = field(default_factory=set)

    def unseen(self, names: Iterable[str | None]) -> list[str]:
        """Return which of the topics were not seen yet, sorted."""
        return sorted({name for name in names if name} - self._seen)

    def ensure(self, names: Iterable[str | None]) -> None:
        """See to it that the topics are there. Waits when there is a new one. Raises as `TopicMaker.make`."""
        if unseen := self.unseen(names):
            self.maker.make(unseen)
            self._seen.update(unseen)

    def note(self, names: Iterable[str]) -> None:
        """Records were written to these."""
        self._seen.update(names)

    def gate(self) -> TopicGate:
        """Return what a pass asks by; it goes to Spark's processes."""
        return TopicGate(self.maker, frozenset(self._seen))


@dataclass(frozen=True, slots=True)
class TopicGate:
    """What a pass over records asks before it hands them on. Can be pickled."""

    maker: TopicMaker
    seen: frozenset[str]

    def opened(self) -> Ensure:
        """Return what sees to topics in one pass, each once."""
        return SourceTopics(self.maker, set(self.seen)).ensure


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """The brokers by librdkafka's administrator, a new one for each question: tasks ask seldom."""

    settings: Mapping[str, Any] = field(repr=False)
    cancelled: threading.Event | None = None
    """Gives a wait up; not known in other processes, whose jobs Spark ends."""

    @property
    def brokers(self) -> str:
        """See Cluster."""
        return str(self.settings["bootstrap.servers"])

    def describe(self, names: Collection[str]) -> Mapping[str, ck.KafkaError | None]:
        """See Cluster."""
        admin: Any = AdminClient(dict(self.settings))
        asked = ck.TopicCollection(list(names))
        return self._errors(admin.describe_topics(asked, request_timeout=_ASK_S))

    def create(self, topics: Collection[WantedTopic]) -> Mapping[str, ck.KafkaError | None]:
        """See Cluster."""
        admin: Any = AdminClient(dict(self.settings))
        new = [
            NewTopic(
                topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                config=dict(topic.settings),
            )
            for topic in topics
        ]
        return self._errors(admin.create_topics(new, operation_timeout=_ASK_S, request_timeout=_ASK_S))

    @override
    def __getstate__(self) -> Mapping[str, Any]:
        return self.settings

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        object.__setattr__(self, "settings", state)
        object.__setattr__(self, "cancelled", None)

    def _errors(self, answers: Mapping[str, Future[Any]]) -> dict[str, ck.KafkaError | None]:
        return {name: self._error(answer) for name, answer in answers.items()}

    def _error(self, answer: Future[Any]) -> ck.KafkaError | None:
        until_s = time.monotonic() + _ASK_S + 1
        while True:
            try:
                answer.result(_LOOK_S)
            except TimeoutError:
                if self.cancelled is not None and self.cancelled.is_set():
                    raise TopicsCancelled from None
                if time.monotonic() > until_s:
                    return ck.KafkaError(ck.KafkaError._TIMED_OUT)  # noqa: SLF001 - as above
            except ck.KafkaException as exc:
                error: ck.KafkaError = exc.args[0]
                return error
            else:
                return None


def read_source_topics(
    task: TaskId, worker: Mapping[str, str], connector: Mapping[str, str], cancelled: threading.Event
) -> SourceTopics | None:
    """Return a run's topics; None: nothing is created for it. Connects when asked. Raises ConfigInvalid."""
    rules = read_rules_of(worker, connector)
    if rules is None:
        return None
    settings = kafka_options.admin_options(worker, connector, f"connector-adminclient-{task}")
    return SourceTopics(TopicMaker(str(task), rules, KafkaCluster(settings, cancelled)))


def _undescribed(name: str, error: Any, brokers: str) -> Exception:
    """Return what to raise for a topic that cannot be looked up. Source: TopicAdmin.describeTopics."""
    code = error.code()
    if code in _MAY_NOT:
        return TopicFailed(f"Not authorized to describe topic(s) '{name}' on the brokers {brokers}")
    if code in _CANNOT:
        return TopicFailed(
            f"Unable to describe topic(s) '{name}' since the brokers at {brokers} do not support the "
            "DescribeTopics API."
        )
    if code in _LATE or error.retriable():
        return RetriableError(f"Timed out while describing topics '{name}'")
    return TopicFailed(f"Error while attempting to describe topics '{name}': {error.str()}")


def _uncreated(topic: WantedTopic, error: Any) -> Exception:
    """Return what to raise for a topic that cannot be created. Source: TopicAdmin.createOrFindTopics.

    Where Java fails the task because nobody answered in time, this is tried again (docs/compat.md).
    """
    code, name = error.code(), topic.name
    if code in _MAY_NOT or code in _CANNOT:
        return TopicFailed(
            f"Task failed to create new topic {topic}. Ensure that the task is authorized to create topics or that "
            "the topic exists and restart the task"
        )
    if code == ck.KafkaError.INVALID_CONFIG:
        return TopicFailed(f"Unable to create topic(s) '{name}': {error.str()}")
    if code in _LATE or error.retriable():
        return RetriableError(
            f"Timed out while checking for or creating topic(s) '{name}'. This could indicate a connectivity issue, "
            "unavailable topic partitions, or if this is your first use of the topic it may have taken too long to "
            "create."
        )
    return TopicFailed(f"Error while attempting to create/find topic(s) '{name}': {error.str()}")

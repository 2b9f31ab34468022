"""Tests for the lookup and creation of a task's topics, with simulated brokers.

Mirrors AbstractWorkerSourceTaskTest (testTopicCreate…, testTopicDescribe…) and TopicAdminTest.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import confluent_kafka as ck
import pytest

from kraal.config.connector.topic_creation import NewTopic, read_rules
from kraal.engine.records.topics import TopicFailed
from kraal.engine.source.topics import KafkaCluster, SourceTopics, TopicCreator
from kraal.plugins.api import RetriableError

CONFIG = {
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "2",
    "topic.creation.groups": "logs",
    "topic.creation.logs.include": "log-.*",
    "topic.creation.logs.cleanup.policy": "compact",
}
UNKNOWN_TOPIC = ck.KafkaError.UNKNOWN_TOPIC_OR_PART


@dataclass
class Brokers:
    """Simulated brokers that record requests and return predefined errors."""

    existing_topics: set[str] = field(default_factory=set)
    describe_error: int | None = None
    create_error: int | None = None
    lookups: list[list[str]] = field(default_factory=list)
    created_topics: list[NewTopic] = field(default_factory=list)
    brokers: str = "b:9092"

    def describe(self, names: Collection[str]) -> Mapping[str, ck.KafkaError | None]:
        """Return the lookup error of each topic."""
        self.lookups.append(list(names))
        if self.describe_error is not None:
            return {name: ck.KafkaError(self.describe_error, "so") for name in names}
        return {
            name: None if name in self.existing_topics else ck.KafkaError(UNKNOWN_TOPIC) for name in names
        }

    def create(self, topics: Collection[NewTopic]) -> Mapping[str, ck.KafkaError | None]:
        """Create all topics, or fail for all."""
        if self.create_error is not None:
            return {topic.name: ck.KafkaError(self.create_error, "so") for topic in topics}
        self.created_topics += topics
        return dict.fromkeys(topic.name for topic in topics)


def make_topics(brokers: Brokers) -> SourceTopics:
    rules = read_rules(CONFIG)
    assert rules is not None
    return SourceTopics(TopicCreator("c-0", rules, brokers))


def test_missing_topic_is_looked_up_once_and_created_as_its_group_defines() -> None:
    brokers = Brokers(existing_topics={"existing"})
    source_topics = make_topics(brokers)
    for _ in range(2):
        source_topics.ensure(["existing", "log-a", "new", None, "new"])
    assert brokers.lookups == [["existing", "log-a", "new"]]
    assert [(topic.name, topic.partitions, topic.settings) for topic in brokers.created_topics] == [
        ("log-a", 2, {"cleanup.policy": "compact"}),
        ("new", 2, {}),
    ]
    assert source_topics.list_unseen(["new", "newer"]) == ["newer"]


def test_pass_looks_up_only_unseen_topics_once() -> None:
    brokers = Brokers()
    source_topics = make_topics(brokers)
    source_topics.add(["seen"])
    ensure = source_topics.gate().begin_pass()
    ensure(["seen", "new"])
    ensure(["new"])
    assert brokers.lookups == [["new"]]


NEW_TOPIC = "(name=t, numPartitions=2, replicationFactor=1, replicasAssignments=null, configs={})"
NOT_CREATED_ERROR = (
    f"Task failed to create new topic {NEW_TOPIC}. Ensure that the task is authorized to create topics or that the "
    "topic exists and restart the task"
)


@pytest.mark.parametrize(
    ("describe_error", "create_error", "error_class", "message"),
    [
        pytest.param(
            ck.KafkaError.TOPIC_AUTHORIZATION_FAILED,
            None,
            TopicFailed,
            "Not authorized to describe topic(s) 't' on the brokers b:9092",
            id="not authorized to describe",
        ),
        pytest.param(
            ck.KafkaError._TIMED_OUT,
            None,
            RetriableError,
            "Timed out while describing topics 't'",
            id="timeout of the lookup",
        ),
        pytest.param(
            ck.KafkaError.UNSUPPORTED_VERSION,
            None,
            TopicFailed,
            "Unable to describe topic(s) 't' since the brokers at b:9092 do not support the DescribeTopics API.",
            id="unsupported lookup",
        ),
        pytest.param(
            ck.KafkaError.TOPIC_EXCEPTION,
            None,
            TopicFailed,
            "Error while attempting to describe topics 't': so",
            id="invalid name",
        ),
        pytest.param(
            None,
            ck.KafkaError.TOPIC_AUTHORIZATION_FAILED,
            TopicFailed,
            NOT_CREATED_ERROR,
            id="not authorized to create in the topic",
        ),
        pytest.param(
            None,
            ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            TopicFailed,
            NOT_CREATED_ERROR,
            id="not authorized to create in the cluster",
        ),
        pytest.param(
            None,
            ck.KafkaError.INVALID_CONFIG,
            TopicFailed,
            "Unable to create topic(s) 't': so",
            id="invalid settings",
        ),
        pytest.param(
            None,
            ck.KafkaError.INVALID_REPLICATION_FACTOR,
            TopicFailed,
            "Error while attempting to create/find topic(s) 't': so",
            id="more replicas than brokers",
        ),
        pytest.param(
            None,
            ck.KafkaError.REQUEST_TIMED_OUT,
            RetriableError,
            "Timed out while checking for or creating topic(s) 't'. This could indicate a connectivity issue, "
            "unavailable topic partitions, or if this is your first use of the topic it may have taken too long to "
            "create.",
            id="timeout of the creation",
        ),
    ],
)
def test_topic_creation_failure_has_the_message_of_connect(
    describe_error: int | None, create_error: int | None, error_class: type[Exception], message: str
) -> None:
    brokers = Brokers(describe_error=describe_error, create_error=create_error)
    source_topics = make_topics(brokers)
    for _ in range(2):
        with pytest.raises(error_class) as raised:
            source_topics.ensure(["t"])
        assert str(raised.value) == message
    assert brokers.lookups == [["t"], ["t"]], "no topic is recorded as seen"


def test_topic_created_concurrently_is_accepted() -> None:
    brokers = Brokers(create_error=ck.KafkaError.TOPIC_ALREADY_EXISTS)
    source_topics = make_topics(brokers)
    source_topics.ensure(["t"])
    assert source_topics.list_unseen(["t"]) == []


def test_repr_of_an_unpickled_gate_contains_no_secrets() -> None:
    cluster = KafkaCluster({"bootstrap.servers": "b:1", "sasl.password": "hush"})
    rules = read_rules(CONFIG)
    assert rules is not None
    gate = SourceTopics(TopicCreator("c-0", rules, cluster)).gate()
    copied_gate = pickle.loads(pickle.dumps(gate))  # noqa: S301 - trusted bytes
    assert copied_gate.creator.cluster.settings == cluster.settings
    assert copied_gate.creator.cluster.brokers == "b:1"
    assert "hush" not in repr(copied_gate)

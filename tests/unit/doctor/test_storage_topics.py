"""Tests for checks of internal topics, and for the requests that these checks send to brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined] # documented by confluent-kafka

from kraal.config.worker.distributed import InternalTopic
from kraal.core.errors import StoreError
from kraal.core.kafka_errors import ErrorCode
from kraal.doctor import broker
from kraal.doctor.broker import check_kafka, check_storage
from kraal.doctor.finding import Finding, Level
from kraal.doctor.storage_topics import Storage, check_creation, check_topic
from kraal.doctor.subject import Subject
from kraal.kafka.permissions import Cluster
from kraal.kafka.topics import TopicDescription
from tests.fakes.kafka.client_errors import make_store_error
from tests.fakes.workers.worker_config import distributed

WORKER = distributed(bootstrap_servers="127.0.0.1:1", group_id="g")
TOPIC = InternalTopic(
    key="config.storage.topic", name="configs", partitions=1, replication_factor=3, settings={}
)


def levels(findings: Iterable[Finding]) -> dict[str, str]:
    return {finding.id: finding.level for finding in findings}


def storage(description_or_error: TopicDescription | StoreError, **settings: str) -> Storage:
    """Return the config topic with the brokers' description or error."""
    return Storage(
        TOPIC, description_or_error, {key.replace("_", "."): text for key, text in settings.items()}, "b:9092"
    )


@pytest.mark.parametrize(
    ("description_or_error", "policy", "expected"),
    [
        (TopicDescription("id", 1, 3, 3), "compact", {"topics.exist": "ok"}),
        (TopicDescription("id", 25, 3, 3), "compact", {"topics.exist": "ok", "topics.partitions": "error"}),
        (TopicDescription("id", 1, 1, 1), "compact", {"topics.exist": "ok", "topics.replicas": "hint"}),
        (
            TopicDescription("id", 1, 3, 3),
            "Compact, delete",
            {"topics.exist": "ok", "topics.cleanup": "error"},
        ),
        (make_store_error(ErrorCode.UNKNOWN_TOPIC_OR_PART), "", {"topics.exist": "hint"}),
        (make_store_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED), "", {"topics.exist": "error"}),
    ],
)
def test_internal_topic_settings_are_checked(
    description_or_error: TopicDescription | StoreError, policy: str, expected: dict[str, str]
) -> None:
    assert levels(check_topic(storage(description_or_error, cleanup_policy=policy), single=True)) == expected


def test_missing_topic_without_automatic_creation_is_an_error_with_a_fix() -> None:
    missing_topic = storage(make_store_error(ErrorCode.UNKNOWN_TOPIC_OR_PART))
    [finding] = check_topic(missing_topic, single=True, creates_topics=False)
    assert finding.level is Level.ERROR
    assert "internal.topics.automatic.creation.enable=false" in finding.what
    assert "kraal topics create" in finding.fix


def test_wrong_cleanup_policy_has_a_fix() -> None:
    topic = storage(TopicDescription("id", 1, 3, 3), cleanup_policy="delete")
    [finding] = [finding for finding in check_topic(topic, single=True) if finding.id == "topics.cleanup"]
    assert "cleanup.policy=delete" in finding.what
    assert (
        "kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type topics --entity-name configs "
        "--add-config cleanup.policy=compact"
    ) in finding.fix


@pytest.mark.parametrize(
    ("replicas", "in_sync", "min_in_sync", "expected_text"),
    [
        (3, 2, "2", None),
        (2, 2, "3", "min.insync.replicas=3, but 2 replicas:"),
        (3, 1, "2", "1 in-sync replica, but needs at least 2 (min.insync.replicas)"),
        (3, 0, "", "0 in-sync replicas, but needs at least 1"),
    ],
)
def test_unwritable_topic_is_an_error(
    replicas: int, in_sync: int, min_in_sync: str, expected_text: str | None
) -> None:
    topic = storage(TopicDescription("id", 1, replicas, in_sync), min_insync_replicas=min_in_sync)
    findings = [finding for finding in check_topic(topic, single=True) if finding.id == "topics.insync"]
    assert [finding.level for finding in findings] == ([] if expected_text is None else [Level.ERROR])
    assert expected_text is None or expected_text in findings[0].what
    assert all("configs" in finding.what and finding.fix for finding in findings)


@pytest.mark.parametrize(("brokers", "expected"), [(3, []), (2, ["has 2 brokers"]), (1, ["has 1 broker"])])
def test_replicas_of_missing_topics_require_enough_brokers(brokers: int, expected: list[str]) -> None:
    findings = [*check_creation(Cluster(brokers), [TOPIC])]
    assert [(finding.id, finding.level) for finding in findings] == [("topics.replicas", Level.ERROR)] * len(
        expected
    )
    for finding, expected_text in zip(findings, expected, strict=True):
        assert "configs cannot be created with config.storage.replication.factor=3" in finding.what
        assert finding.what.endswith(expected_text)
        assert f"set config.storage.replication.factor to at most {brokers}." in finding.fix


class FakeBrokers:
    """Fake brokers that have two of the three topics and count requests."""

    brokers = "b:9092"
    timeout_s = 1.0

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    def describe(self, topic: str, *, with_operations: bool) -> TopicDescription:
        assert with_operations
        self.requests[f"describe {topic}"] += 1
        if topic == "statuses":
            raise make_store_error(ErrorCode.UNKNOWN_TOPIC_OR_PART)
        operations = frozenset({"READ", "WRITE", "DESCRIBE_CONFIGS"})
        return TopicDescription("id", 1, 3, 3, operations)

    def settings(self, topic: str) -> dict[str, str]:
        self.requests[f"settings {topic}"] += 1
        return {"cleanup.policy": "compact"}

    def latest_time_ms(self, topic: str, partitions: int) -> int | None:
        assert partitions == 1
        self.requests[f"times {topic}"] += 1
        return 1 if topic == "configs" else None

    def request(self, what: str, _: object) -> object:
        self.requests[what] += 1
        return SimpleNamespace(
            nodes=[1, 2, 3], authorized_operations=[AclOperation.CREATE, AclOperation.READ]
        )


def test_every_request_is_sent_once_to_the_brokers() -> None:
    brokers = FakeBrokers()
    results = [(finding.id, finding.level) for finding in check_storage(brokers, WORKER)]  # type: ignore[arg-type]
    assert results == [
        ("topics.exist", "ok"),
        ("topics.exist", "ok"),
        ("topics.exist", "hint"),
        ("clock.records", "ok"),
        ("acls.topics", "ok"),
        ("acls.topics", "ok"),
        ("acls.group", "error"),
        ("acls.cluster", "ok"),
    ]
    assert brokers.requests == {
        **dict.fromkeys(("describe configs", "describe offsets", "describe statuses"), 1),
        **dict.fromkeys(("settings configs", "settings offsets", "times configs", "times offsets"), 1),
        **dict.fromkeys(("the cluster", "the group 'g'"), 1),
    }


def test_topics_are_skipped_without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_to_connect(*_: object, **__: object) -> str:
        raise StoreError("no Kafka broker responds at 127.0.0.1:1: Connection refused")

    monkeypatch.setattr(broker, "read_cluster_id", fail_to_connect)
    assert levels(check_kafka(Subject(config=WORKER))) == {
        "broker.reachable": "error",
        "topics.exist": "skipped",
    }
    assert list(check_kafka(Subject())) == []

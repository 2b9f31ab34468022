"""Tests for ACL checks: findings from the operations that brokers report, and the requests to brokers."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined] # documented by confluent-kafka
from kafka.errors import GroupAuthorizationFailedError

from kraal.config.worker.distributed import DistributedConfig, InternalTopic
from kraal.core.errors import StoreError
from kraal.doctor.broker import check_missing
from kraal.doctor.finding import Finding, Level
from kraal.doctor.permissions import check_permissions
from kraal.doctor.storage_topics import Storage, describe_storage
from kraal.kafka import permissions, topics
from kraal.kafka.permissions import Cluster, Permissions, PermissionsReader, parse_description
from kraal.kafka.topics import TopicAdmin, TopicDescription
from tests.fakes.kafka.client_errors import make_store_error
from tests.fakes.workers.worker_config import distributed

TOPIC_PERMISSIONS = Permissions(frozenset({"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"}))
GROUP_PERMISSIONS = Permissions(frozenset({"READ", "DESCRIBE"}))
NO_PERMISSIONS = Permissions()
TIMEOUT_TEXT = "Cannot look it up: timed out"


def config(**settings: str) -> DistributedConfig:
    return distributed(bootstrap_servers="b:9092", group_id="g", **settings)


@dataclass
class Brokers:
    """Fake brokers that report the permitted operations of each resource, or fail the request if these are None."""

    topics: Mapping[str, Permissions | None] = field(default_factory=dict)
    group: Permissions | None = GROUP_PERMISSIONS
    cluster: Cluster | None = field(default_factory=lambda: Cluster(3))

    def read_group(self, group: str) -> Permissions:
        assert group == "g"
        if self.group is None:
            raise StoreError(TIMEOUT_TEXT)
        return self.group

    def read_cluster(self) -> Cluster:
        if self.cluster is None:
            raise StoreError(TIMEOUT_TEXT)
        return self.cluster

    def storage(self, topic: InternalTopic) -> Storage:
        permissions = self.topics.get(topic.name, TOPIC_PERMISSIONS)
        if permissions is None:
            return Storage(topic, StoreError(TIMEOUT_TEXT), {})
        if permissions.refused:
            return Storage(topic, make_store_error(KafkaError.TOPIC_AUTHORIZATION_FAILED), {})
        return Storage(topic, TopicDescription("id", 1, 3, 3, permissions.operations), {})


def run_checks(brokers: Brokers, worker: DistributedConfig) -> list[Finding]:
    topics = (worker.config_topic, worker.offset_topic, worker.status_topic)
    return [*check_permissions(brokers, worker, [brokers.storage(topic) for topic in topics])]


def summarize(brokers: Brokers, worker: DistributedConfig | None = None) -> list[tuple[str, Level, str]]:
    findings = run_checks(brokers, worker or config())
    assert all(bool(finding.fix) == (finding.level not in (Level.OK, Level.SKIPPED)) for finding in findings)
    return [(finding.id, finding.level, finding.what) for finding in findings]


@pytest.mark.parametrize(
    ("topic_permissions", "level", "expected_text"),
    [
        (
            Permissions(TOPIC_PERMISSIONS.operations - {"WRITE"}),
            Level.ERROR,
            "may not write the topic configs",
        ),
        (Permissions(refused=True), Level.ERROR, "may not read or write the topic configs"),
        (
            Permissions(TOPIC_PERMISSIONS.operations - {"DESCRIBE_CONFIGS"}),
            Level.HINT,
            "the settings of the topic configs",
        ),
        (
            Permissions(),
            Level.SKIPPED,
            "do not report the operations of the worker's user on the topic configs",
        ),
        (None, Level.SKIPPED, "Cannot look it up: timed out"),
    ],
)
def test_missing_topic_permissions_are_reported(
    topic_permissions: Permissions | None, level: Level, expected_text: str
) -> None:
    first_finding, *other_findings = summarize(Brokers({"configs": topic_permissions}))
    assert (first_finding[:2], expected_text in first_finding[2]) == (("acls.topics", level), True)
    assert {finding[1] for finding in other_findings} == {Level.OK}


@pytest.mark.parametrize(
    ("cluster", "level"),
    [
        (Cluster(3, frozenset({"CREATE"})), Level.OK),
        (Cluster(3, frozenset({"DESCRIBE"})), Level.HINT),
        (Cluster(3), Level.HINT),
        (None, Level.SKIPPED),
    ],
)
def test_missing_create_permission_is_reported(cluster: Cluster | None, level: Level) -> None:
    [finding] = check_missing(Brokers(cluster=cluster), [config().offset_topic])
    assert (finding.id, finding.level, bool(finding.fix)) == ("acls.cluster", level, level is Level.HINT)
    assert ("offsets" if cluster else TIMEOUT_TEXT) in finding.what


def test_transactional_ids_are_listed_only_with_exactly_once_support() -> None:
    def fixes(worker: DistributedConfig) -> list[str]:
        findings = run_checks(Brokers(), worker)
        return [
            finding.fix
            for finding in findings
            if (finding.id, finding.level) == ("acls.transactions", Level.HINT)
        ]

    assert fixes(config()) == []
    [preparing_fix] = fixes(config(exactly_once_source_support="preparing"))
    [enabled_fix] = fixes(config(exactly_once_source_support="enabled"))
    assert ("`connect-cluster-g`" in preparing_fix, "`g-`" in preparing_fix) == (True, False)
    assert ("`connect-cluster-g`" in enabled_fix, "`g-`" in enabled_fix) == (True, True)


# -- requests to brokers -------------------------------------------------------------------------------------


SETTINGS = {"bootstrap.servers": "b:9092"}
GROUP_SETTINGS = {"bootstrap.servers": "b:9092", "client.id": "g-1"}


class FakeDescription:
    """A description with authorized operations, usable for a topic, a group, or a cluster of two brokers."""

    topic_id = "id"
    partitions = (SimpleNamespace(replicas=[1, 2], isr=[1]),)
    nodes = (1, 2)

    def __init__(self, operations: list[AclOperation] | None) -> None:
        self.authorized_operations = operations


class FakeAdmin:
    """A fake of librdkafka's admin client whose descriptions all return the same error or operations."""

    response: KafkaError | list[AclOperation] | None = None

    def __init__(self, settings: Mapping[str, Any]) -> None:
        assert settings["bootstrap.servers"] == "b:9092"

    def describe_cluster(self, **options: Any) -> Future[Any]:
        return self._respond(options)

    def describe_topics(self, topics: Any, **options: Any) -> dict[str, Future[Any]]:
        return {name: self._respond(options) for name in topics.topic_names}

    def describe_configs(self, resources: Any, request_timeout: float) -> dict[Any, Future[Any]]:
        assert request_timeout == 2.0
        future: Future[Any] = Future()
        future.set_result({"cleanup.policy": SimpleNamespace(value="compact")})
        return dict.fromkeys(resources, future)

    def describe_consumer_groups(self, groups: list[str], **options: Any) -> dict[str, Future[Any]]:
        return {group: self._respond(options) for group in groups}

    def poll(self, timeout: float) -> int:
        return int(timeout)

    def _respond(self, options: Mapping[str, Any]) -> Future[Any]:
        assert options == {"include_authorized_operations": True, "request_timeout": 2.0}
        future: Future[Any] = Future()
        if isinstance(self.response, KafkaError):
            future.set_exception(KafkaException(self.response))
        else:
            future.set_result(FakeDescription(self.response))
        return future


def create_admin(
    monkeypatch: pytest.MonkeyPatch, response: KafkaError | list[AclOperation] | None
) -> TopicAdmin:
    monkeypatch.setattr(topics, "AdminClient", FakeAdmin)
    monkeypatch.setattr(FakeAdmin, "response", response)
    return TopicAdmin(SETTINGS, client_id="c", timeout_s=2.0)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ([AclOperation.READ, AclOperation.DESCRIBE], Permissions(frozenset({"READ", "DESCRIBE"}))),
        (None, Permissions()),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), Permissions(refused=True)),
        (KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), Permissions(refused=True)),
        (KafkaError(KafkaError.GROUP_ID_NOT_FOUND), NO_PERMISSIONS),
    ],
)
def test_broker_responses_are_parsed_as_permissions(
    monkeypatch: pytest.MonkeyPatch, response: KafkaError | list[AclOperation] | None, expected: Permissions
) -> None:
    admin = create_admin(monkeypatch, response)
    description = describe_storage(admin, config().config_topic).description
    reader = PermissionsReader(admin, GROUP_SETTINGS)
    assert [parse_description(description), reader.read_group("g")] == [expected] * 2
    if isinstance(response, KafkaError):
        with pytest.raises(StoreError, match="Cannot look up the cluster"):
            reader.read_cluster()
    else:
        assert description == TopicDescription("id", 1, 2, 1, expected.operations)
        assert reader.read_cluster() == Cluster(2, expected.operations)


class FakeGroups(permissions.WorkerGroups):
    """A fake of kafka-python's admin client that returns an error code and operation codes."""

    response: tuple[int, set[int] | None] | Exception = (0, None)
    close_count = 0

    def __init__(self, **options: Any) -> None:
        assert (options["bootstrap_servers"], options["client_id"]) == (["b:9092"], "g-1")
        assert (options["request_timeout_ms"], options["bootstrap_timeout_ms"]) == (2000, 2000)

    def describe_groups(self, groups: list[str]) -> Any:
        if isinstance(self.response, Exception):
            raise self.response
        code, operation_codes = self.response
        described_groups = [
            SimpleNamespace(group_id=group, error_code=code, authorized_operations=operation_codes)
            for group in groups
        ]
        return self._describe_groups_process_response(SimpleNamespace(groups=described_groups))

    def close(self) -> None:
        FakeGroups.close_count += 1


@pytest.fixture
def worker_group_reader(monkeypatch: pytest.MonkeyPatch) -> PermissionsReader:
    """Return a reader whose group librdkafka refuses to describe because the group consists of workers."""
    admin = create_admin(monkeypatch, KafkaError(KafkaError._INVALID_ARG))  # noqa: SLF001 - librdkafka's name
    monkeypatch.setattr(permissions, "WorkerGroups", FakeGroups)
    monkeypatch.setattr(FakeGroups, "close_count", 0)
    return PermissionsReader(admin, GROUP_SETTINGS)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ((0, {3, 8}), Permissions(frozenset({"READ", "DESCRIBE"}))),
        ((0, None), Permissions()),
        ((30, None), Permissions(refused=True)),
        ((69, None), NO_PERMISSIONS),
        (GroupAuthorizationFailedError(), Permissions(refused=True)),
    ],
)
def test_worker_group_is_described_by_a_separate_request(
    monkeypatch: pytest.MonkeyPatch,
    worker_group_reader: PermissionsReader,
    response: tuple[int, set[int] | None] | Exception,
    expected: Permissions,
) -> None:
    monkeypatch.setattr(FakeGroups, "response", response)
    assert (worker_group_reader.read_group("g"), FakeGroups.close_count) == (expected, 1)

"""Tests for `TopicAdmin`: the replacement of unresponsive clients, error messages, and the creation of topics."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition

from kraal.core.errors import StoreError, TopicMisconfigured, TopicUnusable
from kraal.kafka import topics as kafka_topics
from kraal.kafka.topics import InternalTopic, TopicAdmin, ensure_topics
from tests.fakes.kafka.topic_client import TopicClient


class Client:
    """A client whose requests fail with an error."""

    def __init__(self, error: int) -> None:
        self._error = error
        self.poll_count = 0

    def describe_topics(self, topics: TopicCollection, request_timeout: float) -> dict[str, Future[object]]:
        """Return futures that fail with the error."""
        del topics, request_timeout
        future: Future[object] = Future()
        future.set_exception(KafkaException(KafkaError(self._error)))
        return {"t": future}

    def poll(self, timeout: float) -> int:
        """Count the call."""
        del timeout
        self.poll_count += 1
        return 0


@pytest.mark.parametrize(
    ("error", "client_count"),
    [
        (KafkaError._TIMED_OUT, 3),
        (KafkaError._TRANSPORT, 3),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 1),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, 1),
    ],
)
def test_only_a_client_without_response_is_replaced(
    monkeypatch: pytest.MonkeyPatch, error: int, client_count: int
) -> None:
    created_clients: list[Client] = []

    def create_client(settings: object) -> Client:
        del settings
        created_clients.append(Client(error))
        return created_clients[-1]

    monkeypatch.setattr(kafka_topics, "AdminClient", create_client)
    admin = TopicAdmin({"bootstrap.servers": "127.0.0.1:1"}, client_id="a", timeout_s=0.1)
    for _ in range(3):
        with pytest.raises(StoreError):
            admin.describe("t")
    assert len(created_clients) == client_count
    assert sum(client.poll_count for client in created_clients) == 3


class Creator:
    """A client that fails to create topics."""

    def __init__(self, error: int) -> None:
        self._error = error

    def create_topics(
        self, new_topics: Iterable[SimpleNamespace], operation_timeout: float, request_timeout: float
    ) -> dict[str, Future[object]]:
        """Return futures that fail with the error."""
        del operation_timeout, request_timeout
        future: Future[object] = Future()
        future.set_exception(KafkaException(KafkaError(self._error, "Unable to replicate")))
        return {new_topic.topic: future for new_topic in new_topics}

    def poll(self, timeout: float) -> int:
        """No-op."""
        del timeout
        return 0


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (
            KafkaError.INVALID_REPLICATION_FACTOR,
            "Start more brokers, or set config.storage.replication.factor to at most the number of brokers.",
        ),
        (KafkaError.NOT_CONTROLLER, ""),
    ],
)
def test_only_invalid_replication_factor_error_has_a_hint(
    monkeypatch: pytest.MonkeyPatch, error: int, hint: str
) -> None:
    monkeypatch.setattr(kafka_topics, "AdminClient", lambda _: Creator(error))
    admin = TopicAdmin({"bootstrap.servers": "127.0.0.1:1"}, client_id="a", timeout_s=0.1)
    topic = InternalTopic(
        name="c",
        property="config.storage.topic",
        purpose="connector configurations",
        partitions=1,
        replication_factor=3,
    )
    with pytest.raises(StoreError, match=r"create/find topic\(s\) 'c': .*Unable to replicate") as exc_info:
        admin.create(topic)
    assert exc_info.value.hint == hint


class Lister:
    """A client that returns the end offset of each partition, or fails with an error."""

    def __init__(self, error: int | None) -> None:
        self._error = error

    def list_offsets(
        self, partitions: Iterable[TopicPartition], isolation_level: IsolationLevel, request_timeout: float
    ) -> dict[TopicPartition, Future[object]]:
        """Return a future with the end offset of each partition, or with the error."""
        del isolation_level, request_timeout
        futures: dict[TopicPartition, Future[object]] = {}
        for partition in partitions:
            futures[partition] = Future()
            if self._error is None:
                futures[partition].set_result(SimpleNamespace(offset=7))
            else:
                futures[partition].set_exception(KafkaException(KafkaError(self._error)))
        return futures

    def poll(self, timeout: float) -> int:
        """No-op."""
        del timeout
        return 0


@pytest.mark.parametrize(
    "error",
    [
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    ],
)
def test_client_with_stale_leader_metadata_is_replaced(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    errors = iter([error, None])
    monkeypatch.setattr(kafka_topics, "AdminClient", lambda _: Lister(next(errors)))
    admin = TopicAdmin({"bootstrap.servers": "127.0.0.1:1"}, client_id="a", timeout_s=0.2)
    with pytest.raises(StoreError, match="cannot look up the offsets of the topic 't'"):
        admin.end_offsets("t", 2)
    assert admin.end_offsets("t", 2) == [7, 7]


COMPACT = {"cleanup.policy": "compact"}
STATUSES = InternalTopic(
    name="s",
    property="status.storage.topic",
    purpose="connector and task statuses",
    partitions=5,
    replication_factor=1,
)


def make_admin(monkeypatch: pytest.MonkeyPatch, client: TopicClient) -> TopicAdmin:
    monkeypatch.setattr(kafka_topics, "AdminClient", lambda _: client)
    return TopicAdmin({"bootstrap.servers": "127.0.0.1:1"}, client_id="a", timeout_s=0.2)


def test_missing_topic_without_creation_has_connects_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = TopicClient({})
    with pytest.raises(TopicUnusable) as error:
        ensure_topics(make_admin(monkeypatch, client), [STATUSES], create=False)
    assert str(error.value) == (
        "Topic 's' specified via the 'status.storage.topic' property is missing. The config "
        "'internal.topics.automatic.creation.enable' is set to 'false', so automatic creation of internal topics is "
        "disabled. Either enable automatic creation or create the topics manually."
    )
    assert not isinstance(error.value, TopicMisconfigured)
    assert client.created == []


def test_existing_topic_is_checked_without_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_topics(make_admin(monkeypatch, TopicClient({"s": COMPACT})), [STATUSES], create=False)
    admin = make_admin(monkeypatch, TopicClient({"s": {"cleanup.policy": "delete"}}))
    with pytest.raises(TopicMisconfigured, match=r"required to have 'cleanup\.policy=compact'"):
        ensure_topics(admin, [STATUSES], create=False)


def test_missing_topics_are_created_and_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    client = TopicClient({"s": COMPACT})
    other_topic = replace(STATUSES, name="t")
    assert ensure_topics(make_admin(monkeypatch, client), [STATUSES, other_topic]) == ["t"]
    assert [new_topic.topic for new_topic in client.created] == ["t"]
    assert client.topics["t"] == COMPACT


def test_failed_description_does_not_mean_missing_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_topics, "AdminClient", lambda _: Client(KafkaError._TRANSPORT))
    admin = TopicAdmin({"bootstrap.servers": "127.0.0.1:1"}, client_id="a", timeout_s=0.1)
    with pytest.raises(StoreError) as error:
        ensure_topics(admin, [replace(STATUSES, name="t")], create=False)
    assert not isinstance(error.value, TopicUnusable)

"""Tests for the contract of GroupOffsets, as implemented by the fake engine and by Kafka."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from kraal.broker.broker import free_port
from kraal.core.errors import GroupInUse, StoreError
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import TopicPartition
from kraal.kafka.sink_offset_requests import KafkaGroupOffsets, consumer_group
from kraal.kafka.topics import ensure_topics
from kraal.stores.api import GroupOffsets
from kraal.testing._simulation.group_offsets import FAKE_TOPIC, FakeGroupOffsets
from tests.fakes.kafka.internal_topics import delete_topic, internal_topic, options, topic_admin

X = ConnectorName("x")
P0, P1 = TopicPartition(FAKE_TOPIC, 0), TopicPartition(FAKE_TOPIC, 1)


@dataclass
class GroupContract:
    """An implementation of GroupOffsets, and a function that joins a sink's group.

    The function returns a function that leaves the group.
    """

    groups: GroupOffsets
    join: Callable[[ConnectorName], Callable[[], object]]
    config: dict[str, str] = field(default_factory=dict)

    def read(self, name: ConnectorName = X) -> dict[TopicPartition, int]:
        return dict(self.groups.read(name, self.config, timeout_s=20))

    def alter(self, offsets: dict[TopicPartition, int | None], name: ConnectorName = X) -> None:
        self.groups.alter(name, self.config, offsets, timeout_s=20)

    def delete(self, name: ConnectorName = X) -> None:
        self.groups.delete(name, self.config, timeout_s=20)


@pytest.fixture(params=["fake", "kafka"])
def contract(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GroupContract]:
    if request.param == "fake":
        running: set[TaskId] = set()

        def join(name: ConnectorName) -> Callable[[], object]:
            running.add(TaskId(name, 0))
            return running.clear

        yield GroupContract(FakeGroupOffsets({}, lambda: running), join)
        return
    bootstrap = request.getfixturevalue("bootstrap")
    groups = KafkaGroupOffsets({"bootstrap.servers": bootstrap}, scratch=tmp_path)
    with topic_admin(bootstrap) as admin:
        ensure_topics(admin, [internal_topic(FAKE_TOPIC, partitions=2)])
        kafka_contract = GroupContract(groups, lambda name: join_group(bootstrap, name))
        kafka_contract.delete()
        yield kafka_contract


def join_group(bootstrap: str, name: ConnectorName) -> Callable[[], object]:
    """Join a sink's group; return a function that leaves the group."""
    consumer = Consumer(
        {**options(bootstrap), "group.id": consumer_group({}, name, {}), "enable.auto.commit": False}
    )
    consumer.subscribe([FAKE_TOPIC])
    for _ in range(300):
        consumer.poll(0.1)
        if consumer.assignment():
            return consumer.close
    raise AssertionError("the consumer has not joined the group")


def test_missing_group_has_no_offsets(contract: GroupContract) -> None:
    assert contract.read() == {}


def test_alter_changes_only_the_given_partitions(contract: GroupContract) -> None:
    contract.alter({P0: 5, P1: 2**40})
    contract.alter({P0: 0})
    assert contract.read() == {P0: 0, P1: 2**40}
    contract.alter({P0: None, P1: 3})
    assert contract.read() == {P1: 3}
    assert contract.read(ConnectorName("y")) == {}


def test_deleting_a_missing_offset_is_a_noop(contract: GroupContract) -> None:
    contract.alter({P1: 3})
    contract.alter({P0: None})
    assert contract.read() == {P1: 3}


def test_deleting_a_missing_group_is_a_noop(contract: GroupContract) -> None:
    contract.alter({P0: 5})
    contract.delete()
    assert contract.read() == {}
    contract.delete()


def test_offsets_of_a_missing_topic_cannot_be_altered(contract: GroupContract) -> None:
    with pytest.raises(StoreError):
        contract.alter({TopicPartition("there-is-none", 0): 1})


def test_offsets_of_a_group_with_members_cannot_be_changed(contract: GroupContract) -> None:
    contract.alter({P0: 5})
    leave = contract.join(X)
    for offset in (6, None):
        with pytest.raises(GroupInUse):
            contract.alter({P0: offset})
    with pytest.raises(GroupInUse):
        contract.delete()
    assert contract.read()[P0] == 5
    leave()
    contract.alter({P0: 6})
    assert contract.read()[P0] == 6


def test_end_offsets_exclude_missing_partitions(bootstrap: str, tmp_path: Path) -> None:
    groups = KafkaGroupOffsets({"bootstrap.servers": bootstrap}, scratch=tmp_path)
    with topic_admin(bootstrap) as admin:
        ensure_topics(admin, [internal_topic("with-end", partitions=2)])
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "with-end"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("with-end", b"", b"key", partition=0)
    producer.commit_transaction(20)
    producer.begin_transaction()
    producer.produce("with-end", b"", b"key", partition=0)
    producer.flush(20)  # the transaction stays open
    first, second = TopicPartition("with-end", 0), TopicPartition("with-end", 1)
    missing_partitions = [TopicPartition("there-is-none", 0), TopicPartition("with-end", 7)]
    assert groups.ends(X, {}, [first, second], timeout_s=20) == {first: 2, second: 0}
    assert groups.ends(X, {}, [first, missing_partitions[0]], timeout_s=20) == {first: 2}
    assert groups.ends(X, {}, missing_partitions, timeout_s=20) == {}
    assert groups.ends(X, {}, [], timeout_s=20) == {}
    producer.abort_transaction(20)


def test_offsets_of_a_deleted_topic_are_removed(bootstrap: str, tmp_path: Path) -> None:
    groups = KafkaGroupOffsets({"bootstrap.servers": bootstrap}, scratch=tmp_path)
    name = ConnectorName("of a deleted topic")
    with topic_admin(bootstrap) as admin:
        ensure_topics(admin, [internal_topic("soon-deleted")])
        groups.alter(name, {}, {TopicPartition("soon-deleted", 0): 1}, timeout_s=20)
        delete_topic(admin, "soon-deleted")
    for _ in range(200):
        if not groups.read(name, {}, timeout_s=20):
            break
    assert groups.read(name, {}, timeout_s=20) == {}
    groups.delete(name, {}, timeout_s=20)


def test_connector_config_overrides_group_and_bootstrap_servers(bootstrap: str, tmp_path: Path) -> None:
    groups = KafkaGroupOffsets({"bootstrap.servers": "127.0.0.1:1"}, scratch=tmp_path)
    config = {
        "consumer.override.group.id": " mine ",
        "admin.override.bootstrap.servers": bootstrap,
        "consumer.override.bootstrap.servers": "127.0.0.1:1",
    }
    with topic_admin(bootstrap) as admin:
        ensure_topics(admin, [internal_topic(FAKE_TOPIC, partitions=2)])
    groups.alter(X, config, {P0: 11}, timeout_s=20)
    other_groups = KafkaGroupOffsets(
        {"bootstrap.servers": bootstrap, "consumer.group.id": "mine"}, scratch=tmp_path
    )
    assert other_groups.read(X, {}, timeout_s=20) == {P0: 11}


def test_unavailable_kafka_raises_an_error_and_leaves_no_thread(tmp_path: Path) -> None:
    groups = KafkaGroupOffsets({"bootstrap.servers": f"127.0.0.1:{free_port()}"}, scratch=tmp_path)
    threads_before = {*threading.enumerate()}
    with pytest.raises(StoreError):
        groups.read(X, {}, timeout_s=1)
    new_threads = {*threading.enumerate()} - threads_before
    for thread in new_threads:
        thread.join(10)
    assert [thread.name for thread in new_threads if thread.is_alive()] == []


@pytest.mark.parametrize(
    ("worker", "config", "group"),
    [
        ({}, {}, "connect-x"),
        ({"consumer.group.id": "w"}, {}, "w"),
        ({"consumer.group.id": "w"}, {"consumer.override.group.id": "c"}, "c"),
        ({}, {"consumer.override.group.id": " "}, "connect-x"),
    ],
)
def test_connector_config_precedes_worker_config_for_the_group_id(
    worker: dict[str, str], config: dict[str, str], group: str
) -> None:
    assert consumer_group(worker, X, config) == group

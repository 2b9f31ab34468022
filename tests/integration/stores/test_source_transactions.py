"""Tests for the transactions of source tasks on a real broker (KIP-618 and KIP-875)."""

from __future__ import annotations

import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kraal.core.errors import Fenced, StoreError, StoreUnavailable
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import SourcePartition
from kraal.kafka.offset_store import KafkaOffsets
from kraal.kafka.source_transactions import SourceTransactions
from kraal.kafka.topics import TopicAdmin
from kraal.kafka.transactions import FENCED, TaskProducer
from tests.fakes.kafka.internal_topics import fresh_topic, internal_topic, options

PARTITION = SourcePartition.of({"filename": "f"})
Config = Mapping[str, str]
MakeTransactions = Callable[[], SourceTransactions]


@pytest.fixture
def topic(admin: TopicAdmin) -> str:
    """Create the worker's offsets topic, and return the name of the topic."""
    return fresh_topic(admin, "offsets", partitions=3)


@pytest.fixture
def make_transactions(admin: TopicAdmin, bootstrap: str, topic: str) -> Iterator[MakeTransactions]:
    """Yield a function that creates the transactions of a worker in the same group."""
    with ExitStack() as stack:

        def create() -> SourceTransactions:
            worker_offsets = KafkaOffsets(
                topic, options(bootstrap), client_id="o", admin=admin, read_committed=True, timeout_s=20
            )
            stack.callback(worker_offsets.close)
            worker = {"bootstrap.servers": bootstrap}
            transactions = SourceTransactions(
                worker,
                group_id=f"group-{topic}",
                topic=internal_topic(topic, partitions=3),
                worker_offsets=worker_offsets,
                client_id_base="test-",
            )
            stack.callback(transactions.close)
            return transactions

        yield create


def create_lines_topic(bootstrap: str, settings: Config | None = None) -> str:
    """Create a topic that is not compacted, and return the name of the topic."""
    name = f"lines-{uuid.uuid4().hex[:8]}"
    client = AdminClient({**options(bootstrap)})
    client.create_topics([NewTopic(name, 1, config=dict(settings or {}))])[name].result(20)
    return name


def connector_name(topic: str) -> ConnectorName:
    return ConnectorName(f"c-{topic}")


def read_records(
    bootstrap: str, topic: str, *, only_committed: bool = True, partitions: int = 1
) -> list[tuple[bytes | None, bytes | None, Any]]:
    """Return all records of a topic, with or without uncommitted records."""
    consumer = ck.Consumer(
        {
            **options(bootstrap),
            "group.id": "nobody",
            "isolation.level": "read_committed" if only_committed else "read_uncommitted",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([ck.TopicPartition(topic, number, 0) for number in range(partitions)])
    messages: list[tuple[bytes | None, bytes | None, Any]] = []
    ended_partitions: set[int | None] = set()
    deadline = time.monotonic() + 60
    while len(ended_partitions) < partitions:
        assert time.monotonic() < deadline
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            assert error.code() == ck.KafkaError._PARTITION_EOF, error
            ended_partitions.add(message.partition())
        else:
            messages.append((message.key(), message.value(), message.headers()))
    consumer.close()
    return messages


def read_values(bootstrap: str, topic: str, *, only_committed: bool = True) -> list[bytes | None]:
    return [value for _, value, _ in read_records(bootstrap, topic, only_committed=only_committed)]


def assert_becomes(read: Callable[[], object], expected: object) -> None:
    """Assert that committed records become the expected ones; a commit may return before its marker is written."""
    deadline = time.monotonic() + 60
    while (records := read()) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert records == expected


def test_records_and_offsets_are_committed_atomically(
    make_transactions: MakeTransactions, bootstrap: str, topic: str
) -> None:
    lines_topic, name = create_lines_topic(bootstrap), connector_name(topic)
    writer, reader = make_transactions(), make_transactions()
    producer = writer.claim(TaskId(name, 0), {})
    assert dict(writer.load(name, {})) == {}
    columns: dict[str, Any] = {
        "value": [b"1", b"2"],
        "key": [None, b"k"],
        "headers": [[("h", b"v")], None],
        "timestamp": [5, None],
    }
    producer.write(lines_topic, columns)
    assert read_records(bootstrap, lines_topic) == []
    assert producer.commit({PARTITION: {"position": 2}}) == 2
    lines = [(None, b"1", [("h", b"v")]), (b"k", b"2", None)]
    assert_becomes(lambda: read_records(bootstrap, lines_topic), lines)
    assert_becomes(
        lambda: [(k, v) for k, v, _ in read_records(bootstrap, topic, partitions=3)],
        [(f'["{name}",{{"filename":"f"}}]'.encode(), b'{"position":2}')],
    )
    assert dict(reader.load(name, {})) == {PARTITION: {"position": 2}}
    producer.close()


def test_aborted_records_are_invisible_and_written_once_on_retry(
    make_transactions: MakeTransactions, bootstrap: str, topic: str
) -> None:
    lines_topic, name = create_lines_topic(bootstrap), connector_name(topic)
    transactions = make_transactions()
    producer = transactions.claim(TaskId(name, 0), {})
    producer.write(lines_topic, {"value": [b"1", b"2"]})
    producer._require_producer().flush(20)
    producer.abort()
    assert read_values(bootstrap, lines_topic, only_committed=False) == [b"1", b"2"]
    assert read_values(bootstrap, lines_topic) == []
    assert dict(transactions.load(name, {})) == {}
    producer.write(lines_topic, {"value": [b"1", b"2"]})
    producer.commit({PARTITION: {"position": 2}})
    assert_becomes(lambda: read_values(bootstrap, lines_topic), [b"1", b"2"])
    assert dict(transactions.load(name, {})) == {PARTITION: {"position": 2}}
    producer.close()


def test_rejected_record_aborts_transaction(
    make_transactions: MakeTransactions, bootstrap: str, topic: str
) -> None:
    small_topic = create_lines_topic(bootstrap, {"max.message.bytes": "1000"})
    name = connector_name(topic)
    transactions = make_transactions()
    producer = transactions.claim(TaskId(name, 0), {"producer.override.compression.type": "none"})
    with pytest.raises(StoreError) as raised:
        _write_and_commit(producer, small_topic, [b"1", b"x" * 5000], 2)
    assert not isinstance(raised.value, StoreUnavailable)
    assert read_values(bootstrap, small_topic) == []
    assert dict(transactions.load(name, {})) == {}
    producer.close()  # the task fails; its next run claims a producer again
    next_producer = transactions.claim(TaskId(name, 0), {})
    next_producer.write(small_topic, {"value": [b"1"]})
    next_producer.commit({PARTITION: {"position": 1}})
    assert_becomes(lambda: read_values(bootstrap, small_topic), [b"1"])
    next_producer.close()


def test_large_transaction_respects_small_topic_limit(
    make_transactions: MakeTransactions, bootstrap: str, topic: str
) -> None:
    small_topic = create_lines_topic(bootstrap, {"max.message.bytes": "5000"})
    producer = make_transactions().claim(TaskId(connector_name(topic), 0), {})
    values = [secrets.token_hex(75).encode() for _ in range(300)]  # compressible records would fit
    producer.write(small_topic, {"value": values})
    assert producer.commit({PARTITION: {"position": 300}}) == 300
    assert_becomes(lambda: read_values(bootstrap, small_topic), values)
    producer.close()


def test_newer_producer_fences_older_one_and_aborts_its_transaction(
    make_transactions: MakeTransactions, bootstrap: str, topic: str
) -> None:
    lines_topic, name = create_lines_topic(bootstrap), connector_name(topic)
    old_producer = make_transactions().claim(TaskId(name, 0), {})
    old_producer.write(lines_topic, {"value": [b"1"]})
    old_producer.commit({PARTITION: {"position": 1}})
    old_producer.write(lines_topic, {"value": [b"lost"]})
    old_producer._require_producer().flush(20)
    transactions = make_transactions()
    new_producer = transactions.claim(TaskId(name, 0), {})
    assert dict(transactions.load(name, {})) == {PARTITION: {"position": 1}}
    with pytest.raises(Fenced) as raised:
        old_producer.commit({PARTITION: {"position": 2}})
    assert str(raised.value) == FENCED
    new_producer.write(lines_topic, {"value": [b"2"]})
    new_producer.commit({PARTITION: {"position": 2}})
    assert_becomes(lambda: read_values(bootstrap, lines_topic), [b"1", b"2"])
    old_producer.close()
    new_producer.close()


def test_load_waits_for_open_transaction_of_other_task(
    make_transactions: MakeTransactions, bootstrap: str, topic: str
) -> None:
    transactions, name = make_transactions(), connector_name(topic)
    other_producer = ck.Producer({**options(bootstrap), "transactional.id": f"other-{topic}"})
    other_producer.init_transactions(20)
    other_producer.begin_transaction()
    for partition in range(3):
        other_producer.produce(topic, b'{"position":9}', b'["other",{}]', partition)
    other_producer.flush(20)
    producer = transactions.claim(TaskId(name, 0), {})
    producer.commit({PARTITION: {"position": 2}})
    start_s = time.monotonic()
    reader = make_transactions()
    threading.Timer(2.0, lambda: other_producer.commit_transaction(20)).start()
    assert dict(reader.load(name, {})) == {PARTITION: {"position": 2}}
    assert time.monotonic() - start_s > 1.5
    producer.close()


def test_offsets_in_own_topic_are_copied_to_workers_topic(
    make_transactions: MakeTransactions, admin: TopicAdmin, bootstrap: str, topic: str
) -> None:
    name, own_topic = connector_name(topic), f"own-{topic}"
    config = {"offsets.storage.topic": own_topic}
    transactions = make_transactions()
    transactions.alter(name, {}, {PARTITION: {"position": 1}})
    assert dict(transactions.load(name, config)) == {PARTITION: {"position": 1}}, (
        "the worker's topic applies while the connector's own topic is empty"
    )
    producer = transactions.claim(TaskId(name, 0), config)
    producer.commit({PARTITION: {"position": 2}})
    assert_becomes(
        lambda: [v for _, v, _ in read_records(bootstrap, own_topic, partitions=3)], [b'{"position":2}']
    )
    assert admin.cleanup_policy(own_topic) == {"compact"}
    other_transactions = make_transactions()
    assert dict(other_transactions.load(name, config)) == {PARTITION: {"position": 2}}
    assert dict(other_transactions.load(name, {})) == {PARTITION: {"position": 2}}
    producer.close()


def test_altering_offsets_fences_first_task(make_transactions: MakeTransactions, topic: str) -> None:
    transactions, name = make_transactions(), connector_name(topic)
    task = transactions.claim(TaskId(name, 0), {})
    task.commit({PARTITION: {"position": 1}})
    other_transactions = make_transactions()
    other_transactions.load(name, {})
    other_transactions.alter(name, {}, {PARTITION: None})
    assert dict(transactions.load(name, {})) == {}
    with pytest.raises(Fenced):
        task.commit({PARTITION: {"position": 2}})
    task.close()


def _write_and_commit(producer: TaskProducer, topic: str, values: list[bytes], position: int) -> None:
    producer.write(topic, {"value": values})
    producer.commit({PARTITION: {"position": position}})

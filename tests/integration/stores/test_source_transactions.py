"""Source tasks' transactions on a real broker: KIP-618 and KIP-875."""

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

PART = SourcePartition.of({"filename": "f"})
Config = Mapping[str, str]
Make = Callable[[], SourceTransactions]


@pytest.fixture
def topic(admin: TopicAdmin) -> str:
    """The worker's offsets."""
    return fresh_topic(admin, "offsets", partitions=3)


@pytest.fixture
def make(admin: TopicAdmin, bootstrap: str, topic: str) -> Iterator[Make]:
    """Creates the transactions of a worker in the same group."""
    with ExitStack() as stack:

        def make_transactions() -> SourceTransactions:
            own = KafkaOffsets(
                topic, options(bootstrap), client_id="o", admin=admin, read_committed=True, timeout_s=20
            )
            stack.callback(own.close)
            worker = {"bootstrap.servers": bootstrap}
            transactions = SourceTransactions(
                worker,
                group_id=f"group-{topic}",
                topic=internal_topic(topic, partitions=3),
                worker_offsets=own,
                client_id_base="test-",
            )
            stack.callback(transactions.close)
            return transactions

        yield make_transactions


def create_lines_topic(bootstrap: str, settings: Config | None = None) -> str:
    """Create a topic that is not compacted."""
    name = f"lines-{uuid.uuid4().hex[:8]}"
    client = AdminClient({**options(bootstrap)})
    client.create_topics([NewTopic(name, 1, config=dict(settings or {}))])[name].result(20)
    return name


def connector_name(topic: str) -> ConnectorName:
    return ConnectorName(f"c-{topic}")


def read_records(
    bootstrap: str, topic: str, *, committed: bool = True, partitions: int = 1
) -> list[tuple[bytes | None, bytes | None, Any]]:
    """Return all records of a topic, with or without uncommitted ones."""
    consumer = ck.Consumer(
        {
            **options(bootstrap),
            "group.id": "nobody",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([ck.TopicPartition(topic, number, 0) for number in range(partitions)])
    messages: list[tuple[bytes | None, bytes | None, Any]] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + 60
    while len(ended) < partitions:
        assert time.monotonic() < deadline
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            assert error.code() == ck.KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
        else:
            messages.append((message.key(), message.value(), message.headers()))
    consumer.close()
    return messages


def read_values(bootstrap: str, topic: str, *, committed: bool = True) -> list[bytes | None]:
    return [value for _, value, _ in read_records(bootstrap, topic, committed=committed)]


def test_records_and_offsets_are_committed_atomically(make: Make, bootstrap: str, topic: str) -> None:
    lines_topic, name = create_lines_topic(bootstrap), connector_name(topic)
    writer, reader = make(), make()
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
    assert producer.commit({PART: {"position": 2}}) == 2
    assert read_records(bootstrap, lines_topic) == [(None, b"1", [("h", b"v")]), (b"k", b"2", None)]
    assert [(k, v) for k, v, _ in read_records(bootstrap, topic, partitions=3)] == [
        (f'["{name}",{{"filename":"f"}}]'.encode(), b'{"position":2}')
    ]
    assert dict(reader.load(name, {})) == {PART: {"position": 2}}
    producer.close()


def test_aborted_records_are_invisible_and_written_once_on_retry(
    make: Make, bootstrap: str, topic: str
) -> None:
    lines_topic, name = create_lines_topic(bootstrap), connector_name(topic)
    one = make()
    producer = one.claim(TaskId(name, 0), {})
    producer.write(lines_topic, {"value": [b"1", b"2"]})
    producer._require_producer().flush(20)
    producer.abort()
    assert read_values(bootstrap, lines_topic, committed=False) == [b"1", b"2"]
    assert read_values(bootstrap, lines_topic) == []
    assert dict(one.load(name, {})) == {}
    producer.write(lines_topic, {"value": [b"1", b"2"]})
    producer.commit({PART: {"position": 2}})
    assert read_values(bootstrap, lines_topic) == [b"1", b"2"]
    assert dict(one.load(name, {})) == {PART: {"position": 2}}
    producer.close()


def test_rejected_record_aborts_transaction(make: Make, bootstrap: str, topic: str) -> None:
    small = create_lines_topic(bootstrap, {"max.message.bytes": "1000"})
    name = connector_name(topic)
    one = make()
    producer = one.claim(TaskId(name, 0), {"producer.override.compression.type": "none"})
    with pytest.raises(StoreError) as raised:
        _written(producer, small, [b"1", b"x" * 5000], 2)
    assert not isinstance(raised.value, StoreUnavailable)
    assert read_values(bootstrap, small) == []
    assert dict(one.load(name, {})) == {}
    producer.close()  # the task fails; its next run claims a producer again
    anew = one.claim(TaskId(name, 0), {})
    anew.write(small, {"value": [b"1"]})
    anew.commit({PART: {"position": 1}})
    assert read_values(bootstrap, small) == [b"1"]
    anew.close()


def test_large_transaction_respects_small_topic_limit(make: Make, bootstrap: str, topic: str) -> None:
    small = create_lines_topic(bootstrap, {"max.message.bytes": "5000"})
    producer = make().claim(TaskId(connector_name(topic), 0), {})
    values = [secrets.token_hex(75).encode() for _ in range(300)]  # compressible records would fit
    producer.write(small, {"value": values})
    assert producer.commit({PART: {"position": 300}}) == 300
    assert read_values(bootstrap, small) == values
    producer.close()


def test_newer_producer_fences_older_one_and_aborts_its_transaction(
    make: Make, bootstrap: str, topic: str
) -> None:
    lines_topic, name = create_lines_topic(bootstrap), connector_name(topic)
    old = make().claim(TaskId(name, 0), {})
    old.write(lines_topic, {"value": [b"1"]})
    old.commit({PART: {"position": 1}})
    old.write(lines_topic, {"value": [b"lost"]})
    old._require_producer().flush(20)
    one = make()
    new = one.claim(TaskId(name, 0), {})
    assert dict(one.load(name, {})) == {PART: {"position": 1}}
    with pytest.raises(Fenced) as raised:
        old.commit({PART: {"position": 2}})
    assert str(raised.value) == FENCED
    new.write(lines_topic, {"value": [b"2"]})
    new.commit({PART: {"position": 2}})
    assert read_values(bootstrap, lines_topic) == [b"1", b"2"]
    old.close()
    new.close()


def test_load_waits_for_open_transaction_of_other_task(make: Make, bootstrap: str, topic: str) -> None:
    one, name = make(), connector_name(topic)
    other = ck.Producer({**options(bootstrap), "transactional.id": f"other-{topic}"})
    other.init_transactions(20)
    other.begin_transaction()
    for partition in range(3):
        other.produce(topic, b'{"position":9}', b'["other",{}]', partition)
    other.flush(20)
    producer = one.claim(TaskId(name, 0), {})
    producer.commit({PART: {"position": 2}})
    begun = time.monotonic()
    other_ends = make()
    threading.Timer(2.0, lambda: other.commit_transaction(20)).start()
    assert dict(other_ends.load(name, {})) == {PART: {"position": 2}}
    assert time.monotonic() - begun > 1.5
    producer.close()


def test_offsets_in_own_topic_are_copied_to_workers_topic(
    make: Make, admin: TopicAdmin, bootstrap: str, topic: str
) -> None:
    name, own = connector_name(topic), f"own-{topic}"
    config = {"offsets.storage.topic": own}
    one = make()
    one.alter(name, {}, {PART: {"position": 1}})
    assert dict(one.load(name, config)) == {PART: {"position": 1}}, (
        "the worker's topic applies while the connector's own topic is empty"
    )
    producer = one.claim(TaskId(name, 0), config)
    producer.commit({PART: {"position": 2}})
    assert [v for _, v, _ in read_records(bootstrap, own, partitions=3)] == [b'{"position":2}']
    assert admin.cleanup_policy(own) == {"compact"}
    other = make()
    assert dict(other.load(name, config)) == {PART: {"position": 2}}
    assert dict(other.load(name, {})) == {PART: {"position": 2}}
    producer.close()


def test_altering_offsets_fences_first_task(make: Make, topic: str) -> None:
    one, name = make(), connector_name(topic)
    task = one.claim(TaskId(name, 0), {})
    task.commit({PART: {"position": 1}})
    other = make()
    other.load(name, {})
    other.alter(name, {}, {PART: None})
    assert dict(one.load(name, {})) == {}
    with pytest.raises(Fenced):
        task.commit({PART: {"position": 2}})
    task.close()


def _written(producer: TaskProducer, topic: str, values: list[bytes], position: int) -> None:
    producer.write(topic, {"value": values})
    producer.commit({PART: {"position": position}})

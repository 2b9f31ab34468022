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
    """A worker's transactions, of one group, at each call."""
    with ExitStack() as stack:

        def made() -> SourceTransactions:
            own = KafkaOffsets(
                topic, options(bootstrap), client_id="o", admin=admin, read_committed=True, timeout_s=20
            )
            stack.callback(own.close)
            worker = {"bootstrap.servers": bootstrap}
            found = SourceTransactions(
                worker,
                group_id=f"group-{topic}",
                topic=internal_topic(topic, partitions=3),
                worker_offsets=own,
                client_id_base="test-",
            )
            stack.callback(found.close)
            return found

        yield made


def lines_of(bootstrap: str, settings: Config | None = None) -> str:
    """Make a topic for records, which may have no keys."""
    name = f"lines-{uuid.uuid4().hex[:8]}"
    client = AdminClient({**options(bootstrap)})
    client.create_topics([NewTopic(name, 1, config=dict(settings or {}))])[name].result(20)
    return name


def of(topic: str) -> ConnectorName:
    return ConnectorName(f"c-{topic}")


def records(
    bootstrap: str, topic: str, *, committed: bool = True, partitions: int = 1
) -> list[tuple[bytes | None, bytes | None, Any]]:
    """Everything in a topic up to its end, as a consumer in read_committed or not sees it."""
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
    found: list[tuple[bytes | None, bytes | None, Any]] = []
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
            found.append((message.key(), message.value(), message.headers()))
    consumer.close()
    return found


def lines(bootstrap: str, topic: str, *, committed: bool = True) -> list[bytes | None]:
    return [value for _, value, _ in records(bootstrap, topic, committed=committed)]


def test_records_and_offsets_come_in_one_piece(make: Make, bootstrap: str, topic: str) -> None:
    lines_topic, name = lines_of(bootstrap), of(topic)
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
    assert records(bootstrap, lines_topic) == []
    assert producer.commit({PART: {"position": 2}}) == 2
    assert records(bootstrap, lines_topic) == [(None, b"1", [("h", b"v")]), (b"k", b"2", None)]
    assert [(k, v) for k, v, _ in records(bootstrap, topic, partitions=3)] == [
        (f'["{name}",{{"filename":"f"}}]'.encode(), b'{"position":2}')
    ]
    assert dict(reader.load(name, {})) == {PART: {"position": 2}}
    producer.close()


def test_aborted_records_are_never_visible_and_come_once_when_repeated(
    make: Make, bootstrap: str, topic: str
) -> None:
    lines_topic, name = lines_of(bootstrap), of(topic)
    one = make()
    producer = one.claim(TaskId(name, 0), {})
    producer.write(lines_topic, {"value": [b"1", b"2"]})
    producer._claim_producer().flush(20)
    producer.abort()
    assert lines(bootstrap, lines_topic, committed=False) == [b"1", b"2"]
    assert lines(bootstrap, lines_topic) == []
    assert dict(one.load(name, {})) == {}
    producer.write(lines_topic, {"value": [b"1", b"2"]})
    producer.commit({PART: {"position": 2}})
    assert lines(bootstrap, lines_topic) == [b"1", b"2"]
    assert dict(one.load(name, {})) == {PART: {"position": 2}}
    producer.close()


def test_a_record_that_brokers_refuse_takes_its_whole_transaction_back(
    make: Make, bootstrap: str, topic: str
) -> None:
    small = lines_of(bootstrap, {"max.message.bytes": "1000"})
    name = of(topic)
    one = make()
    producer = one.claim(TaskId(name, 0), {"producer.override.compression.type": "none"})
    with pytest.raises(StoreError) as raised:
        _written(producer, small, [b"1", b"x" * 5000], 2)
    assert not isinstance(raised.value, StoreUnavailable)
    assert lines(bootstrap, small) == []
    assert dict(one.load(name, {})) == {}
    producer.close()  # the task fails; its next start claims again
    anew = one.claim(TaskId(name, 0), {})
    anew.write(small, {"value": [b"1"]})
    anew.commit({PART: {"position": 1}})
    assert lines(bootstrap, small) == [b"1"]
    anew.close()


def test_a_transaction_of_many_records_fits_a_topic_with_a_small_limit(
    make: Make, bootstrap: str, topic: str
) -> None:
    small = lines_of(bootstrap, {"max.message.bytes": "5000"})
    producer = make().claim(TaskId(of(topic), 0), {})
    values = [secrets.token_hex(75).encode() for _ in range(300)]  # what compresses well would fit
    producer.write(small, {"value": values})
    assert producer.commit({PART: {"position": 300}}) == 300
    assert lines(bootstrap, small) == values
    producer.close()


def test_the_newer_producer_of_a_task_fences_the_older_one_and_takes_its_open_records_back(
    make: Make, bootstrap: str, topic: str
) -> None:
    lines_topic, name = lines_of(bootstrap), of(topic)
    old = make().claim(TaskId(name, 0), {})
    old.write(lines_topic, {"value": [b"1"]})
    old.commit({PART: {"position": 1}})
    old.write(lines_topic, {"value": [b"lost"]})
    old._claim_producer().flush(20)
    one = make()
    new = one.claim(TaskId(name, 0), {})
    assert dict(one.load(name, {})) == {PART: {"position": 1}}
    with pytest.raises(Fenced) as raised:
        old.commit({PART: {"position": 2}})
    assert str(raised.value) == FENCED
    new.write(lines_topic, {"value": [b"2"]})
    new.commit({PART: {"position": 2}})
    assert lines(bootstrap, lines_topic) == [b"1", b"2"]
    old.close()
    new.close()


def test_another_task_s_open_transaction_in_the_offsets_is_waited_for(
    make: Make, bootstrap: str, topic: str
) -> None:
    one, name = make(), of(topic)
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


def test_offsets_in_a_topic_of_the_connector_s_own_count_and_the_worker_s_get_them_too(
    make: Make, admin: TopicAdmin, bootstrap: str, topic: str
) -> None:
    name, own = of(topic), f"own-{topic}"
    config = {"offsets.storage.topic": own}
    one = make()
    one.alter(name, {}, {PART: {"position": 1}})
    assert dict(one.load(name, config)) == {PART: {"position": 1}}, "as long as its own has none"
    producer = one.claim(TaskId(name, 0), config)
    producer.commit({PART: {"position": 2}})
    assert [v for _, v, _ in records(bootstrap, own, partitions=3)] == [b'{"position":2}']
    assert admin.cleanup_policy(own) == {"compact"}
    other = make()
    assert dict(other.load(name, config)) == {PART: {"position": 2}}
    assert dict(other.load(name, {})) == {PART: {"position": 2}}
    producer.close()


def test_altered_offsets_are_the_first_task_s_and_fence_it(make: Make, topic: str) -> None:
    one, name = make(), of(topic)
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

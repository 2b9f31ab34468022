"""Tests for source offsets shared by Kraal and Java workers. Mirrors KafkaOffsetBackingStoreTest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, TopicPartition

from kraal.core.errors import StoreError
from kraal.core.ids import ConnectorName
from kraal.core.offsets import SourcePartition
from kraal.kafka.offset_store import KafkaOffsets
from kraal.kafka.topics import TopicAdmin
from tests.fakes.kafka.internal_topics import fresh_topic, options, produce

CONNECTOR, OTHER_CONNECTOR = ConnectorName("x"), ConnectorName("y")
PARTITION = SourcePartition.of({"filename": "/a", "part": 1})
KRAAL_KEY, JAVA_KEY = b'["x",{"filename":"/a","part":1}]', b'["x",{"part":1,"filename":"/a"}]'

MakeStore = Callable[[str], KafkaOffsets]


@pytest.fixture
def make_store(admin: TopicAdmin, bootstrap: str) -> Iterator[MakeStore]:
    with ExitStack() as stack:

        def make(topic: str) -> KafkaOffsets:
            store = KafkaOffsets(
                topic, options(bootstrap), client_id="test-offsets", admin=admin, timeout_s=10
            )
            stack.callback(store.close)
            return store

        yield make


@pytest.fixture
def topic(admin: TopicAdmin) -> str:
    return fresh_topic(admin, "offsets", partitions=25)


def read_latest_values(bootstrap: str, topic: str, count: int) -> dict[bytes | None, bytes | None]:
    """Return the latest value of each key after `count` records."""
    consumer = Consumer({**options(bootstrap), "group.id": "look", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(25)])
    latest_values: dict[bytes | None, bytes | None] = {}
    for _ in range(count):
        message = consumer.poll(10)
        assert message is not None
        latest_values[message.key()] = message.value()
    consumer.close()
    return latest_values


def test_load_returns_offsets_of_another_worker(make_store: MakeStore, topic: str) -> None:
    first_store, second_store = make_store(topic), make_store(topic)
    for number in range(30):
        first_store.store({CONNECTOR: {PARTITION: {"position": number}}})
        assert second_store.load(CONNECTOR) == {PARTITION: {"position": number}}
        second_store.store(
            {CONNECTOR: {PARTITION: {"position": -number}}, OTHER_CONNECTOR: {PARTITION: {"position": 7}}}
        )
        assert first_store.load(CONNECTOR) == {PARTITION: {"position": -number}}
    assert first_store.load(OTHER_CONNECTOR) == {PARTITION: {"position": 7}}


def test_stored_keys_and_values_are_byte_identical_to_connect(
    make_store: MakeStore, topic: str, bootstrap: str
) -> None:
    make_store(topic).store(
        {CONNECTOR: {PARTITION: {"position": 1, "s": "é"}}, OTHER_CONNECTOR: {PARTITION: None}}
    )
    assert read_latest_values(bootstrap, topic, 2) == {
        KRAAL_KEY: '{"position":1,"s":"é"}'.encode(),
        b'["y",{"filename":"/a","part":1}]': None,
    }


def test_partitions_that_differ_in_field_order_are_equal(
    make_store: MakeStore, topic: str, bootstrap: str
) -> None:
    produce(bootstrap, topic, [(KRAAL_KEY, b'{"position":1}')])
    produce(bootstrap, topic, [(JAVA_KEY, b'{"position":2}')])
    store = make_store(topic)
    assert store.load(CONNECTOR) == {PARTITION: {"position": 2}}
    store.store({CONNECTOR: {PARTITION: {"position": 3}}})
    assert read_latest_values(bootstrap, topic, 4) == {
        KRAAL_KEY: b'{"position":3}',
        JAVA_KEY: b'{"position":3}',
    }
    assert store.load(CONNECTOR) == {PARTITION: {"position": 3}}
    produce(bootstrap, topic, [(JAVA_KEY, None)])
    assert store.load(CONNECTOR) == {}


def test_other_records_are_logged_and_skipped(
    make_store: MakeStore, topic: str, bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    produce(bootstrap, topic, [(b"\xff", b"1"), (b"{}", b"2")], partition=3)
    produce(bootstrap, topic, [(b'["x",[]]', b"3"), (KRAAL_KEY, b'{"position":1}')], partition=4)
    produce(bootstrap, topic, [(b'["y",null]', b"null")], partition=5)
    with caplog.at_level(logging.WARNING):
        assert make_store(topic).load(CONNECTOR) == {PARTITION: {"position": 1}}
    assert f"Skipping the record of {topic}-3 at offset 0" in caplog.text
    assert f"Skipping the record of {topic}-3 at offset 1" in caplog.text
    assert f"Skipping the record of {topic}-4 at offset 0" in caplog.text


def test_invalid_offset_fails_only_its_connector(make_store: MakeStore, topic: str, bootstrap: str) -> None:
    produce(bootstrap, topic, [(KRAAL_KEY, b"[1]"), (b'["y",{"filename":"/a","part":1}]', b'{"position":1}')])
    store = make_store(topic)
    with pytest.raises(StoreError, match="contains an invalid offset for the key b"):
        store.load(CONNECTOR)
    assert store.load(OTHER_CONNECTOR) == {PARTITION: {"position": 1}}


def test_missing_topic_is_an_error(make_store: MakeStore) -> None:
    with pytest.raises(StoreError, match="'no-offsets' does not exist"):
        make_store("no-offsets").load(CONNECTOR)

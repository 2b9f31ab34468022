"""Tests for the contract of OffsetStore, as implemented in memory, in Connect's file, and in Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kraal.core.ids import ConnectorName
from kraal.core.offsets import SourcePartition
from kraal.kafka.offset_store import KafkaOffsets
from kraal.stores.api import OffsetStore
from kraal.stores.memory import MemoryOffsets
from kraal.stores.offset_file import OffsetFile
from tests.fakes.kafka.internal_topics import fresh_topic, options, topic_admin

X, Y = ConnectorName("x"), ConnectorName("y é")
P = SourcePartition.of({"filename": "/a", "part": 1})
P_REORDERED = SourcePartition.of({"part": 1, "filename": "/a"})
Q = SourcePartition.of({"filename": "/b", "part": None})


@pytest.fixture(params=["memory", "file", "kafka"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OffsetStore]:
    with ExitStack() as stack:
        new_store: OffsetStore
        match request.param:
            case "memory":
                new_store = MemoryOffsets()
            case "file":
                new_store = OffsetFile(tmp_path / "offsets")
            case _:
                bootstrap = request.getfixturevalue("bootstrap")
                admin = stack.enter_context(topic_admin(bootstrap))
                new_store = KafkaOffsets(
                    fresh_topic(admin, "offsets", partitions=25),
                    options(bootstrap),
                    client_id="test-offsets",
                    admin=admin,
                    timeout_s=10,
                )
        stack.callback(new_store.close)
        yield new_store


def test_unknown_connector_has_no_offsets(store: OffsetStore) -> None:
    assert dict(store.load(X)) == {}


def test_offsets_are_stored_by_connector_and_partition(store: OffsetStore) -> None:
    store.store({X: {P: {"position": 1}, Q: {"position": 2}}, Y: {P: {"position": 3}}})
    store.store({X: {P: {"position": 4}}})
    assert dict(store.load(X)) == {P: {"position": 4}, Q: {"position": 2}}
    assert dict(store.load(Y)) == {P: {"position": 3}}


def test_storing_none_deletes_the_offset(store: OffsetStore) -> None:
    store.store({X: {P: {"position": 1}, Q: {"position": 2}}})
    store.store({X: {P: None}, Y: {P: None}})
    assert dict(store.load(X)) == {Q: {"position": 2}}
    store.store({X: {P: {"position": 9}}})
    assert store.load(X)[P] == {"position": 9}


def test_order_of_partition_fields_is_irrelevant(store: OffsetStore) -> None:
    store.store({X: {P: {"position": 1}}})
    store.store({X: {P_REORDERED: {"position": 2}}})
    assert dict(store.load(X)) == {P: {"position": 2}}


def test_types_of_offset_fields_are_preserved(store: OffsetStore) -> None:
    offset = {"i": 2**60, "f": 0.5, "b": True, "n": None, "s": "é\U0001f600"}
    store.store({X: {P: offset}})
    assert store.load(X)[P] == offset

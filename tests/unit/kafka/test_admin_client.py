"""Tests that the shared admin client leaks no resources if no broker responds."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from kraal.core.errors import StoreError
from kraal.kafka import topics as kafka_topics
from kraal.kafka.topics import TopicAdmin

CREATED_CLIENTS: list[weakref.ref[AdminClient]] = []


class RecordingClient(AdminClient):
    """A client that adds a weak reference to itself to `CREATED_CLIENTS`."""

    def __init__(self, settings: dict[str, str | int | float | bool]) -> None:
        super().__init__(settings)
        CREATED_CLIENTS.append(weakref.ref(self))


@pytest.fixture
def _disable_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Record created clients, and disable the garbage collector, because full collections are rare in workers."""
    CREATED_CLIENTS.clear()
    monkeypatch.setattr(kafka_topics, "AdminClient", RecordingClient)
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_disable_garbage_collector")
def test_client_without_response_is_deleted_with_its_threads() -> None:
    admin = TopicAdmin({"bootstrap.servers": "127.0.0.1:1"}, client_id="asks", timeout_s=0.2)
    for _ in range(2):
        with pytest.raises(StoreError):
            admin.describe("a topic")
        with pytest.raises(StoreError):
            admin.end_offsets("a topic", 1)
    assert len(CREATED_CLIENTS) == 4, "each failed call used a new client"
    assert [ref() for ref in CREATED_CLIENTS] == [None] * 4

"""What the shared administrator's client leaves behind when no broker answers."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from kraal.core.errors import StoreError
from kraal.kafka import topics as kafka_topics
from kraal.kafka.topics import TopicAdmin

MADE: list[weakref.ref[AdminClient]] = []


class Noted(AdminClient):
    """A client whose end can be seen."""

    def __init__(self, settings: dict[str, str | int | float | bool]) -> None:
        super().__init__(settings)
        MADE.append(weakref.ref(self))


@pytest.fixture
def _no_collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is collected: workers seldom look through all that there is."""
    MADE.clear()
    monkeypatch.setattr(kafka_topics, "AdminClient", Noted)
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
def test_a_client_that_got_no_answer_is_let_go_of_with_its_threads() -> None:
    admin = TopicAdmin({"bootstrap.servers": "127.0.0.1:1"}, client_id="asks", timeout_s=0.2)
    for _ in range(2):
        with pytest.raises(StoreError):
            admin.describe("a topic")
        with pytest.raises(StoreError):
            admin.end_offsets("a topic", 1)
    assert len(MADE) == 4, "each failure had a client of its own"
    assert [ref() for ref in MADE] == [None] * 4

"""Tests for `read_topic`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kraal.broker import records
from kraal.broker.records import read_topic
from kraal.jars.errors import BrokerError


class Consumer:
    """A fake consumer of a topic with one empty partition, whose first requests for offsets fail."""

    offset_errors: list[int] = []  # noqa: RUF012 - set by each test

    def __init__(self, _: dict[str, Any]) -> None:
        self.remaining_errors = list(self.offset_errors)

    def list_topics(self, topic: str, **_: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: None})})

    def get_watermark_offsets(self, _partition: object, **_: float) -> tuple[int, int]:
        if self.remaining_errors:
            raise KafkaException(KafkaError(self.remaining_errors.pop(0)))
        return 0, 0

    def assign(self, _: object) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> type[Consumer]:
    monkeypatch.setattr(records, "Consumer", Consumer)
    monkeypatch.setattr(records, "_POLL_INTERVAL_S", 0.0)
    return Consumer


def test_offsets_are_requested_again_until_topic_has_leader(
    consumer: type[Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE]
    monkeypatch.setattr(consumer, "offset_errors", errors)
    assert read_topic("broker:1", "new", timeout_s=30) == []


def test_other_errors_are_raised(consumer: type[Consumer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "offset_errors", [KafkaError.TOPIC_AUTHORIZATION_FAILED])
    with pytest.raises(BrokerError, match="Failed to read topic new"):
        read_topic("broker:1", "new", timeout_s=30)

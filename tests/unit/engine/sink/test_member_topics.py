"""Tests for the topics that a group member subscribes to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import confluent_kafka as ck
import pytest

from kraal.engine.sink.group_member import Member
from kraal.engine.sink.topic_pattern import TopicPattern
from kraal.plugins.api import RetriableError


class Consumer:
    """A consumer without records."""

    def __init__(self) -> None:
        self.topics: dict[str, None] = {"__consumer_offsets": None}
        self.subscriptions: list[list[str]] = []

    def list_topics(self, timeout: float) -> Any:
        assert timeout > 0
        if not self.topics:
            raise ck.KafkaException(ck.KafkaError(ck.KafkaError._TRANSPORT))
        return SimpleNamespace(topics=self.topics)

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        assert callbacks.keys() == {"on_assign", "on_revoke", "on_lost"}
        self.subscriptions.append(topics)

    def unsubscribe(self) -> None:
        self.subscriptions.append([])

    def consume(self, count: int, timeout: float) -> list[Any]:
        del count, timeout
        return []


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    consumer = Consumer()
    monkeypatch.setattr(ck, "Consumer", lambda *_, **__: consumer)
    return consumer


def make_member(*topics: str, pattern: str | None = None) -> Member:
    topic_pattern = None if pattern is None else TopicPattern(pattern, "g", {})
    return Member({"group.id": "g"}, topics, topic_pattern, lambda *_: None)


def test_listed_topics_are_subscribed_to_at_once(consumer: Consumer) -> None:
    make_member("b", "a").poll(1)
    assert consumer.subscriptions == [["b", "a"]]


def test_subscription_follows_the_topics_that_match_a_pattern(consumer: Consumer) -> None:
    group_member = make_member(pattern=r"\w+")
    for name in (None, "a", "b", "b"):
        consumer.topics |= {} if name is None else {name: None}
        group_member.find_topics()
        group_member.poll(1)
    assert consumer.subscriptions == [["a"], ["a", "b"]]
    del consumer.topics["a"], consumer.topics["b"]
    group_member.find_topics()
    group_member.poll(1)
    assert consumer.subscriptions[2:] == [[]], "internal topics do not match"


def test_failed_topic_listing_is_retriable(consumer: Consumer) -> None:
    consumer.topics.clear()
    group_member = make_member(pattern=".*")
    with pytest.raises(RetriableError):
        group_member.find_topics()
    assert group_member.pattern is not None
    assert group_member.pattern.is_due

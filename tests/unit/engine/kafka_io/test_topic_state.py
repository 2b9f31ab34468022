"""Tests for the reasons why brokers reject records for a topic."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka as ck
import pytest

from kraal.engine.kafka_io import topic_state as module
from kraal.engine.kafka_io.topic_state import describe_write_failure


class Admin:
    """An admin client with predefined responses."""

    def __init__(self, topic: Any, min_in_sync: str) -> None:
        self.topic = topic
        self.configs = {"min.insync.replicas": SimpleNamespace(value=min_in_sync)}

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        """Return a future with the topic description or an error."""
        del topics
        return {"t": make_future(self.topic)}

    def describe_configs(self, resources: Sequence[Any], **_: Any) -> dict[Any, Future[Any]]:
        """Return the configs of the topic."""
        return {resource: make_future(self.configs) for resource in resources}


def make_future(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
    return future


def make_topic(*in_sync: int, leader: int | None = 1) -> Any:
    return SimpleNamespace(
        partitions=[
            SimpleNamespace(id=number, leader=leader, isr=list(range(count)), replicas=[1, 2, 3])
            for number, count in enumerate(in_sync)
        ]
    )


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (make_topic(2, 3), ""),
        (
            make_topic(2, 1),
            "partition 1 of the topic 't' has 1 replicas in sync, fewer than min.insync.replicas=2 of the topic",
        ),
        (make_topic(2, leader=None), "partition 0 of the topic 't' has no leader"),
        (
            ck.KafkaException(ck.KafkaError(ck.KafkaError.UNKNOWN_TOPIC_OR_PART)),
            "the topic 't' cannot be looked up: Broker: Unknown topic or partition",
        ),
        (TimeoutError(), "the topic 't' cannot be looked up: TimeoutError()"),
    ],
)
def test_topic_state_explains_failed_writes(monkeypatch: pytest.MonkeyPatch, topic: Any, reason: str) -> None:
    monkeypatch.setattr(module, "AdminClient", lambda _: Admin(topic, "2"))
    assert describe_write_failure({"bootstrap.servers": "b:1"}, "t") == reason

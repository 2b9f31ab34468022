"""Tests for the dead letters of sinks, with a simulated producer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import confluent_kafka as ck
import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.kafka_io import dead_letter_writer as module
from kraal.engine.kafka_io.dead_letter_writer import (
    DeadLetter,
    DeadLetters,
    DeadLettersFailed,
    DeadLetterTopic,
)
from kraal.plugins.api import RetriableError

TOPIC = DeadLetterTopic(name="dead", replication_factor=1, with_context=False)


class Producer:
    """A producer whose flush sends the queued records as one batch, which must not exceed the topic's limit."""

    def __init__(self, settings: dict[str, Any], limit: int = 1_048_588) -> None:
        self.settings = settings
        self.limit = limit
        self.queued: list[tuple[int, Callable[..., None]]] = []
        self.batches: list[int] = []
        self.headers: list[tuple[str, bytes | None]] = []
        self.error_code: int | None = None
        """The error code with which all batches fail, or None."""

    def produce(
        self, topic: str, *, value: bytes, headers: Any, on_delivery: Callable[..., None], **_: Any
    ) -> None:
        """Queue a record, or reject it like librdkafka."""
        assert topic == "dead"
        self.headers += headers
        if len(value) > int(self.settings["message.max.bytes"]):
            raise ck.KafkaException(ck.KafkaError(ck.KafkaError.MSG_SIZE_TOO_LARGE))
        self.queued.append((len(value), on_delivery))

    def poll(self, wait_s: float) -> int:
        """No-op: records wait for a flush."""
        assert not wait_s
        return 0

    def __len__(self) -> int:
        return len(self.queued)

    def purge(self) -> None:
        """No-op: a flush leaves no records in the queue."""

    def flush(self, _: float) -> int:
        """Send the queued records."""
        sent, self.queued = self.queued, []
        size = sum(size for size, _ in sent)
        self.batches.append(size)
        code = ck.KafkaError.MSG_SIZE_TOO_LARGE if size > self.limit else self.error_code
        error = None if code is None else ck.KafkaError(code)
        for _, on_delivery in sent:
            on_delivery(error, None)
        return 0


def make_writer(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, **config: str
) -> tuple[DeadLetters, list[Any]]:
    """Return a writer for a topic with this limit, and a list of the producers that the writer creates."""
    producers: list[Any] = []

    def create(settings: dict[str, Any]) -> Producer:
        producer = Producer(settings, limit or 1_048_588)
        producers.append(producer)
        return producer

    monkeypatch.setattr(ck, "Producer", create)
    monkeypatch.setattr(module, "AdminClient", lambda _: Admin())
    monkeypatch.setattr(module, "read_limits", lambda _, names: dict.fromkeys(names, limit))
    writer = DeadLetters(TOPIC, TaskId(ConnectorName("c"), 0), {"bootstrap.servers": "b:1"}, config)
    writer.prepare()
    return writer, producers


class Admin:
    """An admin client of a cluster in which the topic exists."""

    topics = ("dead",)

    def list_topics(self, timeout: float) -> Admin:
        """Return this object as the cluster metadata."""
        assert timeout
        return self


def letter(size: int) -> DeadLetter:
    return DeadLetter(headers=[], key=None, value=b"x" * size, timestamp_ms=None)


@pytest.mark.parametrize("size", [1_000_001, 1_048_576])
def test_dead_letter_up_to_the_java_limit_is_written(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    writer, producers = make_writer(monkeypatch, None)
    writer.write([letter(size)])
    assert producers[0].batches == [size]


def test_error_for_a_dead_letter_the_producer_rejects_contains_the_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer, _ = make_writer(monkeypatch, None)
    with pytest.raises(DeadLettersFailed, match=r"raise producer\.override\.max\.request\.size") as raised:
        writer.write([letter(1_048_577)])
    assert "A record of 1048577 bytes for the topic 'dead' is larger than max.request.size=1048576" in (
        str(raised.value)
    )
    writer, _ = make_writer(monkeypatch, None, **{"producer.override.max.request.size": "2000000"})
    writer.write([letter(1_048_577)])


def test_error_for_a_dead_letter_the_brokers_reject_contains_the_topic_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer, _ = make_writer(monkeypatch, 1000)
    with pytest.raises(DeadLettersFailed, match=r"is larger than max\.message\.bytes=1000 of the topic"):
        writer.write([letter(100), letter(1500)])


def test_dead_letter_timeout_raises_a_retriable_error_with_the_topic_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer, producers = make_writer(monkeypatch, None)
    writer.write([letter(1)])
    producers[0].error_code = ck.KafkaError._MSG_TIMED_OUT
    monkeypatch.setattr(module, "describe_write_failure", lambda _, topic: f"too few replicas of {topic}")
    with pytest.raises(RetriableError, match="Message timed out: too few replicas of dead"):
        writer.write([letter(1)])


@pytest.mark.parametrize("limit", [1000, None])
def test_dead_letter_batches_do_not_exceed_the_topic_limit(
    monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    writer, producers = make_writer(monkeypatch, limit)
    writer.write([letter(300)] * 100)
    assert sum(producers[0].batches) == 30_000
    assert max(producers[0].batches) <= (limit or 16_384)


def test_nul_in_a_header_name_of_a_dead_letter_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer, producers = make_writer(monkeypatch, None)
    headers = [("a\0b", b"1"), ("c", None)]
    writer.write([DeadLetter(headers=headers, key=None, value=b"x", timestamp_ms=None)])
    assert producers[0].headers == [("a\ufffdb", b"1"), ("c", None)]


def test_dead_letter_producer_has_one_request_in_flight_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    writer, producers = make_writer(monkeypatch, None)
    writer.write([letter(1)])
    assert producers[0].settings["max.in.flight.requests.per.connection"] == "1"
    writer, producers = make_writer(
        monkeypatch, None, **{"producer.override.max.in.flight.requests.per.connection": "5"}
    )
    writer.write([letter(1)])
    assert producers[0].settings["max.in.flight.requests.per.connection"] == "5"

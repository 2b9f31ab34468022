"""Tests for writing dead letters with a fake producer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import confluent_kafka as ck
import pytest

from kraal.dead_letters.api import KafkaUnavailable
from kraal.dead_letters.kafka import Kafka
from kraal.dead_letters.records import DeadLetter, Target

TARGET = Target(topic="t", partition=None)


class Producer:
    """A producer that rejects oversized records, as librdkafka and brokers do."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.limit = int(settings["message.max.bytes"])
        self.reports: list[Callable[[], None]] = []

    def produce(self, topic: str, *, value: bytes, on_delivery: Callable[..., None], **_: Any) -> None:
        """Queue a record, or raise KafkaException if it is larger than `message.max.bytes`."""
        error = ck.KafkaError(ck.KafkaError.MSG_SIZE_TOO_LARGE)
        if len(value) > self.limit:
            raise ck.KafkaException(error)
        message = SimpleNamespace(topic=lambda: topic, key=lambda: None, value=lambda: value)
        broker_error = error if len(value) > 1_048_000 else None
        self.reports.append(lambda: on_delivery(broker_error, message))

    def flush(self, _: float) -> int:
        """Deliver the reports of all records."""
        for report in self.reports:
            report()
        return 0


def make_letter(size: int) -> DeadLetter:
    return DeadLetter(
        topic="dead", partition=0, offset=0, timestamp_ms=None, key=None, value=b"x" * size, headers=[]
    )


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (1_000_001, None),
        (
            1_048_001,
            r"A record of 1048001 bytes for the topic 't' is larger than max\.message\.bytes of the topic",
        ),
        (
            1_048_577,
            r"is larger than max\.request\.size=1048576 of the producer.*raise producer\.max\.request\.size",
        ),
    ],
)
def test_letter_is_written_up_to_the_size_limits(
    monkeypatch: pytest.MonkeyPatch, size: int, reason: str | None
) -> None:
    monkeypatch.setattr(ck, "Producer", Producer)
    kafka = Kafka({"bootstrap.servers": "b:1"})
    if reason is None:
        kafka.write([(make_letter(size), TARGET)])
    else:
        with pytest.raises(KafkaUnavailable, match=reason):
            kafka.write([(make_letter(size), TARGET)])


def test_header_name_with_nul_is_rejected_before_write(monkeypatch: pytest.MonkeyPatch) -> None:
    producers: list[Producer] = []

    def create(settings: dict[str, Any]) -> Producer:
        producers.append(Producer(settings))
        return producers[-1]

    monkeypatch.setattr(ck, "Producer", create)
    letter_with_nul = replace(make_letter(1), offset=7, headers=[("a\0b", b"1")])
    with pytest.raises(KafkaUnavailable, match=r"the header name 'a\\x00b' of dead-0@7 contains NUL$"):
        Kafka({"bootstrap.servers": "b:1"}).write([(make_letter(1), TARGET), (letter_with_nul, TARGET)])
    assert producers == []

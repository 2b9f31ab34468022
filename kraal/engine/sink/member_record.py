"""A record as read by a sink's group member."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kraal.core.message_headers import Headers, read_headers


@dataclass(frozen=True, slots=True)
class Record:
    """A record as read by the member."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    headers: Headers | None
    """None: only Spark can read them, because a name is not valid UTF-8."""
    key: bytes | None
    value: bytes | None
    timestamp_type: int = 0
    """Kafka's number: 0 set by the producer, 1 by the broker, -1 none."""


def make_record(message: Any) -> Record:
    """Return the record of librdkafka's message. Call once: the message returns its headers once."""
    kind, timestamp = message.timestamp()
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp,
        read_headers(message),
        message.key(),
        message.value(),
        kind - 1,  # librdkafka counts from "none"
    )

"""The records that a sink's group member reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kraal.core.message_headers import Headers, read_headers


@dataclass(frozen=True, slots=True)
class Record:
    """A record that the member has read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    headers: Headers | None
    """None if a header name is not valid UTF-8, so that only Spark can read the headers."""
    key: bytes | None
    value: bytes | None
    timestamp_type: int = 0
    """Kafka's id: 0 for CreateTime, 1 for LogAppendTime, -1 for none."""


def make_record(message: Any) -> Record:
    """Return the record for a message of librdkafka.

    Must be called only once for a message, because a message returns its headers only once.
    """
    timestamp_type, timestamp_ms = message.timestamp()
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp_ms,
        read_headers(message),
        message.key(),
        message.value(),
        timestamp_type - 1,  # librdkafka's types start at 0 (no timestamp), Java's at -1
    )

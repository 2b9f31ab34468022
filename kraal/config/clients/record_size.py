"""The default of a producer's `max.request.size`, and the errors for oversized records, which name a setting to raise.

The default is 1,048,576 bytes in Java and 1,000,000 in librdkafka, which calls the setting `message.max.bytes`.
Source: ProducerConfig.MAX_REQUEST_SIZE_CONFIG, RecordTooLargeException (Kafka 4.3.0).
"""

from __future__ import annotations

from typing import Final

MAX_REQUEST_SIZE: Final = "max.request.size"
DEFAULT_BYTES: Final = "1048576"
LIBRDKAFKA_NAME: Final = "message.max.bytes"
LIBRDKAFKA_DEFAULT: Final = {LIBRDKAFKA_NAME: DEFAULT_BYTES}
"""Java's default under librdkafka's name; users can override it."""
TOPIC_LIMIT: Final = "max.message.bytes"


def too_large_for_producer(topic: str, size: int | None, limit: object, key: str) -> str:
    """Return the error for a record that exceeds a producer's limit; `key` is the setting to raise."""
    return (
        f"{_describe_record(topic, size)} is larger than {MAX_REQUEST_SIZE}={limit} of the producer. Make records "
        f"smaller, or raise {key} and {TOPIC_LIMIT} of the topic"
    )


def too_large_for_topic(topic: str, size: int | None, limit: int | None) -> str:
    """Return the error for a record that exceeds a topic's limit; `limit` is None if the topic's limit is unknown."""
    setting = TOPIC_LIMIT if limit is None else f"{TOPIC_LIMIT}={limit}"
    return (
        f"{_describe_record(topic, size)} is larger than {setting} of the topic. Make records smaller, or raise "
        f"{TOPIC_LIMIT} of the topic"
    )


def _describe_record(topic: str, size: int | None) -> str:
    return f"A record {'' if size is None else f'of {size} bytes '}for the topic {topic!r}"

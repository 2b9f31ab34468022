"""The default of a producer's `max.request.size`, and errors for records that are too large, which name what to change.

Java's default is 1,048,576 bytes and librdkafka's, which calls it `message.max.bytes`, 1,000,000.
Source: ProducerConfig.MAX_REQUEST_SIZE_CONFIG, RecordTooLargeException (Kafka 4.3.0).
"""

from __future__ import annotations

from typing import Final

MAX_REQUEST_SIZE: Final = "max.request.size"
DEFAULT_BYTES: Final = "1048576"
LIBRDKAFKA_NAME: Final = "message.max.bytes"
LIBRDKAFKA_DEFAULT: Final = {LIBRDKAFKA_NAME: DEFAULT_BYTES}
"""The setting under librdkafka's name, below the user's own."""
TOPIC_LIMIT: Final = "max.message.bytes"


def refused_by_producer(topic: str, size: int | None, limit: object, key: str) -> str:
    """Return the error for a record that a producer does not send; `key`: the setting that allows more."""
    return (
        f"{_record(topic, size)} is larger than {MAX_REQUEST_SIZE}={limit} of the producer. Make records smaller, or "
        f"raise {key}, and {TOPIC_LIMIT} of the topic with it"
    )


def refused_by_brokers(topic: str, size: int | None, limit: int | None) -> str:
    """Return the error for a record that is too large for a topic; `limit`: that of the topic, None: not known."""
    of_topic = TOPIC_LIMIT if limit is None else f"{TOPIC_LIMIT}={limit}"
    return (
        f"{_record(topic, size)} is larger than {of_topic} of the topic. Make records smaller, or raise {TOPIC_LIMIT} "
        "of the topic"
    )


def _record(topic: str, size: int | None) -> str:
    return f"A record {'' if size is None else f'of {size} bytes '}for the topic {topic!r}"

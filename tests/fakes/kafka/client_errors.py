"""Creates errors that have an error of a Kafka client as their cause."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from kraal.core.errors import StoreError


def make_store_error(code: int) -> StoreError:
    """Return a StoreError caused by the client's error `code`. The message does not contain the code."""
    error = StoreError("cannot look it up")
    error.__cause__ = KafkaException(KafkaError(code))
    return error

"""Errors that are caused by errors of Kafka clients."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from kraal.core.errors import StoreError


def make_store_error(code: int) -> StoreError:
    """Return the error of a request that failed with this code, which the message does not contain."""
    error = StoreError("cannot look it up")
    error.__cause__ = KafkaException(KafkaError(code))
    return error

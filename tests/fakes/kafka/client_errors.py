"""Errors of Kafka's clients, as Kraal raises them again."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from kraal.core.errors import StoreError


def caused_by(code: int) -> StoreError:
    """Return the error of a request that a client has failed with this code; its text does not tell which."""
    error = StoreError("cannot look it up")
    error.__cause__ = KafkaException(KafkaError(code))
    return error

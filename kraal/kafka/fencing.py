"""Fences producers by their transactional ids, like `Admin.fenceProducers` (KIP-618)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException, Producer

from kraal.core.errors import StoreError
from kraal.kafka.settings import LastClientError, client


def fence_producers(
    options: Mapping[str, str], transactional_ids: Sequence[str], *, client_id: str, timeout_s: float
) -> None:
    """Fence every producer with one of these ids; blocks, at most about `timeout_s` for each.

    `options`: librdkafka's. A producer that initializes with an id fences all earlier ones. Raises StoreError.
    """
    for each in transactional_ids:
        last_error = LastClientError()
        settings = {
            **client(options, client_id, last_error),
            "transactional.id": each,
            "transaction.timeout.ms": str(round(timeout_s * 1000)),
        }
        settings.pop("group.id", None)
        try:
            Producer(settings).init_transactions(timeout_s)
        except KafkaException as exc:
            raise StoreError(f"cannot fence the producer {each!r}: {last_error.added_to(exc)}") from exc

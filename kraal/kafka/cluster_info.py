"""Queries the id of the Kafka cluster and the names of its topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kraal.core.errors import StoreError


def list_topics(bootstrap_servers: str, client: Mapping[str, str], *, timeout_s: float) -> frozenset[str]:
    """Return the names of the topics that the worker can access; block for up to `timeout_s`. Raises KafkaException."""
    settings: dict[str, Any] = {**client, "bootstrap.servers": bootstrap_servers, "log_level": "0"}
    return frozenset(AdminClient(settings).list_topics(timeout=timeout_s).topics)


def read_cluster_id(bootstrap_servers: str, client: Mapping[str, str], *, timeout_s: float) -> str:
    """Return the cluster's id. Blocks for up to about `timeout_s`. Raises StoreError if no broker responds.

    `client` contains librdkafka's options. The error contains the last connection error, such as a failed login.
    """
    errors: list[str] = []
    settings: dict[str, Any] = {
        **client,
        "bootstrap.servers": bootstrap_servers,
        "log_level": "0",
        "error_cb": lambda error: errors.append(error.str()),
    }
    admin = AdminClient(settings)
    try:
        description = admin.describe_cluster(request_timeout=timeout_s).result(timeout_s + 1)
    except (KafkaException, TimeoutError) as exc:
        admin.poll(0)  # an admin client reports connection errors only when polled
        raise StoreError(
            f"no Kafka broker responds at {bootstrap_servers}: {_find_reason(errors, exc)}"
        ) from exc
    return str(description.cluster_id)


def _find_reason(errors: Sequence[str], error: Exception) -> str:
    """Return the last connection error, if any, because the failed call itself only reports a timeout."""
    specific_errors = [text for text in errors if "brokers are down" not in text]
    return specific_errors[-1] if specific_errors else str(error)

"""Asks Kafka who it is."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kraal.errors import StoreError


def cluster_id(bootstrap_servers: str, client: Mapping[str, str], *, timeout_s: float) -> str:
    """Return the cluster's id; blocks at most about `timeout_s`. Raises StoreError while no broker answers."""
    settings: dict[str, str | int | float | bool] = {
        **client,
        "bootstrap.servers": bootstrap_servers,
        "log_level": "0",
    }
    admin = AdminClient(settings)
    try:
        found = admin.describe_cluster(request_timeout=timeout_s).result(timeout_s + 1)
    except (KafkaException, TimeoutError) as exc:
        raise StoreError(f"no Kafka broker answers at {bootstrap_servers}: {exc}") from exc
    return str(found.cluster_id)

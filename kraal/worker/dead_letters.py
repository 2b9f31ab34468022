"""Kafka clients for the dead letter topics of a worker's connectors, with the worker's client settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kraal.config.clients.keys import Client
from kraal.config.clients.layers import bootstrap, merge_layers
from kraal.dead_letters.kafka import Kafka
from kraal.dead_letters.selection import NoDeadLetters

_REQUEST_TIMEOUT_S: Final = 5.0
_WRITE_TIMEOUT_S: Final = 20.0
_CLIENTS: Final[tuple[Client, ...]] = ("producer", "consumer")
_INTERNAL_TOPICS: Final = ("config.storage.topic", "offset.storage.topic", "status.storage.topic")
_OVERRIDE: Final = "{}.override.bootstrap.servers"


def dead_letter_clients(worker: Mapping[str, str]) -> Callable[[Mapping[str, str | None]], Kafka]:
    """Return a function that connects to a connector's dead letter topic, given the connector's config.

    `worker` must be the resolved worker config with `bootstrap.servers`. Its `producer.*`, `consumer.*` and `admin.*`
    settings apply, as for connectors; the overrides of connectors do not apply. The function raises NoDeadLetters for a
    connector that uses another cluster.
    """
    servers = bootstrap(worker, {}, "producer")
    internal_topics = frozenset(topic for key in _INTERNAL_TOPICS if (topic := worker.get(key, "").strip()))

    def client_settings(client: Client) -> dict[str, str]:
        return {**merge_layers(worker, {}, client), "bootstrap.servers": servers}

    def connect(config: Mapping[str, str | None]) -> Kafka:
        for client in _CLIENTS:
            key = _OVERRIDE.format(client)
            brokers = config.get(key) or bootstrap(worker, {}, client)
            if brokers != servers:
                raise NoDeadLetters(
                    f"The connector uses other brokers ({key}={brokers}) than the worker's producers; "
                    "`kraal dlq` can show and replay its dead letters."
                )
        return Kafka(
            client_settings("consumer"),
            producer=client_settings("producer"),
            admin=client_settings("admin"),
            request_timeout_s=_REQUEST_TIMEOUT_S,
            write_timeout_s=_WRITE_TIMEOUT_S,
            internal=internal_topics,
        )

    return connect

"""Connections of a worker to the dead letters of its connectors, with the worker's own client settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kraal.config.clients.keys import Client
from kraal.config.clients.layers import bootstrap, layered
from kraal.dead_letters.kafka import Kafka
from kraal.dead_letters.selection import NoDeadLetters

_ASK_S: Final = 5.0
_WRITE_S: Final = 20.0
_CLIENTS: Final[tuple[Client, ...]] = ("producer", "consumer")
_INTERNAL_TOPICS: Final = ("config.storage.topic", "offset.storage.topic", "status.storage.topic")
_OVERRIDE: Final = "{}.override.bootstrap.servers"


def letters_kafka(worker: Mapping[str, str]) -> Callable[[Mapping[str, str | None]], Kafka]:
    """Return what connects to the dead letters of a connector with a config.

    `worker`: the resolved worker config with `bootstrap.servers`. Its `producer.*`, `consumer.*` and `admin.*` apply,
    as to connectors, but nothing that a connector overrides. The result raises NoDeadLetters for a connector that reads
    or writes elsewhere.
    """
    servers = bootstrap(worker, {}, "producer")
    internal = frozenset(topic for key in _INTERNAL_TOPICS if (topic := worker.get(key, "").strip()))

    def settings(client: Client) -> dict[str, str]:
        return {**layered(worker, {}, client), "bootstrap.servers": servers}

    def connect(config: Mapping[str, str | None]) -> Kafka:
        for client in _CLIENTS:
            key = _OVERRIDE.format(client)
            theirs = config.get(key) or bootstrap(worker, {}, client)
            if theirs != servers:
                raise NoDeadLetters(
                    f"The connector reads or writes at other brokers than the worker's producers, {theirs} ({key});"
                    " `kraal dlq` can show and replay its dead letters."
                )
        return Kafka(
            settings("consumer"),
            producer=settings("producer"),
            admin=settings("admin"),
            ask_s=_ASK_S,
            write_s=_WRITE_S,
            internal=internal,
        )

    return connect

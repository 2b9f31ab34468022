"""Which operations the brokers let a client do on the cluster, a topic and a group. Reads only.

A broker without an authorizer allows all of them. Source: KIP-430.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from kraal.core.errors import StoreError
from kraal.core.kafka_errors import NOT_AUTHORIZED, UNKNOWN_TOPIC
from kraal.kafka.settings import LastClientError, client, code

_REFUSED = NOT_AUTHORIZED | {KafkaError.GROUP_AUTHORIZATION_FAILED}
_UNKNOWN = UNKNOWN_TOPIC | {KafkaError.GROUP_ID_NOT_FOUND}


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a client may do on one resource."""

    operations: frozenset[str] = frozenset()
    """Names of Kafka's operations, such as `DESCRIBE_CONFIGS`; empty if the brokers name none."""
    refused: bool = False
    """The client may not even describe the resource."""
    missing: bool = False
    """There is no such topic or group, so the brokers name no operations for it."""


class PermissionsReader:
    """Asks with one admin client. Not thread-safe; blocks at most about `timeout_s` for each answer."""

    def __init__(self, options: Mapping[str, str], *, client_id: str, timeout_s: float) -> None:
        """`options`: librdkafka's, with brokers and security."""
        self._timeout_s = timeout_s
        self._last_error = LastClientError()
        self._client = AdminClient(client(options, client_id, self._last_error))

    def of_cluster(self) -> Permissions:
        """Return the operations on the cluster. Raises StoreError."""
        return self._asked(
            "the cluster",
            lambda: self._client.describe_cluster(
                include_authorized_operations=True, request_timeout=self._timeout_s
            ),
        )

    def of_topic(self, topic: str) -> Permissions:
        """Return the operations on a topic. Raises StoreError."""
        return self._asked(
            f"the topic {topic!r}",
            lambda: self._client.describe_topics(
                TopicCollection([topic]), include_authorized_operations=True, request_timeout=self._timeout_s
            )[topic],
        )

    def of_group(self, group: str) -> Permissions:
        """Return the operations on a group, which need not exist. Raises StoreError."""
        return self._asked(
            f"the group {group!r}",
            lambda: self._client.describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=self._timeout_s
            )[group],
        )

    def _asked(self, what: str, ask: Callable[[], Future[Any]]) -> Permissions:
        try:
            found = ask().result(self._timeout_s + 1)
        except (KafkaException, TimeoutError) as exc:
            if code(exc) in _REFUSED:
                return Permissions(refused=True)
            if code(exc) in _UNKNOWN:
                return Permissions(missing=True)
            self._client.poll(0)  # an admin client reports connection errors only when polled
            raise StoreError(f"Cannot look up {what}: {self._last_error.added_to(exc)}") from exc
        return Permissions(frozenset(each.name for each in found.authorized_operations or ()))

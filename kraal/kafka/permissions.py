"""Which operations the brokers let a client do on the cluster, a topic and a group. Reads only.

A broker without an authorizer allows all of them. Source: KIP-430.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient  # type: ignore[attr-defined] # documented there
from kafka import KafkaAdminClient
from kafka.errors import GroupAuthorizationFailedError
from kafka.errors import KafkaError as PythonKafkaError
from typing_extensions import override

from kraal.config.clients.kafka_python import kafka_python_options
from kraal.core.errors import StoreError
from kraal.core.kafka_errors import NOT_AUTHORIZED, UNKNOWN_TOPIC
from kraal.kafka.settings import LastClientError, client, code
from kraal.kafka.tokens import TokenProvider

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

    def __init__(
        self,
        options: Mapping[str, str],
        group_settings: Mapping[str, str],
        *,
        client_id: str,
        timeout_s: float,
    ) -> None:
        """Take the settings, with brokers and security: `options` with librdkafka's names, others with Connect's."""
        self._group_settings = group_settings
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
        """Return the operations on a group, which need not exist. Raises StoreError.

        librdkafka refuses groups that have had members other than consumers, as those of workers, and kafka-python's
        newer request tells nothing about groups that have had none.
        """
        try:
            return self._asked(
                f"the group {group!r}",
                lambda: self._client.describe_consumer_groups(
                    [group], include_authorized_operations=True, request_timeout=self._timeout_s
                )[group],
            )
        except StoreError as exc:
            if exc.__cause__ is None or code(exc.__cause__) != KafkaError._INVALID_ARG:  # noqa: SLF001 - its name
                raise
        return _of_workers(self._group_settings, group, self._timeout_s)

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


class WorkerGroups(KafkaAdminClient):  # type: ignore[misc]  # kafka-python is published without types
    """Describes groups without decoding their members, which are no consumers (kafka-python 3.0.12, pinned)."""

    @override
    def _describe_groups_process_response(self, response: Any) -> dict[str, Permissions]:
        return {
            each.group_id: _decoded(each.error_code, each.authorized_operations) for each in response.groups
        }


def _of_workers(settings: Mapping[str, str], group: str, timeout_s: float) -> Permissions:
    """Ask with kafka-python, which workers join their group with."""
    limit_ms = round(timeout_s * 1000)
    with TemporaryDirectory(prefix="kraal-doctor-") as scratch:
        options = kafka_python_options(settings, scratch=Path(scratch), tokens=TokenProvider)
    try:
        client = WorkerGroups(**{**options, "request_timeout_ms": limit_ms, "bootstrap_timeout_ms": limit_ms})
        try:
            found: Permissions = client.describe_groups([group])[group]
        finally:
            client.close()
    except GroupAuthorizationFailedError:
        return Permissions(refused=True)
    except (PythonKafkaError, OSError) as exc:
        raise StoreError(f"Cannot look up the group {group!r}: {exc!r}") from exc
    return found


def _decoded(error: int, operations: Collection[int] | None) -> Permissions:
    """Decode an answer; `operations` has their numbers in Kafka, and is None if the broker does not tell."""
    if error in _REFUSED:
        return Permissions(refused=True)
    if error in _UNKNOWN:
        return Permissions(missing=True)
    return Permissions(frozenset(each.name for each in AclOperation if each.value in (operations or ())))

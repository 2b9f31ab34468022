"""Reads the operations that a client is authorized to perform on the cluster, on a topic and on a group.

A broker without an authorizer allows all operations. Source: KIP-430.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined] # documented there
from kafka import KafkaAdminClient
from kafka.errors import GroupAuthorizationFailedError
from kafka.errors import KafkaError as PythonKafkaError
from typing_extensions import override

from kraal.config.clients.kafka_python import kafka_python_options
from kraal.core.errors import StoreError
from kraal.core.kafka_errors import NOT_AUTHORIZED
from kraal.kafka.python_admin import admin_client
from kraal.kafka.settings import cause_error_code
from kraal.kafka.tokens import TokenProvider
from kraal.kafka.topics import TopicAdmin, TopicDescription, operation_names

_NOT_AUTHORIZED_CODES = NOT_AUTHORIZED | {KafkaError.GROUP_AUTHORIZATION_FAILED}
_UNKNOWN_GROUP = KafkaError.GROUP_ID_NOT_FOUND


@dataclass(frozen=True, slots=True)
class Permissions:
    """Authorized operations on a resource."""

    operations: frozenset[str] = frozenset()
    """Names of Kafka's operations, such as `DESCRIBE_CONFIGS`; empty if the brokers return none."""
    refused: bool = False
    """Whether the client is not authorized to describe the resource."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, and a client's authorized operations on it."""

    broker_count: int
    """Current number of brokers."""
    operations: frozenset[str] = frozenset()
    """As in `Permissions`."""


def parse_description(description: TopicDescription | StoreError) -> Permissions:
    """Return the authorized operations on a described topic. Raises the error unless it implies permissions."""
    if isinstance(description, TopicDescription):
        return Permissions(description.operations)
    return _implied_permissions(description)


class PermissionsReader:
    """Reads permissions on the cluster and on groups. Not thread-safe. Calls block for up to the client's timeout."""

    def __init__(self, admin: TopicAdmin, group_settings: Mapping[str, str]) -> None:
        """`group_settings` contains the settings of the group's client by the names of Kafka's Java client."""
        self._admin = admin
        self._group_settings = group_settings

    def read_cluster(self) -> Cluster:
        """Return the cluster and the authorized operations on it. Raises StoreError."""
        description = self._admin.request(
            "the cluster",
            lambda client, timeout_s: client.describe_cluster(
                include_authorized_operations=True, request_timeout=timeout_s
            ),
        )
        return Cluster(len(description.nodes), operation_names(description))

    def read_group(self, group: str) -> Permissions:
        """Return the authorized operations on a group, which may be missing. Raises StoreError.

        librdkafka rejects groups with members other than consumers, such as workers; kafka-python's newer request
        returns nothing for groups that never had members.
        """
        try:
            description = self._admin.request(
                f"the group {group!r}",
                lambda client, timeout_s: client.describe_consumer_groups(
                    [group], include_authorized_operations=True, request_timeout=timeout_s
                )[group],
            )
        except StoreError as exc:
            if cause_error_code(exc) == KafkaError._INVALID_ARG:  # noqa: SLF001 - librdkafka's local error
                return _describe_worker_group(self._group_settings, group, self._admin.timeout_s)
            return _implied_permissions(exc)
        return Permissions(operation_names(description))


def _implied_permissions(error: StoreError) -> Permissions:
    """Return the permissions that a broker's error implies. Raises other errors."""
    error_code = cause_error_code(error)
    if error_code in _NOT_AUTHORIZED_CODES:
        return Permissions(refused=True)
    if error_code == _UNKNOWN_GROUP:
        return Permissions()
    raise error


class WorkerGroups(KafkaAdminClient):  # type: ignore[misc]  # kafka-python is published without types
    """Describes groups without decoding their members, which are not consumers (kafka-python 3.0.12, pinned)."""

    @override
    def _describe_groups_process_response(self, response: Any) -> dict[str, Permissions]:
        return {
            group.group_id: _decode_permissions(group.error_code, group.authorized_operations)
            for group in response.groups
        }


def _describe_worker_group(settings: Mapping[str, str], group: str, timeout_s: float) -> Permissions:
    """Describe a group with kafka-python, which workers use to join their group."""
    with TemporaryDirectory(prefix="kraal-doctor-") as scratch:
        options = kafka_python_options(settings, scratch=Path(scratch), tokens=TokenProvider)
    try:
        options["request_timeout_ms"] = round(timeout_s * 1000)
        with admin_client(options, bootstrap_timeout_s=timeout_s, client_class=WorkerGroups) as client:
            permissions: Permissions = client.describe_groups([group])[group]
    except GroupAuthorizationFailedError:
        return Permissions(refused=True)
    except (PythonKafkaError, OSError) as exc:
        raise StoreError(f"Cannot look up the group {group!r}: {exc!r}") from exc
    return permissions


def _decode_permissions(error: int, operations: Collection[int] | None) -> Permissions:
    """Decode a response; `operations` contains Kafka's codes, or is None if the broker does not return them."""
    if error in _NOT_AUTHORIZED_CODES:
        return Permissions(refused=True)
    return Permissions(
        frozenset(operation.name for operation in AclOperation if operation.value in (operations or ()))
    )

"""Checks of ACLs: the permissions of the worker's Kafka user, as reported by the brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from kraal.config.worker.distributed import DistributedConfig, ExactlyOnce, InternalTopic
from kraal.core.errors import KraalError, StoreError
from kraal.doctor.finding import Finding, Level, passed
from kraal.doctor.storage_topics import Storage
from kraal.kafka.permissions import Cluster, Permissions, parse_description

_DOCS_HINT = "docs/security.md lists all permissions that a worker needs."
_TOPIC_OPERATIONS = frozenset({"READ", "WRITE"})
_OPTIONAL_OPERATION = "DESCRIBE_CONFIGS"
_GROUP_OPERATIONS = frozenset({"READ", "DESCRIBE"})


class Reader(Protocol):
    """Source of permissions, such as `PermissionsReader`."""

    def read_cluster(self) -> Cluster:
        """Return the cluster with the operations that are permitted on it. Raises StoreError."""

    def read_group(self, group: str) -> Permissions:
        """Return the operations that are permitted on a group. Raises StoreError."""


def check_permissions(
    reader: Reader, config: DistributedConfig, storages: Sequence[Storage]
) -> Iterator[Finding]:
    """Check the permissions of a distributed worker's user on the existing topics and on its group."""
    for storage in storages:
        if storage.is_missing:
            continue
        try:
            yield from check_topic_permissions(storage.topic, parse_description(storage.description))
        except StoreError as exc:
            yield Finding("acls.topics", Level.SKIPPED, str(exc))
    try:
        yield check_group_permissions(config.group_id, reader.read_group(config.group_id))
    except KraalError as exc:
        yield Finding("acls.group", Level.SKIPPED, str(exc))
    if config.transactional_id is not None:
        yield list_transactional_ids(config)


def check_topic_permissions(topic: InternalTopic, permissions: Permissions) -> Iterator[Finding]:
    """Check the permissions on an existing internal topic."""
    missing_operations = _TOPIC_OPERATIONS - permissions.operations
    if permissions.refused or (permissions.operations and missing_operations):
        what = f"The worker's user may not {_join_operations(missing_operations)} the topic {topic.name}"
        fix = f"Allow Read, Write and DescribeConfigs on it, or correct {topic.key}. {_DOCS_HINT}"
        yield Finding("acls.topics", Level.ERROR, what, fix)
    elif not permissions.operations:
        what = f"The brokers do not report the operations of the worker's user on the topic {topic.name}"
        yield Finding("acls.topics", Level.SKIPPED, what)
    elif _OPTIONAL_OPERATION not in permissions.operations:
        what = (
            f"The worker's user may not read the settings of the topic {topic.name}, so no worker checks them"
        )
        yield Finding("acls.topics", Level.HINT, what, f"Allow DescribeConfigs on it. {_DOCS_HINT}")
    else:
        yield passed("acls.topics", f"The worker's user may read and write the topic {topic.name}")


def check_group_permissions(group: str, permissions: Permissions) -> Finding:
    """Check the permissions on the workers' group."""
    missing_operations = _GROUP_OPERATIONS - permissions.operations
    if permissions.refused or (permissions.operations and missing_operations):
        operations = _join_operations(missing_operations)
        what = f"The worker's user may not {operations} the group {group}, so the worker cannot join it"
        fix = f"Allow Read and Describe on the group, or correct group.id. {_DOCS_HINT}"
        return Finding("acls.group", Level.ERROR, what, fix)
    if not permissions.operations:
        what = f"The brokers do not report the operations of the worker's user on the group {group}"
        return Finding("acls.group", Level.SKIPPED, what)
    return passed("acls.group", f"The worker's user may join the group {group}")


def check_create_permission(cluster: Cluster, missing_topics: Iterable[InternalTopic]) -> Finding:
    """Check whether the first worker can create the missing topics."""
    names = ", ".join(topic.name for topic in missing_topics)
    if "CREATE" in cluster.operations:
        return passed("acls.cluster", f"The worker's user may create topics: {names}")
    what = (
        f"The worker's user may not create topics in the whole cluster; whether it may create {names} is unknown "
        "before they exist"
    )
    fix = f"Allow Create on the topics, or create them with cleanup.policy=compact. {_DOCS_HINT}"
    return Finding("acls.cluster", Level.HINT, what, fix)


def list_transactional_ids(config: DistributedConfig) -> Finding:
    """List the transactional ids used by exactly-once support, because brokers do not report permissions for them."""
    ids = [f"`{config.transactional_id}`"]
    if config.exactly_once is ExactlyOnce.ENABLED:
        ids.append(f"all that begin with `{config.group_id}-`")
    what = "The brokers do not report whether the worker's user may use the transactional ids of exactly-once support"
    fix = f"If the brokers have ACLs, allow Describe and Write on transactional ids: {' and '.join(ids)}. {_DOCS_HINT}"
    return Finding("acls.transactions", Level.HINT, what, fix)


def _join_operations(operations: Iterable[str]) -> str:
    """Join operations for a sentence in a fixed order, such as `read or write`."""
    return " or ".join(operation.lower() for operation in sorted(operations))

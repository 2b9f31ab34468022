"""Checks of ACLs: the permissions of the worker's Kafka user, as reported by the brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from kraal.config.worker.distributed import DistributedConfig, ExactlyOnce, InternalTopic
from kraal.core.errors import KraalError, StoreError
from kraal.doctor.finding import Finding, Level, passed
from kraal.doctor.storage_topics import Storage
from kraal.kafka.permissions import Cluster, Permissions, parse_description

_PAGE = "docs/security.md lists all permissions that a worker needs."
_USES_TOPIC = frozenset({"READ", "WRITE"})
_OPTIONAL = "DESCRIBE_CONFIGS"
_USES_GROUP = frozenset({"READ", "DESCRIBE"})


class Reader(Protocol):
    """Source of permissions, such as `PermissionsReader`."""

    def of_cluster(self) -> Cluster:
        """Return the cluster with the operations on it. Raises StoreError."""

    def of_group(self, group: str) -> Permissions:
        """Return the operations on a group. Raises StoreError."""


def check_permissions(
    reader: Reader, config: DistributedConfig, storages: Sequence[Storage]
) -> Iterator[Finding]:
    """Check the permissions of a distributed worker's user on the existing topics and on its group."""
    for each in storages:
        if each.is_missing:
            continue
        try:
            yield from judge_topic(each.topic, parse_description(each.description))
        except StoreError as exc:
            yield Finding("acls.topics", Level.SKIPPED, str(exc))
    try:
        yield judge_group(config.group_id, reader.of_group(config.group_id))
    except KraalError as exc:
        yield Finding("acls.group", Level.SKIPPED, str(exc))
    if config.transactional_id is not None:
        yield list_transactional_ids(config)


def judge_topic(topic: InternalTopic, permissions: Permissions) -> Iterator[Finding]:
    """Judge the permissions on an internal topic that exists."""
    lacking = _USES_TOPIC - permissions.operations
    if permissions.refused or (permissions.operations and lacking):
        what = f"The worker's user may not {_words(lacking)} the topic {topic.name}"
        fix = f"Allow Read, Write and DescribeConfigs on it, or correct {topic.key}. {_PAGE}"
        yield Finding("acls.topics", Level.ERROR, what, fix)
    elif not permissions.operations:
        what = f"The brokers do not report the operations of the worker's user on the topic {topic.name}"
        yield Finding("acls.topics", Level.SKIPPED, what)
    elif _OPTIONAL not in permissions.operations:
        what = (
            f"The worker's user may not read the settings of the topic {topic.name}, so no worker checks them"
        )
        yield Finding("acls.topics", Level.HINT, what, f"Allow DescribeConfigs on it. {_PAGE}")
    else:
        yield passed("acls.topics", f"The worker's user may read and write the topic {topic.name}")


def judge_group(group: str, permissions: Permissions) -> Finding:
    """Judge the permissions on the workers' group."""
    lacking = _USES_GROUP - permissions.operations
    if permissions.refused or (permissions.operations and lacking):
        what = f"The worker's user may not {_words(lacking)} the group {group}, so the worker cannot join it"
        fix = f"Allow Read and Describe on the group, or correct group.id. {_PAGE}"
        return Finding("acls.group", Level.ERROR, what, fix)
    if not permissions.operations:
        what = f"The brokers do not report the operations of the worker's user on the group {group}"
        return Finding("acls.group", Level.SKIPPED, what)
    return passed("acls.group", f"The worker's user may join the group {group}")


def judge_cluster(cluster: Cluster, missing: Iterable[InternalTopic]) -> Finding:
    """Judge whether the first worker can create the topics that do not exist."""
    names = ", ".join(topic.name for topic in missing)
    if "CREATE" in cluster.operations:
        return passed("acls.cluster", f"The worker's user may create topics: {names}")
    what = (
        f"The worker's user may not create topics in the whole cluster; whether it may create {names} is unknown "
        "before they exist"
    )
    fix = f"Allow Create on the topics, or create them, compacted. {_PAGE}"
    return Finding("acls.cluster", Level.HINT, what, fix)


def list_transactional_ids(config: DistributedConfig) -> Finding:
    """List the transactional ids of exactly-once support, whose permissions brokers do not report."""
    needed = [f"`{config.transactional_id}`"]
    if config.exactly_once is ExactlyOnce.ENABLED:
        needed.append(f"all that begin with `{config.group_id}-`")
    what = "The brokers do not report whether the worker's user may use the transactional ids of exactly-once support"
    fix = f"If the brokers have ACLs, allow Describe and Write on transactional ids: {' and '.join(needed)}. {_PAGE}"
    return Finding("acls.transactions", Level.HINT, what, fix)


def _words(operations: Iterable[str]) -> str:
    """Return operations as part of a sentence, in a fixed order: `read or write`."""
    return " or ".join(each.lower() for each in sorted(operations))

"""Checks of Kafka: reachability, internal topics and permissions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraal.config.clients.librdkafka import librdkafka_options
from kraal.config.worker.distributed import DistributedConfig, InternalTopic
from kraal.core.errors import KraalError, StoreError
from kraal.doctor.connection import diagnose_unreachable
from kraal.doctor.finding import Finding, Level, passed
from kraal.doctor.permissions import Reader, check_create_permission, check_permissions
from kraal.doctor.storage_topics import check_creation, check_times, check_topic, describe_storage
from kraal.doctor.subject import Subject
from kraal.kafka.cluster_info import read_cluster_id
from kraal.kafka.permissions import PermissionsReader
from kraal.kafka.topics import TopicAdmin

_TIMEOUT_S = 4.0


def check_kafka(subject: Subject) -> Iterator[Finding]:
    """Check the brokers, and the topics of a distributed worker. Waits a few seconds for each response."""
    config = subject.config
    if config is None:
        return
    try:
        options = librdkafka_options(config.own_client)
        cluster = read_cluster_id(config.bootstrap_servers, options, timeout_s=_TIMEOUT_S)
    except KraalError as exc:
        yield diagnose_unreachable(config.bootstrap_servers, config.own_client, exc)
        if subject.distributed is not None:
            yield Finding("topics.exist", Level.SKIPPED, "The internal topics cannot be looked up")
        return
    yield passed("broker.reachable", f"The cluster {cluster} responds at {config.bootstrap_servers}")
    if subject.distributed is not None:
        admin = TopicAdmin(options, client_id="kraal-doctor", timeout_s=_TIMEOUT_S)
        try:
            yield from check_storage(admin, subject.distributed)
        finally:
            admin.close()


def check_storage(admin: TopicAdmin, config: DistributedConfig) -> Iterator[Finding]:
    """Check the internal topics of a distributed worker and the permissions of its user."""
    topics = (config.config_topic, config.offset_topic, config.status_topic)
    storages = [describe_storage(admin, topic) for topic in topics]
    for storage in storages:
        is_config_topic = storage.topic is config.config_topic
        yield from check_topic(storage, single=is_config_topic, creates_topics=config.creates_topics)
    reader = PermissionsReader(admin, config.group_client)
    missing_topics = [storage.topic for storage in storages if storage.is_missing]
    yield check_times(admin, storages)
    yield from check_permissions(reader, config, storages)
    if missing_topics and config.creates_topics:
        yield from check_missing(reader, missing_topics)


def check_missing(reader: Reader, missing_topics: Sequence[InternalTopic]) -> Iterator[Finding]:
    """Check whether the first worker can create the topics that do not exist."""
    try:
        cluster = reader.read_cluster()
    except StoreError as exc:
        yield Finding("acls.cluster", Level.SKIPPED, str(exc))
        return
    yield from check_creation(cluster, missing_topics)
    yield check_create_permission(cluster, missing_topics)

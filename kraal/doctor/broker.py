"""Checks of Kafka: a broker answers, and the internal topics and permissions are as a worker needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraal.config.clients.librdkafka import librdkafka_options
from kraal.config.worker.distributed import DistributedConfig, InternalTopic
from kraal.core.errors import KraalError, StoreError
from kraal.doctor.clock import now_s, of_records
from kraal.doctor.finding import Finding, Level, ok
from kraal.doctor.permissions import check_permissions
from kraal.doctor.subject import Subject
from kraal.kafka.cluster_info import cluster_id
from kraal.kafka.permissions import PermissionsReader
from kraal.kafka.topics import TopicAdmin

_ANSWER_S = 4.0
_SECURED = (
    "Check the address, the firewall, and `security.protocol`, `sasl.*` and `ssl.*` in the worker's file."
)


def check_kafka(subject: Subject) -> Iterator[Finding]:
    """Check the brokers, and for a distributed worker its topics. Waits a few seconds at most for each answer."""
    config = subject.config
    if config is None:
        return
    try:
        options = librdkafka_options(config.own_client)
        found = cluster_id(config.bootstrap_servers, options, timeout_s=_ANSWER_S)
    except KraalError as exc:
        yield Finding("broker.reachable", Level.ERROR, str(exc), _SECURED)
        if subject.distributed is not None:
            yield Finding("topics.exist", Level.SKIPPED, "The internal topics cannot be looked up")
        return
    yield ok("broker.reachable", f"The cluster {found} answers at {config.bootstrap_servers}")
    if subject.distributed is not None:
        admin = TopicAdmin(options, client_id="kraal-doctor", timeout_s=_ANSWER_S)
        try:
            for topic in _topics(subject.distributed):
                yield from check_topic(admin, topic, single=topic is subject.distributed.config_topic)
            yield check_times(admin, _topics(subject.distributed))
        finally:
            admin.close()
        reader = PermissionsReader(
            options, subject.distributed.group_client, client_id="kraal-doctor", timeout_s=_ANSWER_S
        )
        yield from check_permissions(reader, subject.distributed)


def check_topic(admin: TopicAdmin, topic: InternalTopic, *, single: bool) -> Iterator[Finding]:
    """Check one topic; `single`: it must have one partition."""
    try:
        found = admin.describe(topic.name)
        policy = admin.cleanup_policy(topic.name)
    except StoreError as exc:
        yield _missing(topic, str(exc))
        return
    yield ok("topics.exist", f"The topic {topic.name} exists with {found.partitions} partitions")
    recreate = f"Create another topic, and set {topic.key} to it; or correct this one if it is empty."
    if single and found.partitions != 1:
        what = f"The topic {topic.name} has {found.partitions} partitions, but must have 1"
        yield Finding("topics.partitions", Level.ERROR, what, recreate)
    if policy and policy != {"compact"}:
        what = f"The topic {topic.name} has cleanup.policy={','.join(sorted(policy))}, which deletes what is needed"
        change = f"--entity-name {topic.name} --add-config cleanup.policy=compact"
        fix = f"Change it: kafka-configs.sh --alter --entity-type topics {change}"
        yield Finding("topics.cleanup", Level.ERROR, what, fix)
    if found.replicas == 1:
        what = f"The topic {topic.name} has one replica: what is in it is lost with its broker"
        yield Finding("topics.replicas", Level.HINT, what, "Raise the replication factor to 3 in production.")


def check_times(admin: TopicAdmin, topics: Sequence[InternalTopic]) -> Finding:
    """Check this machine's clock by the latest records of the topics that exist."""
    times: dict[str, int] = {}
    for topic in topics:
        try:
            latest_ms = admin.latest_time_ms(topic.name, admin.describe(topic.name).partitions)
        except StoreError:  # the topic's own finding says why
            continue
        if latest_ms is not None:
            times[topic.name] = latest_ms
    if not times:
        return Finding(
            "clock.records", Level.SKIPPED, "No worker has written records yet whose times can be compared"
        )
    youngest = max(times, key=lambda name: times[name])
    return of_records(youngest, times[youngest] / 1000, now_s())


def _missing(topic: InternalTopic, reason: str) -> Finding:
    if "does not exist" not in reason:
        return Finding("topics.exist", Level.ERROR, reason, "Let the worker's user describe this topic.")
    what = f"The topic {topic.name} does not exist; the first worker creates it"
    fix = f"Nothing, if the worker may create topics; otherwise create it, compacted ({topic.key})."
    return Finding("topics.exist", Level.HINT, what, fix)


def _topics(config: DistributedConfig) -> Sequence[InternalTopic]:
    return config.config_topic, config.offset_topic, config.status_topic

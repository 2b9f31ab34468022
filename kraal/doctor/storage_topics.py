"""Checks of the internal topics: their settings, and record timestamps in the future."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kraal.config.worker.distributed import InternalTopic
from kraal.config.worker.distributed_keys import CREATE_TOPICS
from kraal.core.errors import StoreError
from kraal.core.kafka_errors import UNKNOWN_TOPIC
from kraal.doctor.clock import check_record_time, now_s
from kraal.doctor.finding import Finding, Level, passed
from kraal.kafka.permissions import Cluster
from kraal.kafka.settings import cause_error_code
from kraal.kafka.topics import TopicAdmin, TopicDescription, parse_policies

_MIN_IN_SYNC: Final = "min.insync.replicas"
_POLICY: Final = "cleanup.policy"


@dataclass(frozen=True, slots=True)
class Storage:
    """An internal topic and its description by the brokers."""

    topic: InternalTopic
    description: TopicDescription | StoreError
    """The description with the permitted operations of the worker's user, or an error."""
    settings: Mapping[str, str] | StoreError
    """The topic's settings; empty if the topic does not exist or the worker's user may not read the settings."""
    brokers: str = ""
    """The value of `bootstrap.servers`."""

    @property
    def is_missing(self) -> bool:
        """Whether the topic does not exist."""
        return (
            isinstance(self.description, StoreError) and cause_error_code(self.description) in UNKNOWN_TOPIC
        )


def describe_storage(admin: TopicAdmin, topic: InternalTopic) -> Storage:
    """Request the description and settings of a topic from the brokers."""
    settings: Mapping[str, str] | StoreError
    try:
        description = admin.describe(topic.name, with_operations=True)
    except StoreError as exc:
        return Storage(topic, exc, {}, admin.brokers)
    try:
        settings = admin.settings(topic.name)
    except StoreError as exc:
        settings = exc
    return Storage(topic, description, settings, admin.brokers)


def check_topic(storage: Storage, *, single: bool, creates_topics: bool = True) -> Iterator[Finding]:
    """Check a topic. `single`: the topic must have one partition; `creates_topics`: workers create missing topics."""
    topic, description = storage.topic, storage.description
    if isinstance(description, StoreError):
        yield _unknown_finding(storage, str(description), creates_topics=creates_topics)
        return
    yield passed(
        "topics.exist", f"The topic {topic.name} exists with {_format_partitions(description.partitions)}"
    )
    if single and description.partitions != 1:
        what = f"The topic {topic.name} has {_format_partitions(description.partitions)}, but must have 1"
        fix = f"Create another topic, and set {topic.key} to it; or correct this one if it is empty."
        yield Finding("topics.partitions", Level.ERROR, what, fix)
    if isinstance(storage.settings, StoreError):
        yield Finding("topics.cleanup", Level.SKIPPED, str(storage.settings))
    else:
        yield from _check_settings(storage, description, storage.settings)
    if description.replicas == 1:
        what = f"The topic {topic.name} has one replica: if its broker is lost, so are its records"
        fix = "Use three replicas in production; kafka-reassign-partitions.sh adds replicas to a topic."
        yield Finding("topics.replicas", Level.HINT, what, fix)


def _check_settings(
    storage: Storage, description: TopicDescription, settings: Mapping[str, str]
) -> Iterator[Finding]:
    name, policy = storage.topic.name, parse_policies(settings)
    if policy and policy != {"compact"}:
        what = (
            f"The topic {name} has {_POLICY}={','.join(sorted(policy))}, which deletes records that workers "
            "need; it must be compact"
        )
        yield Finding(
            "topics.cleanup", Level.ERROR, what, f"Change it: {_change_command(storage, _POLICY, 'compact')}"
        )
    min_in_sync = int(settings.get(_MIN_IN_SYNC) or 0)
    if 0 < description.replicas < min_in_sync:
        what = (
            f"The topic {name} has {_MIN_IN_SYNC}={min_in_sync}, but {_format_replicas(description.replicas)}: nothing "
            "can be written to it"
        )
        change = _change_command(storage, _MIN_IN_SYNC, str(description.replicas))
        fix = f"Add replicas with kafka-reassign-partitions.sh, or lower {_MIN_IN_SYNC}: {change}"
        yield Finding("topics.insync", Level.ERROR, what, fix)
    elif description.replicas and description.in_sync < max(min_in_sync, 1):
        what = (
            f"A partition of the topic {name} has {_format_replicas(description.in_sync, 'in-sync ')}, but needs "
            f"at least {max(min_in_sync, 1)} ({_MIN_IN_SYNC}): nothing can be written to it"
        )
        tool = f"kafka-topics.sh --bootstrap-server {storage.brokers} --describe --topic {name}"
        fix = f"Start the brokers that hold its replicas; list them with {tool}"
        yield Finding("topics.insync", Level.ERROR, what, fix)


def check_creation(cluster: Cluster, missing_topics: Sequence[InternalTopic]) -> Iterator[Finding]:
    """Check that the cluster has enough brokers for the replicas of topics that the first worker creates."""
    for topic in missing_topics:
        if topic.replication_factor > cluster.broker_count:
            key = topic.key.replace(".topic", ".replication.factor")
            brokers = "1 broker" if cluster.broker_count == 1 else f"{cluster.broker_count} brokers"
            setting = f"{key}={topic.replication_factor}"
            what = f"The topic {topic.name} cannot be created with {setting}: the cluster has {brokers}"
            fix = f"Start more brokers, or set {key} to at most {cluster.broker_count}."
            yield Finding("topics.replicas", Level.ERROR, what, fix)


def check_times(admin: TopicAdmin, storages: Sequence[Storage]) -> Finding:
    """Check this machine's clock against the latest records of the existing topics."""
    latest_ms_by_topic: dict[str, int] = {}
    for storage in storages:
        if isinstance(storage.description, StoreError):  # reported by the finding for the topic
            continue
        try:
            latest_ms = admin.latest_time_ms(storage.topic.name, storage.description.partitions)
        except StoreError:
            continue
        if latest_ms is not None:
            latest_ms_by_topic[storage.topic.name] = latest_ms
    if not latest_ms_by_topic:
        return Finding(
            "clock.records", Level.SKIPPED, "No worker has written records yet whose times can be compared"
        )
    latest_topic = max(latest_ms_by_topic, key=lambda name: latest_ms_by_topic[name])
    return check_record_time(latest_topic, latest_ms_by_topic[latest_topic] / 1000, now_s())


def _unknown_finding(storage: Storage, reason: str, *, creates_topics: bool) -> Finding:
    topic = storage.topic
    if not storage.is_missing:
        fix = f"Let the worker's user describe this topic, or correct {topic.key}."
        return Finding("topics.exist", Level.ERROR, reason, fix)
    if not creates_topics:
        what = f"The topic {topic.name} does not exist, and {CREATE_TOPICS}=false: the worker will not start"
        fix = "Create it with `kraal topics create WORKER.properties`, as a user who may create topics."
        return Finding("topics.exist", Level.ERROR, what, fix)
    what = f"The topic {topic.name} does not exist; the first worker tries to create it"
    fix = f"No action is required if the worker may create topics; otherwise, create a compacted topic ({topic.key})."
    return Finding("topics.exist", Level.HINT, what, fix)


def _change_command(storage: Storage, key: str, value: str) -> str:
    """Return the command that sets a topic's setting."""
    return (
        f"kafka-configs.sh --bootstrap-server {storage.brokers} --alter --entity-type topics "
        f"--entity-name {storage.topic.name} --add-config {key}={value}"
    )


def _format_partitions(number: int) -> str:
    return "1 partition" if number == 1 else f"{number} partitions"


def _format_replicas(number: int, kind: str = "") -> str:
    return f"{number} {kind}replica" + ("" if number == 1 else "s")

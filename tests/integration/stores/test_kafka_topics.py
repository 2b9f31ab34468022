"""Tests for creating and checking internal topics. Mirrors InternalTopicsIntegrationTest and TopicAdminTest."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from confluent_kafka.admin import ConfigResource, NewTopic  # type: ignore[attr-defined] # documented there

from kraal.core.errors import StoreError, TopicMisconfigured, TopicUnusable
from kraal.kafka.topics import BROKER_DEFAULT, InternalTopic, TopicAdmin, ensure_topics, is_missing
from scripts.harness.processes import wait_until
from tests.fakes.kafka.internal_topics import fresh_topic, internal_topic

CONFIG = internal_topic("unset")
OFFSETS = replace(
    CONFIG, property="offset.storage.topic", purpose="source connector offsets", partitions=25, single=False
)
STATUS = replace(
    CONFIG, property="status.storage.topic", purpose="connector and task statuses", partitions=5, single=False
)


def with_name(topic: InternalTopic, name: str) -> InternalTopic:
    return replace(topic, name=f"ensured-{name}")


def read_settings(admin: TopicAdmin, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    configs = admin._client().describe_configs([resource])[resource].result(20)
    return {name: entry.value for name, entry in configs.items()}


def create_topic(admin: TopicAdmin, name: str, *, partitions: int = 1, policy: str | None = None) -> None:
    """Create a topic as another client would, and wait until the broker has it."""
    config = {"cleanup.policy": policy} if policy else {}
    new_topic = NewTopic(f"ensured-{name}", num_partitions=partitions, replication_factor=1, config=config)
    admin._client().create_topics([new_topic])[new_topic.topic].result(20)
    # The controller responds before the broker has the topic.
    wait_until("the broker had the topic", lambda: not is_missing(admin, new_topic.topic), timeout_s=20)


@pytest.mark.releases
def test_missing_topics_are_created_with_compaction_and_settings(admin: TopicAdmin) -> None:
    topics = [
        replace(with_name(CONFIG, "c1"), settings={"segment.bytes": "2000000", "cleanup.policy": "delete"}),
        with_name(OFFSETS, "o1"),
        with_name(STATUS, "s1"),
    ]
    ensure_topics(admin, topics)
    ensure_topics(admin, topics)
    assert [admin.describe(topic.name).partitions for topic in topics] == [1, 25, 5]
    for topic in topics:
        assert read_settings(admin, topic.name)["cleanup.policy"] == "compact"
    assert read_settings(admin, topics[0].name)["segment.bytes"] == "2000000"


def test_default_partition_count_is_that_of_the_broker(admin: TopicAdmin) -> None:
    topic = replace(
        with_name(STATUS, "s2"), partitions=BROKER_DEFAULT, replication_factor=BROKER_DEFAULT, single=False
    )
    ensure_topics(admin, [topic])
    assert admin.describe(topic.name).partitions == 1


def test_workers_can_create_topics_concurrently(admin: TopicAdmin) -> None:
    topics = [with_name(CONFIG, "c3"), with_name(OFFSETS, "o3"), with_name(STATUS, "s3")]
    raised_errors: list[StoreError] = []

    def start() -> None:
        try:
            ensure_topics(admin, topics)
        except StoreError as error:
            raised_errors.append(error)

    workers = [threading.Thread(target=start) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert raised_errors == []


def test_topic_without_compaction_has_connects_error(admin: TopicAdmin) -> None:
    create_topic(admin, "c4", policy="delete")
    create_topic(admin, "o4", partitions=25, policy="compact,delete")
    with pytest.raises(TopicUnusable) as raised:
        ensure_topics(admin, [with_name(CONFIG, "c4")])
    assert isinstance(raised.value, TopicMisconfigured)
    assert str(raised.value) == (
        "Topic 'ensured-c4' supplied via the 'config.storage.topic' property is required to have "
        "'cleanup.policy=compact' to guarantee consistency and durability of connector configurations, but found the "
        "topic currently has 'cleanup.policy=delete'. Continuing would likely result in eventually losing connector "
        "configurations and problems restarting this Connect cluster in the future. Change the "
        "'config.storage.topic' property in the Connect worker configurations to use a topic with "
        "'cleanup.policy=compact'."
    )
    assert raised.value.hint.endswith(
        "--alter --entity-type topics --entity-name ensured-c4 --add-config cleanup.policy=compact"
    )
    with pytest.raises(TopicUnusable) as raised:
        ensure_topics(admin, [with_name(OFFSETS, "o4")])
    assert "the topic currently has 'cleanup.policy=compact,delete'" in str(raised.value)
    assert "durability of source connector offsets" in str(raised.value)


def test_config_topic_with_several_partitions_has_connects_error(admin: TopicAdmin) -> None:
    create_topic(admin, "c5", partitions=2, policy="compact")
    with pytest.raises(TopicUnusable) as raised:
        ensure_topics(admin, [with_name(CONFIG, "c5")])
    assert str(raised.value) == (
        "Topic 'ensured-c5' supplied via the 'config.storage.topic' property is required to have a single partition "
        "in order to guarantee consistency of connector configurations, but found 2 partitions."
    )


def test_other_topics_can_have_several_partitions(admin: TopicAdmin) -> None:
    create_topic(admin, "o6", partitions=3, policy="compact")
    ensure_topics(admin, [with_name(OFFSETS, "o6")])


def test_too_few_brokers_are_a_transient_error(admin: TopicAdmin) -> None:
    with pytest.raises(StoreError) as raised:
        ensure_topics(admin, [replace(with_name(CONFIG, "c7"), replication_factor=3)])
    assert not isinstance(raised.value, TopicUnusable)
    assert str(raised.value).startswith("Error while attempting to create/find topic(s) 'ensured-c7': ")
    assert "replication" in str(raised.value)


def test_invalid_topic_setting_is_a_permanent_error(admin: TopicAdmin) -> None:
    with pytest.raises(TopicUnusable, match=r"^Unable to create topic\(s\) 'ensured-c8': .*segment.bytes"):
        ensure_topics(admin, [replace(with_name(CONFIG, "c8"), settings={"segment.bytes": "many"})])
    with pytest.raises(
        TopicUnusable, match=r"^Error while attempting to create/find topic\(s\) 'in valid': "
    ):
        ensure_topics(admin, [replace(CONFIG, name="in valid")])


def test_offsets_of_empty_partitions_are_zero(admin: TopicAdmin) -> None:
    topic = fresh_topic(admin, "offsets", partitions=25)
    assert admin.end_offsets(topic, 25) == admin.first_offsets(topic, 25) == [0] * 25
    assert admin.end_offsets(topic, 25, committed=True) == [0] * 25

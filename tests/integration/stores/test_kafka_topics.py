"""Internal topics made, and checked. Mirrors InternalTopicsIntegrationTest and TopicAdminTest."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from confluent_kafka.admin import ConfigResource, NewTopic  # type: ignore[attr-defined] # documented there

from kraal.core.errors import StoreError, TopicMisconfigured, TopicUnusable
from kraal.kafka.topics import BROKER_DEFAULT, InternalTopic, TopicAdmin, ensure_topics
from tests.fakes.kafka.internal_topics import fresh_topic, internal_topic

CONFIG = internal_topic("unset")
OFFSETS = replace(
    CONFIG, property="offset.storage.topic", purpose="source connector offsets", partitions=25, single=False
)
STATUS = replace(
    CONFIG, property="status.storage.topic", purpose="connector and task statuses", partitions=5, single=False
)


def named(topic: InternalTopic, name: str) -> InternalTopic:
    return replace(topic, name=f"ensured-{name}")


def settings(admin: TopicAdmin, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin._client().describe_configs([resource])[resource].result(20)
    return {name: entry.value for name, entry in found.items()}


def make(admin: TopicAdmin, name: str, *, partitions: int = 1, policy: str | None = None) -> None:
    """Make a topic as someone else would."""
    config = {"cleanup.policy": policy} if policy else {}
    new = NewTopic(f"ensured-{name}", num_partitions=partitions, replication_factor=1, config=config)
    admin._client().create_topics([new])[new.topic].result(20)


@pytest.mark.releases
def test_missing_topics_are_made_compacted_with_their_partitions_and_settings(admin: TopicAdmin) -> None:
    wanted = [
        replace(named(CONFIG, "c1"), settings={"segment.bytes": "2000000", "cleanup.policy": "delete"}),
        named(OFFSETS, "o1"),
        named(STATUS, "s1"),
    ]
    ensure_topics(admin, wanted)
    ensure_topics(admin, wanted)
    assert [admin.describe(topic.name).partitions for topic in wanted] == [1, 25, 5]
    for topic in wanted:
        assert settings(admin, topic.name)["cleanup.policy"] == "compact"
    assert settings(admin, wanted[0].name)["segment.bytes"] == "2000000"


def test_minus_one_leaves_partitions_and_replicas_to_the_broker(admin: TopicAdmin) -> None:
    topic = replace(
        named(STATUS, "s2"), partitions=BROKER_DEFAULT, replication_factor=BROKER_DEFAULT, single=False
    )
    ensure_topics(admin, [topic])
    assert admin.describe(topic.name).partitions == 1


def test_many_workers_may_start_at_once(admin: TopicAdmin) -> None:
    topics = [named(CONFIG, "c3"), named(OFFSETS, "o3"), named(STATUS, "s3")]
    failed: list[StoreError] = []

    def start() -> None:
        try:
            ensure_topics(admin, topics)
        except StoreError as error:
            failed.append(error)

    workers = [threading.Thread(target=start) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert failed == []


def test_a_topic_that_is_not_compacted_stops_the_start_in_connects_words(admin: TopicAdmin) -> None:
    make(admin, "c4", policy="delete")
    make(admin, "o4", partitions=25, policy="compact,delete")
    with pytest.raises(TopicUnusable) as raised:
        ensure_topics(admin, [named(CONFIG, "c4")])
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
        ensure_topics(admin, [named(OFFSETS, "o4")])
    assert "the topic currently has 'cleanup.policy=compact,delete'" in str(raised.value)
    assert "durability of source connector offsets" in str(raised.value)


def test_a_config_topic_of_several_partitions_stops_the_start_in_connects_words(admin: TopicAdmin) -> None:
    make(admin, "c5", partitions=2, policy="compact")
    with pytest.raises(TopicUnusable) as raised:
        ensure_topics(admin, [named(CONFIG, "c5")])
    assert str(raised.value) == (
        "Topic 'ensured-c5' supplied via the 'config.storage.topic' property is required to have a single partition "
        "in order to guarantee consistency of connector configurations, but found 2 partitions."
    )


def test_other_topics_may_have_any_number_of_partitions(admin: TopicAdmin) -> None:
    make(admin, "o6", partitions=3, policy="compact")
    ensure_topics(admin, [named(OFFSETS, "o6")])


def test_too_few_brokers_for_the_replicas_may_pass(admin: TopicAdmin) -> None:
    with pytest.raises(StoreError) as raised:
        ensure_topics(admin, [replace(named(CONFIG, "c7"), replication_factor=3)])
    assert not isinstance(raised.value, TopicUnusable)
    assert str(raised.value).startswith("Error while attempting to create/find topic(s) 'ensured-c7': ")
    assert "replication" in str(raised.value)


def test_a_setting_that_the_broker_refuses_does_not_pass(admin: TopicAdmin) -> None:
    with pytest.raises(TopicUnusable, match=r"^Unable to create topic\(s\) 'ensured-c8': .*segment.bytes"):
        ensure_topics(admin, [replace(named(CONFIG, "c8"), settings={"segment.bytes": "many"})])
    with pytest.raises(
        TopicUnusable, match=r"^Error while attempting to create/find topic\(s\) 'in valid': "
    ):
        ensure_topics(admin, [replace(CONFIG, name="in valid")])


def test_ends_are_those_of_each_partition(admin: TopicAdmin) -> None:
    topic = fresh_topic(admin, "offsets", partitions=25)
    assert admin.end_offsets(topic, 25) == admin.first_offsets(topic, 25) == [0] * 25
    assert admin.end_offsets(topic, 25, committed=True) == [0] * 25

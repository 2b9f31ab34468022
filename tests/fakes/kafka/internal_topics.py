"""Internal topics of tests on the shared broker."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # documented there
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from kraal.kafka.topics import InternalTopic, TopicAdmin, ensure_topics

_numbers = itertools.count()


def options(bootstrap: str) -> dict[str, str]:
    """Return the options of all clients of a test's broker."""
    return {"bootstrap.servers": bootstrap, "log_level": "0"}


@contextmanager
def topic_admin(bootstrap: str, *, timeout_s: float = 10.0) -> Iterator[TopicAdmin]:
    """Create an admin client, and close it afterwards."""
    admin = TopicAdmin(options(bootstrap), client_id="test-shared-admin", timeout_s=timeout_s)
    yield admin
    admin.close()


def internal_topic(
    name: str, *, partitions: int = 1, settings: Mapping[str, str] | None = None
) -> InternalTopic:
    """Return the specification of an internal topic."""
    return InternalTopic(
        name=name,
        property="config.storage.topic",
        purpose="connector configurations",
        partitions=partitions,
        replication_factor=1,
        single=partitions == 1,
        settings=settings or {},
    )


def fresh_topic(
    admin: TopicAdmin, kind: str = "config", *, partitions: int = 1, settings: Mapping[str, str] | None = None
) -> str:
    """Create an empty compacted topic; return its name."""
    name = f"{kind}-{os.getpid()}-{next(_numbers)}"
    ensure_topics(admin, [internal_topic(name, partitions=partitions, settings=settings)])
    return name


def produce(
    bootstrap: str, topic: str, pairs: Sequence[tuple[bytes | None, bytes | None]], partition: int = -1
) -> None:
    """Write one batch of raw keys and values to a partition, as another client would."""
    producer = Producer({**options(bootstrap), "linger.ms": "1000", "partitioner": "murmur2_random"})
    for key, value in pairs:
        producer.produce(topic, value, key, partition=partition)
    unacknowledged = producer.flush(10)
    assert not unacknowledged


def set_config(bootstrap: str, topic: str, name: str, value: str) -> None:
    """Set a config of a topic."""
    client = AdminClient({"bootstrap.servers": bootstrap})  # deleting the client would cancel the request
    _set_config(client, topic, name, value)


def _set_config(client: AdminClient, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    client.incremental_alter_configs([resource])[resource].result(20)


def delete_topic(admin: TopicAdmin, topic: str) -> None:
    """Delete a topic."""
    admin._client().delete_topics([topic])[topic].result(20)


def delete_records(admin: TopicAdmin, topic: str, partition: int, before: int) -> None:
    """Delete the records before an offset. Sets the cleanup policy to delete meanwhile, which brokers require."""
    client = admin._client()
    for policy in ("delete", "compact"):
        _set_config(client, topic, "cleanup.policy", policy)
        if policy == "delete":
            topic_partition = TopicPartition(topic, partition, before)
            for _ in range(100):  # the broker applies a changed policy with a delay
                with suppress(KafkaException):
                    client.delete_records([topic_partition])[topic_partition].result(20)
                    break
                time.sleep(0.05)

"""An in-memory admin client with topics and their settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition


class TopicClient:
    """A fake `confluent_kafka.admin.AdminClient`. Topics have one partition. `topics` maps names to settings."""

    def __init__(self, topics: Mapping[str, Mapping[str, str]]) -> None:
        self.topics = dict(topics)
        self.created: list[SimpleNamespace] = []

    def describe_topics(self, topics: TopicCollection, **_: object) -> dict[str, Future[Any]]:
        """Describe each topic with one in-sync replica; fail for unknown topics."""
        partition = SimpleNamespace(replicas=[1], isr=[1])
        description = SimpleNamespace(topic_id="id", partitions=[partition], authorized_operations=[])
        return {name: self._future(name, description) for name in topics.topic_names}

    def describe_configs(self, resources: Iterable[Any], **_: object) -> dict[Any, Future[Any]]:
        """Return the settings of each topic."""
        return {
            resource: self._future(
                resource.name,
                {
                    key: SimpleNamespace(value=value)
                    for key, value in self.topics.get(resource.name, {}).items()
                },
            )
            for resource in resources
        }

    def create_topics(self, topics: Iterable[Any], **_: object) -> dict[str, Future[Any]]:
        """Create the topics that do not exist."""
        futures: dict[str, Future[Any]] = {}
        for topic in topics:
            futures[topic.topic] = Future()
            if topic.topic in self.topics:
                error = KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)
                futures[topic.topic].set_exception(KafkaException(error))
            else:
                self.topics[topic.topic] = dict(topic.config)
                self.created.append(topic)
                futures[topic.topic].set_result(None)
        return futures

    def list_offsets(self, specs: Mapping[TopicPartition, object], **_: object) -> dict[Any, Future[Any]]:
        """Return offset 0 for all partitions."""
        return {partition: self._future(partition.topic, SimpleNamespace(offset=0)) for partition in specs}

    def poll(self, timeout: float) -> int:
        """Return 0."""
        del timeout
        return 0

    def _future(self, topic: str, result: object) -> Future[Any]:
        future: Future[Any] = Future()
        if topic in self.topics:
            future.set_result(result)
        else:
            future.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return future

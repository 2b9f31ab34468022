"""Selection of dead letters by topic, connector and offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kraal.core.errors import KraalError
from kraal.dead_letters.api import LettersKafka, OffsetRange
from kraal.dead_letters.records import DeadLetter

TOPIC_KEY: Final = "errors.deadletterqueue.topic.name"
GROUP_PREFIX: Final = "kraal-dlq-replay"
"""Prefix of the consumer groups that store the progress of replays, `PREFIX/TOPIC` or `PREFIX/TOPIC/CONNECTOR`."""


class NoDeadLetters(KraalError):
    """The dead letter queue topic does not exist or is not configured."""


@dataclass(frozen=True, slots=True)
class DeadLetterQueue:
    """A dead letter queue topic, or the dead letters of one connector in the topic."""

    topic: str
    connector: str | None = None

    @property
    def group(self) -> str:
        """The consumer group that stores the progress of replays."""
        names = (
            (GROUP_PREFIX, self.topic)
            if self.connector is None
            else (GROUP_PREFIX, self.topic, self.connector)
        )
        return "/".join(names)

    def contains(self, letter: DeadLetter) -> bool:
        """Return whether a dead letter of the topic belongs to this queue."""
        return self.connector is None or letter.belongs_to(self.connector)


def list_topics(connectors: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and dead letter queue topic of each connector in the response to `GET /connectors?expand=info`."""
    for name, entry in sorted(connectors.items()):
        topic = str(entry.get("info", {}).get("config", {}).get(TOPIC_KEY) or "").strip()
        if topic:
            yield name, topic


def find_topic(name: str, config: Mapping[str, Any]) -> str:
    """Return the dead letter queue topic in a connector's config. Raises NoDeadLetters."""
    topic = str(config.get(TOPIC_KEY) or "").strip()
    if not topic:
        raise NoDeadLetters(
            f"Connector {name} has no dead letter queue topic; its config does not set {TOPIC_KEY}."
        )
    if "${" in topic:
        raise NoDeadLetters(
            f"The dead letter queue topic of connector {name} is a variable, {topic};"
            " pass the name of the topic to `kraal dlq` instead."
        )
    return topic


def find_queue(
    kafka: LettersKafka, name: str, config: Mapping[str, Any] | None, kind: str = "Topic"
) -> DeadLetterQueue:
    """Return the queue of the connector `name` with this config, or of the topic `name` if `config` is None.

    `kind` describes the topic in an error. Raises NoDeadLetters, KafkaUnavailable.
    """
    if config is None:
        if name not in kafka.partitions:
            raise NoDeadLetters(f"{kind} {name} does not exist.")
        return DeadLetterQueue(name)
    topic = find_topic(name, config)
    if topic not in kafka.partitions:
        raise NoDeadLetters(
            f"The dead letter queue topic {topic} of connector {name} does not exist yet; there are no dead letters."
        )
    return DeadLetterQueue(topic, name)


def from_offset(
    spans: Mapping[int, OffsetRange], topic: str, partition: int, offset: int
) -> dict[int, OffsetRange]:
    """Return the span from an offset to the end of its partition. Raises NoDeadLetters if the offset does not exist."""
    span = spans.get(partition)
    if span is None:
        raise NoDeadLetters(f"Topic {topic} has no partition {partition}; it has {len(spans)} partitions.")
    if not span.first <= offset < span.end:
        available_offsets = f"{span.first} to {span.end - 1}" if span.count else "none"
        raise NoDeadLetters(f"{topic}-{partition} has no offset {offset}; available: {available_offsets}.")
    return {partition: OffsetRange(offset, span.end)}


def last_offsets(spans: Mapping[int, OffsetRange], count: int) -> dict[int, OffsetRange]:
    """Return the spans of the last `count` offsets of each partition."""
    return {
        number: OffsetRange(max(span.first, span.end - count), span.end) for number, span in spans.items()
    }


def uncommitted_offsets(
    spans: Mapping[int, OffsetRange], committed_offsets: Mapping[int, int]
) -> dict[int, OffsetRange]:
    """Return the spans after the committed offsets of a group."""
    return {
        number: OffsetRange(
            min(max(span.first, committed_offsets.get(number, span.first)), span.end), span.end
        )
        for number, span in spans.items()
    }

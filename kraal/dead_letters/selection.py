"""Selection of dead letters by topic, connector and offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kraal.core.errors import KraalError
from kraal.dead_letters.api import LettersKafka, Span
from kraal.dead_letters.records import DeadLetter

TOPIC_KEY: Final = "errors.deadletterqueue.topic.name"
GROUPS: Final = "kraal-dlq-replay"
"""Prefix of the consumer groups that store the progress of replays; topic names contain no slash."""


class NoDeadLetters(KraalError):
    """The topic does not exist, or the connector has none."""


@dataclass(frozen=True, slots=True)
class Box:
    """Dead letter queue topic, optionally restricted to the letters of one connector."""

    topic: str
    connector: str | None = None

    @property
    def group(self) -> str:
        """Consumer group that stores the progress of replays."""
        names = (GROUPS, self.topic) if self.connector is None else (GROUPS, self.topic, self.connector)
        return "/".join(names)

    def holds(self, letter: DeadLetter) -> bool:
        """Whether the box contains this letter of its topic."""
        return self.connector is None or letter.belongs_to(self.connector)


def list_topics(connectors: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield connectors and their dead letter queue topics from `GET /connectors?expand=info`, sorted."""
    for name, entry in sorted(connectors.items()):
        topic = str(entry.get("info", {}).get("config", {}).get(TOPIC_KEY) or "").strip()
        if topic:
            yield name, topic


def find_topic(name: str, config: Mapping[str, Any]) -> str:
    """Return the dead letter queue topic of a connector with this config. Raises NoDeadLetters."""
    topic = str(config.get(TOPIC_KEY) or "").strip()
    if not topic:
        raise NoDeadLetters(
            f"Connector {name} has no dead letter queue topic; its config does not set {TOPIC_KEY}."
        )
    if "${" in topic:
        raise NoDeadLetters(
            f"The dead letter queue topic of connector {name} is a reference, {topic};"
            " `kraal dlq` takes the name of the topic itself."
        )
    return topic


def find_box(kafka: LettersKafka, name: str, config: Mapping[str, Any] | None, kind: str = "Topic") -> Box:
    """Return the box of a connector with this config, or of a topic if `config` is None; `kind` names the latter.

    Raises NoDeadLetters, KafkaUnavailable.
    """
    if config is None:
        if name not in kafka.partitions:
            raise NoDeadLetters(f"{kind} {name} does not exist.")
        return Box(name)
    topic = find_topic(name, config)
    if topic not in kafka.partitions:
        raise NoDeadLetters(
            f"The dead letter queue topic {topic} of connector {name} does not exist yet; there are no dead letters."
        )
    return Box(topic, name)


def from_offset(spans: Mapping[int, Span], topic: str, partition: int, offset: int) -> dict[int, Span]:
    """Return a partition starting at an offset. Raises NoDeadLetters if it does not exist."""
    span = spans.get(partition)
    if span is None:
        raise NoDeadLetters(f"Topic {topic} has no partition {partition}; it has {len(spans)} partitions.")
    if not span.first <= offset < span.end:
        available = f"{span.first} to {span.end - 1}" if span.count else "none"
        raise NoDeadLetters(f"{topic}-{partition} has no offset {offset}; available: {available}.")
    return {partition: Span(offset, span.end)}


def last_offsets(spans: Mapping[int, Span], count: int) -> dict[int, Span]:
    """Return the last `count` offsets of each partition."""
    return {number: Span(max(span.first, span.end - count), span.end) for number, span in spans.items()}


def uncommitted_offsets(spans: Mapping[int, Span], committed: Mapping[int, int]) -> dict[int, Span]:
    """Return the offsets after those that a group has committed."""
    return {
        number: Span(min(max(span.first, committed.get(number, span.first)), span.end), span.end)
        for number, span in spans.items()
    }

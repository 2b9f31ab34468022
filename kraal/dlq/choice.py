"""Which letters a command means: of which topic, which connector, from where to where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kraal.client.rest import Refused, Rest
from kraal.dlq.kafka import Kafka, Span
from kraal.dlq.letters import Letter
from kraal.errors import KraalError

TOPIC_KEY: Final = "errors.deadletterqueue.topic.name"
_NOT_FOUND: Final = 404
GROUPS: Final = "kraal-dlq-replay"
"""How the names of the groups begin that remember what was replayed; a slash is in no topic's name."""


class NoLetters(KraalError):
    """There is no such topic, or the connector has none."""


@dataclass(frozen=True, slots=True)
class Box:
    """A dead-letter topic; only the letters of one connector, if one is named."""

    topic: str
    connector: str | None = None

    @property
    def group(self) -> str:
        """The consumer group that remembers how far it was replayed."""
        names = (GROUPS, self.topic) if self.connector is None else (GROUPS, self.topic, self.connector)
        return "/".join(names)

    def holds(self, letter: Letter) -> bool:
        """Whether a letter of the topic is meant."""
        return self.connector is None or letter.is_of(self.connector)


def topics_of(connectors: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield connector and dead-letter topic of what `GET /connectors?expand=info` answers, sorted."""
    for name, entry in sorted(connectors.items()):
        topic = str(entry.get("info", {}).get("config", {}).get(TOPIC_KEY) or "").strip()
        if topic:
            yield name, topic


def find_box(rest: Rest | None, kafka: Kafka, name: str) -> Box:
    """Return what a name means: a connector that the worker has, or else a topic; without `rest` a topic.

    Raises NoLetters, KafkaTrouble, Unreachable, and whatever else a worker refuses.
    """
    config = None if rest is None else _config(rest, name)
    if config is None:
        if name not in kafka.partitions:
            what = "topic" if rest is None else "connector and no topic"
            raise NoLetters(f"There is no {what} {name}.")
        return Box(name)
    topic = str(config.get(TOPIC_KEY) or "").strip()
    if not topic:
        raise NoLetters(f"The connector {name} has no dead-letter topic: its config has no {TOPIC_KEY}.")
    if "${" in topic:
        raise NoLetters(
            f"The connector {name} has its dead-letter topic from {topic}: name the topic itself."
        )
    if topic not in kafka.partitions:
        raise NoLetters(
            f"The topic {topic} of the connector {name} does not exist yet: it has no dead letters."
        )
    return Box(topic, name)


def _config(rest: Rest, name: str) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = rest.get("connectors", name, "config")
    except Refused as exc:
        if exc.status == _NOT_FOUND and not exc.no_such_path:
            return None
        raise
    return found


def from_offset(spans: Mapping[int, Span], topic: str, partition: int, offset: int) -> dict[int, Span]:
    """Return a partition from an offset on. Raises NoLetters for one that is not there."""
    span = spans.get(partition)
    if span is None:
        raise NoLetters(f"The topic {topic} has no partition {partition}: it has {len(spans)}.")
    if not span.first <= offset < span.end:
        there = f"{span.first} to {span.end - 1}" if span.count else "none"
        raise NoLetters(f"{topic}-{partition} has no offset {offset}; there are: {there}.")
    return {partition: Span(offset, span.end)}


def last(spans: Mapping[int, Span], count: int) -> dict[int, Span]:
    """Return the last `count` offsets of each partition."""
    return {number: Span(max(span.first, span.end - count), span.end) for number, span in spans.items()}


def not_yet(spans: Mapping[int, Span], committed: Mapping[int, int]) -> dict[int, Span]:
    """Return what comes after the offsets that a group has committed."""
    return {
        number: Span(min(max(span.first, committed.get(number, span.first)), span.end), span.end)
        for number, span in spans.items()
    }

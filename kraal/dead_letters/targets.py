"""Topics that a replay may write to.

The headers with the original topic are part of the record, so any client that writes records can forge them, and a
replay into the config topic of a Connect cluster would create connectors. A replay for a sink therefore writes only to
topics of the sink, and no replay writes to an internal topic.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kraal.config.connector.sink import TOPICS, TOPICS_REGEX
from kraal.config.java_regex import compile_pattern
from kraal.config.values import split_list
from kraal.core.errors import KraalError, PatternTooSlow
from kraal.dead_letters.api import LettersKafka
from kraal.dead_letters.records import PREFIX, DeadLetter, Target

_INTERNAL_PREFIX: Final = "__"
_MAX_LISTED_TOPICS: Final = 10


class CannotReplay(KraalError):
    """The target of a dead letter is unknown, does not exist or is not allowed."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Topics that a replay may write to."""

    to: str | None = None
    """The topic for all dead letters; None to use the topics in their headers."""
    topics: frozenset[str] | None = None
    """The topics that are allowed in headers; None to allow all topics except internal ones."""
    internal: frozenset[str] = field(default=frozenset())
    """The internal topics of the Connect cluster, if they are known."""

    def find_target(self, letter: DeadLetter, partitions: Mapping[str, int]) -> Target:
        """Return the target of a dead letter: the original partition, or the topic `to`.

        `partitions` contains the number of partitions by topic. The original partition also contains the other records
        with the same key. If the original partition does not exist, or if the dead letter comes from a source, Kafka's
        partitioner selects a partition by the key. Raises CannotReplay.
        """
        fields = letter.error_fields
        topic = fields.get("topic") if self.to is None else self.to
        if not isinstance(topic, str) or not topic:
            raise CannotReplay(
                f"The original topic of {letter.position} is unknown because it has no header {PREFIX}topic"
                " (errors.deadletterqueue.context.headers.enable was false); specify --to TOPIC"
            )
        self._check_topic(letter, topic, partitions)
        partition = fields.get("partition") if self.to is None else None
        exists = isinstance(partition, int) and partition < partitions[topic]
        return Target(topic, partition if exists and isinstance(partition, int) else None)

    def _check_topic(self, letter: DeadLetter, topic: str, partitions: Mapping[str, int]) -> None:
        subject = (
            f"The original topic {topic} of {letter.position}" if self.to is None else f"The topic {topic}"
        )
        if topic.startswith(_INTERNAL_PREFIX) or topic in self.internal:
            raise CannotReplay(
                f"{subject} is an internal topic of Kafka or Kafka Connect; a replay does not write to these"
            )
        if topic not in partitions:
            raise CannotReplay(f"{subject} does not exist")
        if self.to is None and self.topics is not None and topic not in self.topics:
            raise CannotReplay(
                f"{subject} is not one of the topics that the replay may write to: {self.description}; its header may"
                f" be forged. If it is correct, specify --allow-topic {topic}; for another topic, specify --to TOPIC"
            )
        if topic == letter.topic:
            raise CannotReplay(
                f"{letter.position} would be replayed into the dead letter queue topic itself; specify --to TOPIC"
            )

    @property
    def description(self) -> str:
        """The allowed topics, at most 10, for messages."""
        if self.to is not None:
            return self.to
        if self.topics is None:
            return "the topics in the headers of the letters"
        names = sorted(self.topics)
        suffix = [f"and {len(names) - _MAX_LISTED_TOPICS} more"] if len(names) > _MAX_LISTED_TOPICS else []
        return ", ".join([*names[:_MAX_LISTED_TOPICS], *suffix]) or "none"


def find_targets(
    kafka: LettersKafka,
    config: Mapping[str, Any] | None,
    *,
    is_source: bool = False,
    active: Collection[str] = (),
    allowed: Collection[str] = (),
    to: str | None = None,
) -> Targets:
    """Return the targets of a replay. Raises KafkaUnavailable.

    Args:
        kafka: lists the topics that `topics.regex` matches.
        config: the raw config of the connector; None for all dead letters of a topic, to which only `allowed` applies.
        is_source: whether the connector is a source, whose config does not contain its topics, so any topic is allowed.
        active: active topics of the connector (KIP-558), including topics of earlier configs.
        allowed: topics that the operator allows.
        to: the topic for all dead letters.
    """
    internal_topics = kafka.internal
    if to is not None or is_source:
        return Targets(to, None, internal_topics or frozenset())
    topics = frozenset(allowed)
    if config is not None:
        configured_topics = frozenset(split_list(str(config.get(TOPICS) or "")))
        candidates = (
            {*active} | _matching_topics(str(config.get(TOPICS_REGEX) or ""), kafka)
        ) - configured_topics
        if internal_topics is None and candidates:
            candidates -= kafka.compacted_topics(candidates & kafka.partitions.keys())
        topics |= configured_topics | candidates
    return Targets(None, topics - (internal_topics or frozenset()), internal_topics or frozenset())


def _matching_topics(pattern: str, kafka: LettersKafka) -> set[str]:
    if not pattern.strip():
        return set()
    try:
        regex = compile_pattern(pattern)
        return {
            topic
            for topic in kafka.partitions
            if not topic.startswith(_INTERNAL_PREFIX) and regex.fullmatch(topic)
        }
    except (ValueError, PatternTooSlow):
        return set()  # not a valid pattern, such as a variable; the active topics are still allowed

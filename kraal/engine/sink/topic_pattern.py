"""Matches topics for a sink with `topics.regex`, because the group member subscribes to topic names.

Source: KafkaConsumer.subscribe(Pattern), ConsumerCoordinator.updatePatternSubscription, Topic.isInternal (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from kraal.config.java_regex import compile_pattern
from kraal.config.values import invalid
from kraal.core.errors import BadRequest

log = logging.getLogger(__name__)

_INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's internal topics: a sink that reads its own commits would never stop committing."""
_DEFAULT_INTERVAL_S = 5.0


class TopicPattern:
    """The topic pattern of one task, and the time of the next match."""

    def __init__(self, text: str, group: str, settings: Mapping[str, str]) -> None:
        """Compile the pattern with Java's syntax. Raises BadRequest.

        Args:
            text: the value of `topics.regex`.
            group: the consumer group, for log lines.
            settings: the consumer settings, named as in Kafka. `exclude.internal.topics` applies to Kafka's internal
                topics. `metadata.max.age.ms` is the interval between matches (default: 5 s; in Java: 5 min).
        """
        try:
            self._pattern = compile_pattern(text)
        except ValueError as exc:
            raise BadRequest(invalid("topics.regex", text, f"Invalid regex: {exc}")) from exc
        self._group = group
        self._excluded_topics = _INTERNAL_TOPICS if _excludes_internal(settings) else frozenset()
        self._interval_s = _interval_s(settings)
        self._due_s = 0.0
        self._names: tuple[str, ...] | None = None

    @property
    def is_due(self) -> bool:
        """Whether it is time to match the topics of the cluster again."""
        return time.monotonic() >= self._due_s

    def match_topics(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the matching topics, sorted, and schedule the next match. Raises PatternTooSlow."""
        self._due_s = time.monotonic() + self._interval_s
        matches = self._pattern.fullmatch
        topics = tuple(sorted(name for name in names if name not in self._excluded_topics and matches(name)))
        if topics != self._names:
            self._names = topics
            if topics:
                log.info(
                    "%s: Subscribing to the topics that match topics.regex: %s",
                    self._group,
                    ", ".join(topics),
                )
            else:
                log.warning(
                    "%s: No topic matches topics.regex='%s'; checking again every %g s",
                    *(self._group, self._pattern.text, self._interval_s),
                )  # fmt: skip
        return topics


def _excludes_internal(settings: Mapping[str, str]) -> bool:
    return settings.get("exclude.internal.topics", "true").strip().lower() != "false"


def _interval_s(settings: Mapping[str, str]) -> float:
    age_ms = settings.get("metadata.max.age.ms")
    return _DEFAULT_INTERVAL_S if age_ms is None else max(1, int(age_ms)) / 1000

"""The keys of sink connectors, and checks of their combinations. Source: SinkConnectorConfig (Kafka 4.4.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.checks import distinct_entries
from kraal.config.connector.keys import (
    ADMIN_OVERRIDE,
    COMMON,
    CONNECTOR,
    CONSUMER_OVERRIDE,
    ERRORS,
    PRODUCER_OVERRIDE,
)
from kraal.config.java_regex import compile_pattern, java_regex
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Width
from kraal.config.key_families import Family
from kraal.config.values import is_blank, java_text, split_list, trim
from kraal.core.errors import PatternTooSlow

TOPICS: Final = "topics"
TOPICS_REGEX: Final = "topics.regex"
_MAX_TOPIC_LENGTH: Final = 249
"""Kafka's maximum length of topic names."""
DLQ_TOPIC: Final = "errors.deadletterqueue.topic.name"

DEAD_LETTERS: Final = ConfigDef(
    [
        Key(
            name=DLQ_TOPIC,
            type=ConfigType.STRING,
            default="",
            doc="Topic for records that could not be processed. If empty, there are no dead letters.",
            group=ERRORS,
            order=6,
            width=Width.MEDIUM,
            display_name="Dead Letter Queue Topic Name",
            source="SinkConnectorConfig.DLQ_TOPIC_NAME_CONFIG",
        ),
        Key(
            name="errors.deadletterqueue.topic.replication.factor",
            type=ConfigType.SHORT,
            default=3,
            doc="Replication factor of the dead letter queue topic if it has to be created.",
            group=ERRORS,
            order=7,
            width=Width.MEDIUM,
            display_name="Dead Letter Queue Topic Replication Factor",
            source="SinkConnectorConfig.DLQ_TOPIC_REPLICATION_FACTOR_CONFIG",
        ),
        Key(
            name="errors.deadletterqueue.context.headers.enable",
            type=ConfigType.BOOLEAN,
            default=False,
            doc="Whether to add headers that describe the error and the record's origin to dead letters.",
            group=ERRORS,
            order=8,
            width=Width.MEDIUM,
            display_name="Enable Error Context Headers",
            source="SinkConnectorConfig.DLQ_CONTEXT_HEADERS_ENABLE_CONFIG",
        ),
    ]
)
"""Keys of the dead letter queue. Connect has these only for sinks; Kraal also supports them for sources."""

SINK: Final[ConfigDef] = CONNECTOR.merge(
    [
        Key(
            name=TOPICS,
            type=ConfigType.LIST,
            default=(),
            validator=distinct_entries,
            importance=Importance.HIGH,
            doc="Topics to read, separated by commas.",
            group=COMMON,
            order=4,
            width=Width.LONG,
            display_name="Topics",
            source="SinkConnectorConfig.TOPICS_CONFIG",
        ),
        Key(
            name=TOPICS_REGEX,
            type=ConfigType.STRING,
            default="",
            validator=java_regex,
            importance=Importance.HIGH,
            doc="Regular expression; topics whose whole name matches are read, including topics created later.",
            group=COMMON,
            order=4,
            width=Width.LONG,
            display_name="Topics regex",
            source="SinkConnectorConfig.TOPICS_REGEX_CONFIG",
        ),
        *DEAD_LETTERS,
    ]
)


SINK_FAMILIES: Final = (
    Family(prefix=CONSUMER_OVERRIDE, doc="Settings of the connector's consumers; they override the worker's."),
    Family(
        prefix=ADMIN_OVERRIDE,
        doc="Settings of the connector's admin client, which reads and changes the offsets of its consumer group.",
    ),
    Family(
        prefix=PRODUCER_OVERRIDE, doc="Settings of the producer that writes dead letters.",
    ),
)  # fmt: skip
"""Families of keys of sink connectors, by prefix."""


def has_dead_letter_topic(config: Mapping[str, str | None]) -> bool:
    """Return whether a sink's config has a dead letter queue topic."""
    return not is_blank(config.get(DLQ_TOPIC))


def check_topics(config: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """Validate the topics of a sink. Return the errors as pairs of a key and a message.

    Invalid regular expressions are ignored here, because the check of their key reports them.
    Source: SinkConnectorConfig.validate.
    """
    topics, pattern = config.get(TOPICS), config.get(TOPICS_REGEX)
    dlq = trim(config.get(DLQ_TOPIC) or "")
    errors: list[tuple[str, str]] = []
    if not is_blank(topics) and not is_blank(pattern):
        both_error = f"{TOPICS} and {TOPICS_REGEX} are mutually exclusive options, but both are set."
        errors += [(TOPICS, both_error), (TOPICS_REGEX, both_error)]
    if is_blank(topics) and is_blank(pattern):
        neither_error = f"Must configure one of {TOPICS} or {TOPICS_REGEX}"
        errors += [(TOPICS, neither_error), (TOPICS_REGEX, neither_error)]
    listed_topics = tuple(dict.fromkeys(filter(None, split_list(topics or ""))))
    if dlq and dlq in listed_topics:
        errors.append(
            (
                TOPICS,
                _describe_dlq_conflict(
                    dlq, "included in the list of topics", TOPICS, java_text(listed_topics)
                ),
            )
        )
    if dlq and pattern is not None and not is_blank(pattern):
        errors += _check_pattern(pattern, dlq)
    return errors


def _describe_dlq_conflict(topic: str, relation: str, key: str, value: str) -> str:
    return f"The DLQ topic '{topic}' may not be {relation} ('{key}={value}') consumed by the connector"


def _check_pattern(pattern: str, dlq: str) -> list[tuple[str, str]]:
    """Check that a pattern does not match the dead letter queue topic."""
    if len(dlq) > _MAX_TOPIC_LENGTH:
        return []
    try:
        if compile_pattern(pattern).fullmatch(dlq) is None:
            return []
    except ValueError:
        return []
    except PatternTooSlow as exc:
        return [(TOPICS_REGEX, str(exc))]
    return [
        (
            TOPICS_REGEX,
            _describe_dlq_conflict(dlq, "matched by the regex for the topics", TOPICS_REGEX, pattern),
        )
    ]

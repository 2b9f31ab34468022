"""The keys of source connectors. Source: SourceConnectorConfig, TopicCreationConfig (Kafka 4.4.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.checks import at_least, non_empty, one_of_ignoring_case, unique_aliases, unless_null
from kraal.config.connector.keys import ADMIN_OVERRIDE, CONNECTOR, PRODUCER_OVERRIDE
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Width
from kraal.config.key_families import Family

EXACTLY_ONCE_SUPPORT: Final = "exactly.once.support"
TRANSACTION_BOUNDARY: Final = "transaction.boundary"
BOUNDARY_INTERVAL: Final = "transaction.boundary.interval.ms"
BY_INTERVAL: Final = "interval"
"""The value of `transaction.boundary` for transactions that contain all batches of an interval."""
OFFSETS_TOPIC: Final = "offsets.storage.topic"
TOPIC_CREATION: Final = "topic.creation."
"""Prefix of the rules for creating a source's topics."""

_TRANSACTIONS_ONLY: Final = "on workers without exactly.once.source.support=enabled"
EXACTLY_ONCE_KEYS: Final = frozenset(
    {EXACTLY_ONCE_SUPPORT, TRANSACTION_BOUNDARY, BOUNDARY_INTERVAL, OFFSETS_TOPIC}
)
"""Keys that have an effect only on workers with exactly-once source support."""
_EXACTLY_ONCE: Final = "Exactly Once Support"

SOURCE: Final[ConfigDef] = CONNECTOR.merge(
    [
        Key(
            name="topic.creation.groups",
            type=ConfigType.LIST,
            default=(),
            validator=unique_aliases,
            importance=Importance.LOW,
            doc="Names of groups of settings for topics that the connector creates. A topic belongs to the first "
            "group that includes it.",
            group="Topic Creation",
            order=1,
            width=Width.LONG,
            display_name="Topic Creation Groups",
            source="SourceConnectorConfig.TOPIC_CREATION_GROUPS_CONFIG",
        ),
        Key(
            name=EXACTLY_ONCE_SUPPORT,
            type=ConfigType.STRING,
            default="requested",
            # As in Java, whose error lists the names in hash order.
            validator=one_of_ignoring_case("REQUIRED", "REQUESTED"),
            doc="With required, a connector that cannot deliver each record exactly once is rejected.",
            group=_EXACTLY_ONCE,
            order=2,
            width=Width.SHORT,
            display_name="Exactly once support",
            source="SourceConnectorConfig.EXACTLY_ONCE_SUPPORT_CONFIG",
            no_effect=f"{_TRANSACTIONS_ONLY}; distributed workers reject the value required",
        ),
        Key(
            name=TRANSACTION_BOUNDARY,
            type=ConfigType.STRING,
            default="poll",
            validator=one_of_ignoring_case("INTERVAL", "POLL", "CONNECTOR"),
            doc="When a source's transaction is committed: after each batch (poll), after an interval (interval), or "
            "when the connector requests it (connector).",
            group=_EXACTLY_ONCE,
            order=3,
            width=Width.SHORT,
            display_name="Transaction Boundary",
            source="SourceConnectorConfig.TRANSACTION_BOUNDARY_CONFIG",
            no_effect=f"{_TRANSACTIONS_ONLY}; distributed workers reject the value connector",
        ),
        Key(
            name=BOUNDARY_INTERVAL,
            type=ConfigType.LONG,
            default=None,
            validator=unless_null(at_least(0)),
            importance=Importance.LOW,
            doc="Interval between commits of transactions if transaction.boundary is interval, in milliseconds; "
            "default: the worker's offset.flush.interval.ms.",
            group=_EXACTLY_ONCE,
            order=4,
            width=Width.SHORT,
            display_name="Transaction boundary interval",
            source="SourceConnectorConfig.TRANSACTION_BOUNDARY_INTERVAL_CONFIG",
            no_effect=_TRANSACTIONS_ONLY,
        ),
        Key(
            name=OFFSETS_TOPIC,
            type=ConfigType.STRING,
            default=None,
            validator=non_empty,
            importance=Importance.LOW,
            doc="Separate topic for the connector's offsets.",
            group="offsets.topic",
            order=1,
            width=Width.LONG,
            display_name="Offsets topic",
            source="SourceConnectorConfig.OFFSETS_TOPIC_CONFIG",
            no_effect=f"{_TRANSACTIONS_ONLY}: all offsets are stored in the worker's topic",
        ),
    ]
)

SOURCE_FAMILIES: Final = (
    Family(
        prefix="errors.deadletterqueue.",
        doc="The same keys as for sinks. Kafka Connect ignores them in configs of sources.",
    ),
    Family(
        prefix=TOPIC_CREATION, rest="GROUP.SETTING",
        doc="Settings of the topic group GROUP. include and exclude are lists of regular expressions that match "
        "whole topic names. partitions and replication.factor apply to new topics; -1 is the broker's default. Any "
        "topic setting is also allowed. The group default contains all topics that match no other group; it must set "
        "partitions and replication.factor, which the other groups inherit. Without any topic.creation.* key, brokers "
        "create topics if they are configured to do so.",
    ),
    Family(prefix=PRODUCER_OVERRIDE, doc="Settings of the connector's producers; they override the worker's."),
    Family(
        prefix=ADMIN_OVERRIDE,
        doc="Settings of the connector's admin client, which creates topics, including the dead letter queue topic.",
    ),
)  # fmt: skip
"""Families of keys of source connectors, by prefix."""


def parse_boundary(config: Mapping[str, str]) -> str:
    """Return a connector's `transaction.boundary`, in lower case."""
    return config.get(TRANSACTION_BOUNDARY, "poll").strip().lower()

"""The topics that a mirror copies, their names in the target, and their distribution to tasks. Free of side effects.

Source: DefaultReplicationPolicy, IdentityReplicationPolicy, DefaultTopicFilter, MirrorSourceConnector (Kafka 4.3.0).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kraal.config.java_regex import compile_pattern
from kraal.config.patterns import Pattern
from kraal.config.values import as_strings
from kraal.connectors.mirror.config import DEFAULT_POLICY
from kraal.plugins.api import Offset, SourcePartition, TopicPartition

_HEARTBEATS: Final = "heartbeats"
_MAX_PARTITIONS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPolicy:
    """The naming of topics in the target, as in DefaultReplicationPolicy or IdentityReplicationPolicy."""

    alias: str
    target: str
    separator: str = "."
    internal_separator: str = "."
    keeps_names: bool = False
    """Whether topics keep their names, except for heartbeats."""

    def remote_topic(self, topic: str) -> str:
        """Return the name of a source topic in the target."""
        return topic if self._keeps_name(topic) else f"{self.alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was copied from; None if it was not copied."""
        if self._keeps_name(topic):
            return self.alias
        first, separator, topic_name = topic.partition(self.separator)
        return first if separator and topic_name else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of a copied topic in the cluster that it was copied from; None if it was not copied."""
        if self._keeps_name(topic):
            return topic
        origin = self.topic_source(topic)
        return None if origin is None else topic[len(origin) + len(self.separator) :]

    def originates_in_target(self, topic: str) -> bool:
        """Return whether a topic originates from the target, possibly through other clusters."""
        origin = self.topic_source(topic)
        if origin is None:
            return False
        if origin == self.target:
            return True
        upstream = self.upstream_topic(topic)
        return upstream is not None and upstream != topic and self.originates_in_target(upstream)

    def is_internal(self, topic: str) -> bool:
        """Return whether a topic is internal to Kafka, Connect or MirrorMaker."""
        suffixes = (f"{self.internal_separator}internal", "-internal", ".internal")
        return topic.startswith(("__", ".")) or topic.endswith(suffixes)

    def is_heartbeats(self, topic: str) -> bool:
        """Return whether a topic is `heartbeats` or a copy of it."""
        upstream = self.upstream_topic(topic)
        while upstream is not None and upstream != topic:
            topic, upstream = upstream, self.upstream_topic(upstream)
        return topic == _HEARTBEATS

    def _keeps_name(self, topic: str) -> bool:
        return self.keeps_names and not topic.endswith(_HEARTBEATS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFilter:
    """Selects the topics to copy."""

    policy: ReplicationPolicy
    include: tuple[Pattern, ...]
    exclude: tuple[Pattern, ...]
    includes_heartbeats: bool

    def includes(self, topic: str) -> bool:
        """Return whether a source topic is copied. Raises PatternTooSlow."""
        is_included = matches_any(self.include, topic) and not matches_any(self.exclude, topic)
        is_included = is_included or (self.includes_heartbeats and self.policy.is_heartbeats(topic))
        return (
            is_included and not self.policy.is_internal(topic) and not self.policy.originates_in_target(topic)
        )


def make_topic_filter(parsed: Mapping[str, object]) -> TopicFilter:
    """Return the topic filter of a validated config."""
    separator = str(parsed["replication.policy.separator"])
    policy = ReplicationPolicy(
        alias=str(parsed["source.cluster.alias"]),
        target=str(parsed["target.cluster.alias"]),
        separator=separator,
        internal_separator=separator
        if parsed["replication.policy.internal.topic.separator.enabled"]
        else ".",
        keeps_names=parsed["replication.policy.class"] != DEFAULT_POLICY,
    )
    regex = parsed["topics.regex"]
    include = as_strings(parsed["topics"]) if regex is None else (str(regex),)
    return TopicFilter(
        policy=policy,
        include=compile_patterns(include),
        exclude=compile_patterns(as_strings(parsed["topics.exclude"])),
        includes_heartbeats=bool(parsed["heartbeats.replication.enabled"]),
    )


def compile_patterns(patterns: Sequence[str]) -> tuple[Pattern, ...]:
    """Compile topic names and regular expressions; empty strings are ignored."""
    return tuple(compile_pattern(pattern) for pattern in patterns if pattern)


def matches_any(patterns: tuple[Pattern, ...], text: str) -> bool:
    """Return whether a pattern matches the whole text. Raises PatternTooSlow."""
    return any(pattern.fullmatch(text) for pattern in patterns)


def list_partitions(counts: Mapping[str, int]) -> tuple[TopicPartition, ...]:
    """Return all partitions of the topics, in order. `counts` maps each topic to its number of partitions."""
    return tuple(TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic]))


def distribute(partitions: Sequence[TopicPartition], max_tasks: int) -> list[list[TopicPartition]]:
    """Distribute partitions to tasks round-robin, so that each topic is spread over the tasks.

    Source: MirrorSourceConnector.taskConfigs.
    """
    count = min(max_tasks, len(partitions))
    return [list(partitions[number::count]) for number in range(count)]


def format_partitions(partitions: Sequence[TopicPartition]) -> str:
    """Format partitions for a task's config."""
    return ",".join(f"{tp.topic}-{tp.partition}" for tp in partitions)


def parse_partitions(text: str) -> list[TopicPartition]:
    """Parse the partitions in a task's config. Raises ValueError for an invalid partition."""
    partitions = []
    for entry in filter(None, map(str.strip, text.split(","))):
        topic, dash, number = entry.rpartition("-")
        if not dash or not number.isdecimal():
            raise ValueError(
                f"Invalid partition '{entry}' in task.assigned.partitions; expected TOPIC-NUMBER"
            )
        partitions.append(TopicPartition(topic, int(number)))
    return partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingTopics:
    """The topics and partitions that are missing in the target, as expected partition counts by target topic."""

    topics: Mapping[str, int]
    """Topics that do not exist."""
    partitions: Mapping[str, int]
    """Topics that have too few partitions."""


def find_missing(
    source: Mapping[str, int], target: Mapping[str, int], policy: ReplicationPolicy
) -> MissingTopics:
    """Return the topics and partitions of the source that are missing in the target."""
    expected_counts = {policy.remote_topic(topic): count for topic, count in source.items()}
    return MissingTopics(
        topics={topic: count for topic, count in expected_counts.items() if topic not in target},
        partitions={
            topic: count for topic, count in expected_counts.items() if count > target.get(topic, count)
        },
    )


# --- offsets: {cluster, partition, topic} -> {offset: offset of the last copied record} --------------------------


def source_partition(alias: str, partition: TopicPartition) -> SourcePartition:
    """Return the source partition of a topic partition.

    The fields are in Java's order, because their JSON is a record key.
    """
    return SourcePartition.of({"cluster": alias, "partition": partition.partition, "topic": partition.topic})


def next_offset(offset: Offset | None) -> int | None:
    """Return the next offset to copy; None if the stored offset is missing or negative. Raises ValueError."""
    if offset is None or offset.get("offset") is None:
        return None
    last_offset = offset["offset"]
    if not _is_integer(last_offset):
        raise ValueError(f"the stored offset {dict(offset)} has no integer for 'offset'")
    return int(str(last_offset)) + 1 if int(str(last_offset)) >= 0 else None


def check_offset(partition: SourcePartition, offset: Offset | None) -> None:
    """Raise ValueError, with the messages of Java's MirrorUtils, if a partition or offset to store is invalid."""
    if offset is None:
        return
    fields = partition.as_dict()
    for key in ("cluster", "topic"):
        _require_key(fields, key, "Source partition", fields)
        if not isinstance(fields[key], str):
            raise ValueError(
                f"Source partition {fields} has an invalid value {fields[key]} for the '{key}' key, which must be a "
                "string"
            )
    _require_key(fields, "partition", "Source partition", fields)
    _check_integer(fields["partition"], "partition", f"Source partition {fields}", _MAX_PARTITIONS)
    subject = f"Source offset {dict(offset)} for source partition {fields}"
    if "offset" not in offset:
        raise ValueError(f"{subject} is missing the 'offset' key, which is required")
    _check_integer(offset["offset"], "offset", subject, 2**63 - 1)


def _require_key(fields: Collection[str], key: str, subject: str, content: object) -> None:
    if key not in fields:
        raise ValueError(f"{subject} {content} is missing the '{key}' key, which is required")


def _check_integer(value: object, key: str, subject: str, maximum: int) -> None:
    problem = f"{subject} has an invalid value {value} for the '{key}' key, which"
    if not _is_integer(value) or int(str(value)) > maximum:
        raise ValueError(f"{problem} must be an integer")
    if int(str(value)) < 0:
        raise ValueError(f"{problem} cannot be negative")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

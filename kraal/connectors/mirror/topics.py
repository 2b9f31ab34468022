"""The topics that a mirror copies, their names in the target, and their distribution to tasks. Pure.

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
class Naming:
    """The names of topics in the target."""

    alias: str
    target: str
    separator: str = "."
    internal_separator: str = "."
    identity: bool = False
    """Whether topics keep their names, except for heartbeats."""

    def remote(self, topic: str) -> str:
        """Return the name of a source topic in the target."""
        return topic if self._as_is(topic) else f"{self.alias}{self.separator}{topic}"

    def origin(self, topic: str) -> str | None:
        """Return the cluster that a topic was copied from; None if it was not copied."""
        if self._as_is(topic):
            return self.alias
        first, separator, topic_name = topic.partition(self.separator)
        return first if separator and topic_name else None

    def upstream(self, topic: str) -> str | None:
        """Return the name of a copied topic in the cluster that it was copied from."""
        if self._as_is(topic):
            return topic
        origin = self.origin(topic)
        return None if origin is None else topic[len(origin) + len(self.separator) :]

    def originates_in_target(self, topic: str) -> bool:
        """Return whether a topic originates from the target, possibly through other clusters."""
        origin = self.origin(topic)
        if origin is None:
            return False
        if origin == self.target:
            return True
        upstream = self.upstream(topic)
        return upstream is not None and upstream != topic and self.originates_in_target(upstream)

    def is_internal(self, topic: str) -> bool:
        """Return whether a topic is internal to Kafka, Connect or MirrorMaker."""
        ends = (f"{self.internal_separator}internal", "-internal", ".internal")
        return topic.startswith(("__", ".")) or topic.endswith(ends)

    def is_heartbeats(self, topic: str) -> bool:
        """Return whether a topic is `heartbeats` or a copy of it."""
        upstream = self.upstream(topic)
        while upstream is not None and upstream != topic:
            topic, upstream = upstream, self.upstream(upstream)
        return topic == _HEARTBEATS

    def _as_is(self, topic: str) -> bool:
        return self.identity and not topic.endswith(_HEARTBEATS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The selection of topics to copy."""

    naming: Naming
    include: tuple[Pattern, ...]
    exclude: tuple[Pattern, ...]
    heartbeats: bool

    def includes(self, topic: str) -> bool:
        """Return whether a source topic is copied. Raises PatternTooSlow."""
        named = is_match(self.include, topic) and not is_match(self.exclude, topic)
        named = named or (self.heartbeats and self.naming.is_heartbeats(topic))
        return named and not self.naming.is_internal(topic) and not self.naming.originates_in_target(topic)


def make_choice(parsed: Mapping[str, object]) -> Choice:
    """Return the selection that a validated config defines."""
    separator = str(parsed["replication.policy.separator"])
    naming = Naming(
        alias=str(parsed["source.cluster.alias"]),
        target=str(parsed["target.cluster.alias"]),
        separator=separator,
        internal_separator=separator
        if parsed["replication.policy.internal.topic.separator.enabled"]
        else ".",
        identity=parsed["replication.policy.class"] != DEFAULT_POLICY,
    )
    single = parsed["topics.regex"]
    include = as_strings(parsed["topics"]) if single is None else (str(single),)
    return Choice(
        naming=naming,
        include=any_of(include),
        exclude=any_of(as_strings(parsed["topics.exclude"])),
        heartbeats=bool(parsed["heartbeats.replication.enabled"]),
    )


def any_of(patterns: Sequence[str]) -> tuple[Pattern, ...]:
    """Compile names and expressions to patterns; empty ones are ignored."""
    return tuple(compile_pattern(pattern) for pattern in patterns if pattern)


def is_match(patterns: tuple[Pattern, ...], text: str) -> bool:
    """Return whether a pattern matches the whole text. Raises PatternTooSlow."""
    return any(pattern.fullmatch(text) for pattern in patterns)


def list_partitions(counts: Mapping[str, int]) -> tuple[TopicPartition, ...]:
    """Return the partitions of topics with the given partition counts, in order."""
    return tuple(TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic]))


def distribute(partitions: Sequence[TopicPartition], max_tasks: int) -> list[list[TopicPartition]]:
    """Distribute partitions to tasks round-robin, so that each task gets partitions of every topic.

    Source: MirrorSourceConnector.taskConfigs.
    """
    count = min(max_tasks, len(partitions))
    return [list(partitions[number::count]) for number in range(count)]


def format_partitions(partitions: Sequence[TopicPartition]) -> str:
    """Format partitions for a task's config."""
    return ",".join(f"{each.topic}-{each.partition}" for each in partitions)


def parse_partitions(text: str) -> list[TopicPartition]:
    """Parse the partitions in a task's config. Raises ValueError for an invalid one."""
    partitions = []
    for each in filter(None, map(str.strip, text.split(","))):
        topic, dash, number = each.rpartition("-")
        if not dash or not number.isdecimal():
            raise ValueError(f"{each} in task.assigned.partitions is not a partition; expected TOPIC-NUMBER")
        partitions.append(TopicPartition(topic, int(number)))
    return partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The topics and partitions that the target lacks: partition counts by topic name in the target."""

    create: Mapping[str, int]
    grow: Mapping[str, int]


def missing(source: Mapping[str, int], target: Mapping[str, int], naming: Naming) -> Missing:
    """Compare the topics to copy with those of the target."""
    expected = {naming.remote(topic): count for topic, count in source.items()}
    return Missing(
        create={topic: count for topic, count in expected.items() if topic not in target},
        grow={topic: count for topic, count in expected.items() if count > target.get(topic, count)},
    )


# --- offsets: {cluster, partition, topic} -> {offset: that of the last copied record} ----------------------------


def source_partition(alias: str, place: TopicPartition) -> SourcePartition:
    """Return the source partition of offsets; fields are in the order of Java's map because their bytes are a key."""
    return SourcePartition.of({"cluster": alias, "partition": place.partition, "topic": place.topic})


def next_offset(offset: Offset | None) -> int | None:
    """Return the next offset to copy; None without a stored offset. Raises ValueError."""
    if offset is None or offset.get("offset") is None:
        return None
    last = offset["offset"]
    if not _is_integer(last):
        raise ValueError(f"the stored offset {dict(offset)} has no whole number for 'offset'")
    return int(str(last)) + 1 if int(str(last)) >= 0 else None


def check_offset(partition: SourcePartition, offset: Offset | None) -> None:
    """Check an offset that a user requests to store. Raises ValueError with the messages of Java's MirrorUtils."""
    if offset is None:
        return
    fields = partition.as_dict()
    for key in ("cluster", "topic"):
        _present(fields, key, "Source partition", fields)
        if not isinstance(fields[key], str):
            raise ValueError(
                f"Source partition {fields} has an invalid value {fields[key]} for the '{key}' key, which must be a "
                "string"
            )
    _present(fields, "partition", "Source partition", fields)
    _number(fields["partition"], "partition", f"Source partition {fields}", _MAX_PARTITIONS)
    whole = f"Source offset {dict(offset)} for source partition {fields}"
    if "offset" not in offset:
        raise ValueError(f"{whole} is missing the 'offset' key, which is required")
    _number(offset["offset"], "offset", whole, 2**63 - 1)


def _present(fields: Collection[str], key: str, what: str, content: object) -> None:
    if key not in fields:
        raise ValueError(f"{what} {content} is missing the '{key}' key, which is required")


def _number(value: object, key: str, what: str, most: int) -> None:
    wrong = f"{what} has an invalid value {value} for the '{key}' key, which"
    if not _is_integer(value) or int(str(value)) > most:
        raise ValueError(f"{wrong} must be an integer")
    if int(str(value)) < 0:
        raise ValueError(f"{wrong} cannot be negative")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

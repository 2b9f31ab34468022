"""Rules for creating the topics of a source: groups of topics, and settings of new topics (KIP-158).

Kraal creates topics for connectors with any key `topic.creation.…`. For other connectors, brokers create topics if they
are configured to do so. As in Connect, these keys are checked when a connector starts, not when a config is validated.
Source: SourceConnectorConfig, TopicCreationConfig, TopicCreationGroup, TopicCreation (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from kraal.config.checks import Check, rule
from kraal.config.connector.source import TOPIC_CREATION
from kraal.config.java_regex import compile_pattern, find_pattern_error
from kraal.config.key import REQUIRED, ConfigDef, ConfigType, Importance, Key
from kraal.config.patterns import Pattern
from kraal.config.values import as_strings, invalid, java_text, parse_value
from kraal.core.errors import ConfigInvalid

log = logging.getLogger(__name__)

ENABLE: Final = "topic.creation.enable"
"""The worker's key that enables topic creation; the default is true."""
GROUPS: Final = f"{TOPIC_CREATION}groups"
DEFAULT: Final = "default"
"""The group of all topics that match no other group."""
BROKER_DEFAULT: Final = -1
"""The value that represents the broker's default number of partitions or replication factor."""

_INCLUDE: Final = "include"
_EXCLUDE: Final = "exclude"
_REPLICATION_FACTOR: Final = "replication.factor"
_PARTITIONS: Final = "partitions"
_RUNTIME_KEYS: Final = frozenset({_INCLUDE, _EXCLUDE, _REPLICATION_FACTOR, _PARTITIONS})
"""Keys of a group that the runtime reads; all others are topic settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. `str()` returns the text of Java's NewTopic.toString, which Connect's errors contain."""

    name: str
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]

    @override
    def __str__(self) -> str:
        settings = ", ".join(f"{key}={value}" for key, value in self.settings.items())
        return (
            f"(name={self.name}, numPartitions={self.partitions}, replicationFactor={self.replication_factor}, "
            f"replicasAssignments=null, configs={{{settings}}})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGroup:
    """A group of topics. `partitions` and `replication_factor` are at least 1, or -1 for the broker's default."""

    name: str
    include: Pattern
    exclude: Pattern
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]
    """Settings of new topics, by their names in Kafka."""

    def matches(self, topic: str) -> bool:
        """Return whether a topic's whole name is included and not excluded. Raises PatternTooSlow."""
        return self.exclude.fullmatch(topic) is None and self.include.fullmatch(topic) is not None

    def new_topic(self, name: str) -> NewTopic:
        """Return the specification of a new topic in this group."""
        return NewTopic(
            name=name,
            partitions=self.partitions,
            replication_factor=self.replication_factor,
            settings=self.settings,
        )


@dataclass(frozen=True, slots=True)
class TopicRules:
    """A connector's groups in the order of `topic.creation.groups`, and the default group. Picklable."""

    groups: tuple[TopicGroup, ...]
    default: TopicGroup

    def find_group(self, topic: str) -> TopicGroup:
        """Return the first group that matches. Raises PatternTooSlow. Source: TopicCreation.findFirstGroup."""
        return next((group for group in self.groups if group.matches(topic)), self.default)


def read_rules(config: Mapping[str, str]) -> TopicRules | None:
    """Read a source connector's rules; None if its config has no rules. Raises ConfigInvalid with all errors."""
    if not any(name.startswith(TOPIC_CREATION) for name in config):
        return None
    names = as_strings(parse_value(GROUPS, config.get(GROUPS, ""), ConfigType.LIST))
    if DEFAULT in names:
        log.warning(
            "'%s' topic creation group always exists and does not need to be listed explicitly", DEFAULT
        )
    errors: list[str] = []
    default = _read_group(config, DEFAULT, None, errors)
    groups = tuple(
        _read_group(config, name, default, errors) for name in dict.fromkeys(names) if name != DEFAULT
    )
    if errors:
        raise ConfigInvalid("\n".join(errors), errors)
    return TopicRules(groups, default)


def read_enabled_rules(worker: Mapping[str, str], config: Mapping[str, str]) -> TopicRules | None:
    """Read the rules; None if the worker disables topic creation.

    Source: Worker.sourceConnectorTopicCreationEnabled.
    """
    is_enabled = parse_value(ENABLE, worker.get(ENABLE, "true"), ConfigType.BOOLEAN)
    return read_rules(config) if is_enabled else None


def _read_group(
    config: Mapping[str, str], name: str, default: TopicGroup | None, errors: list[str]
) -> TopicGroup:
    """Read a group and add its errors to `errors`. `default` must be None for the default group itself.

    The default group has no patterns, because it contains all remaining topics.
    """
    prefix = f"{TOPIC_CREATION}{name}."
    values = {value.name: value for value in _group_keys(prefix, default).validate(config)}
    errors += [error for value in values.values() for error in value.errors]

    def read_number(key: str) -> int:
        value = values[prefix + key].value
        return value if isinstance(value, int) else BROKER_DEFAULT

    def read_pattern(key: str) -> Pattern:
        value = values.get(prefix + key)
        return compile_pattern("" if value is None or value.errors else "|".join(as_strings(value.value)))

    return TopicGroup(
        name=name,
        include=read_pattern(_INCLUDE),
        exclude=read_pattern(_EXCLUDE),
        partitions=read_number(_PARTITIONS),
        replication_factor=read_number(_REPLICATION_FACTOR),
        settings={
            key.removeprefix(prefix): value
            for key, value in config.items()
            if key.startswith(prefix) and key.removeprefix(prefix) not in _RUNTIME_KEYS
        },
    )


def _group_keys(prefix: str, default: TopicGroup | None) -> ConfigDef:
    """Return a group's keys. Source: TopicCreationConfig.configDef, defaultGroupConfigDef."""
    replication_factor = REQUIRED if default is None else default.replication_factor
    partitions = REQUIRED if default is None else default.partitions
    keys = [
        _key(prefix + _REPLICATION_FACTOR, ConfigType.SHORT, replication_factor, _check_replication_factor),
        _key(prefix + _PARTITIONS, ConfigType.INT, partitions, _check_partitions),
    ]
    if default is not None:
        keys = [
            _key(prefix + name, ConfigType.LIST, (), _check_expressions) for name in (_INCLUDE, _EXCLUDE)
        ] + keys
    return ConfigDef(keys)


def _key(name: str, kind: ConfigType, default: object, check: Check) -> Key:
    return Key(name=name, type=kind, default=default, validator=check, importance=Importance.LOW)


@rule("1 or more, or -1 for the broker's default")
def _check_partitions(name: str, value: object) -> str | None:
    """Require a number of partitions. Source: TopicCreationConfig.validatePartitions."""
    reason = "Number of partitions must be positive, or -1 to use the broker's default"
    return _check_positive(name, value, reason)


@rule("1 or more, or -1 for the broker's default")
def _check_replication_factor(name: str, value: object) -> str | None:
    """Require a replication factor. Source: TopicCreationConfig.validateReplicationFactor."""
    reason = (
        "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, "
        "or -1 to use the broker's default"
    )
    return _check_positive(name, value, reason)


def _check_positive(name: str, value: object, reason: str) -> str | None:
    if not isinstance(value, int) or value == BROKER_DEFAULT or value >= 1:
        return None
    return invalid(name, value, reason)


@rule("regular expressions")
def _check_expressions(name: str, value: object) -> str | None:
    """Require expressions that are valid individually and when joined by `|`. The error detail is Python's."""
    entries = as_strings(value)
    for expression in (*entries, "|".join(entries)):
        if (reason := find_pattern_error(expression)) is not None:
            return invalid(name, java_text(value), f"Syntax error in regular expression: {reason}")
    return None

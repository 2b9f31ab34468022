"""Tests for topic creation: groups and new topics. Mirrors SourceConnectorConfigTest and TopicCreationTest."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest

from kraal.config.connector.topic_creation import TopicRules, read_enabled_rules, read_rules
from kraal.core.errors import ConfigInvalid

BASE = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "5"}

FACTOR_ERROR = (
    "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, "
    "or -1 to use the broker's default"
)
PARTITIONS_ERROR = "Number of partitions must be positive, or -1 to use the broker's default"


def group_settings(name: str, **keys: str) -> dict[str, str]:
    return {f"topic.creation.{name}.{key.replace('_', '.')}": value for key, value in keys.items()}


def make_rules(*parts: Mapping[str, str], groups: str = "") -> TopicRules:
    config = {**BASE, "topic.creation.groups": groups}
    for part in parts:
        config |= part
    topic_rules = read_rules(config)
    assert topic_rules is not None
    return topic_rules


def find_errors(config: Mapping[str, str]) -> tuple[str, ...]:
    with pytest.raises(ConfigInvalid) as raised:
        read_rules(config)
    return raised.value.errors


def test_config_without_keys_has_no_rules() -> None:
    assert read_rules({"name": "n", "topics.creation.default.partitions": "1"}) is None


@pytest.mark.parametrize(("enable", "has_rules"), [("true", True), ("FALSE", False), (None, True)])
def test_worker_can_disable_topic_creation(*, enable: str | None, has_rules: bool) -> None:
    worker = {} if enable is None else {"topic.creation.enable": enable}
    assert (read_enabled_rules(worker, BASE) is not None) == has_rules
    if not has_rules:
        assert read_enabled_rules(worker, {"topic.creation.groups": "a"}) is None, (
            "disabled rules are not checked"
        )


def test_default_group_contains_all_other_topics() -> None:
    topic_rules = make_rules(group_settings("default", include="a", exclude=".*"))
    assert topic_rules.find_group("b") is topic_rules.default
    assert (topic_rules.default.partitions, topic_rules.default.replication_factor) == (5, 1)
    assert topic_rules.default.new_topic("b").settings == {}


@pytest.mark.parametrize(
    ("topic", "group"),
    [
        pytest.param("orders", "first", id="both groups match"),
        pytest.param("orders-late", "second", id="excluded by the first"),
        pytest.param("my-orders", "default", id="partial match"),
        pytest.param("b", "first", id="second entry of include"),
        pytest.param("dead", "default", id="excluded everywhere"),
        pytest.param("", "default", id="empty topic name"),
    ],
)
def test_topic_belongs_to_first_matching_group(topic: str, group: str) -> None:
    first = group_settings("first", include="orders.*, b, dead", exclude=".*-late,dead")
    second = group_settings("second", include="orders.*")
    assert make_rules(second, first, groups="first,second").find_group(topic).name == group


def test_group_inherits_only_partitions_and_replication_factor() -> None:
    topic_rules = make_rules(
        group_settings("default", cleanup_policy="compact", include="x"),
        group_settings("log", include="log", partitions="-1", retention_ms="7"),
        group_settings("bare"),
        groups="log,bare",
    )
    log, bare = topic_rules.groups
    assert str(log.new_topic("log")) == (
        "(name=log, numPartitions=-1, replicationFactor=1, replicasAssignments=null, configs={retention.ms=7})"
    )
    assert (bare.partitions, bare.replication_factor, bare.settings) == (5, 1, {})
    assert not bare.matches("x"), "a group without include matches no topic"
    assert topic_rules.find_group("other").new_topic("other").settings == {"cleanup.policy": "compact"}


def test_listing_default_group_has_no_effect() -> None:
    topic_rules = make_rules(group_settings("late", include="a"), groups="default,late")
    assert [group.name for group in topic_rules.groups] == ["late"]
    assert topic_rules.find_group("a").name == "late"


def test_patterns_use_java_syntax() -> None:
    topic_rules = make_rules(group_settings("g", include=r"\p{Alpha}+,(?<kind>x)-\k<kind>"), groups="g")
    assert [topic for topic in ("ab", "a1", "x-x", "x-y") if topic_rules.find_group(topic).name == "g"] == [
        "ab",
        "x-x",
    ]


def test_all_errors_are_reported_like_connect() -> None:
    messages = find_errors(
        {
            "topic.creation.groups": "g",
            "topic.creation.default.replication.factor": "0",
            **group_settings("g", include="ok, (", partitions="-2", replication_factor="70000"),
        }
    )
    assert messages[:2] == (
        f"Invalid value 0 for configuration topic.creation.default.replication.factor: {FACTOR_ERROR}",
        'Missing required configuration "topic.creation.default.partitions" which has no default value.',
    )
    assert messages[2].startswith(
        "Invalid value [ok, (] for configuration topic.creation.g.include: Syntax error in regular expression: "
    )
    assert messages[3:] == (
        "Invalid value 70000 for configuration topic.creation.g.replication.factor: Not a number of type SHORT",
        f"Invalid value -2 for configuration topic.creation.g.partitions: {PARTITIONS_ERROR}",
    )


def test_rules_can_be_pickled() -> None:
    topic_rules = make_rules(group_settings("g", include="a"), groups="g")
    assert pickle.loads(pickle.dumps(topic_rules)).find_group("a").name == "g"  # noqa: S301 - pickled above

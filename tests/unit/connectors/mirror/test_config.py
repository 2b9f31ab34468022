"""Tests for the mirror's config keys and client settings, based on Kafka's MirrorConnectorConfigTest."""

from __future__ import annotations

import pytest

from kraal.connectors.mirror.config import (
    MIRROR,
    make_source_admin_settings,
    make_source_consumer_settings,
    make_target_admin_settings,
)

VALID_CONFIG = {
    "source.cluster.alias": "west",
    "source.cluster.bootstrap.servers": "west:1",
    "target.cluster.bootstrap.servers": "east:1",
}


def find_errors(changes: dict[str, str]) -> list[str]:
    return [error for value in MIRROR.validate(VALID_CONFIG | changes) for error in value.errors]


def test_config_requires_three_keys() -> None:
    assert find_errors({}) == []
    missing_key_errors = [error for value in MIRROR.validate({}) for error in value.errors]
    assert [text.split('"')[1] for text in missing_key_errors if text.startswith("Missing")] == list(
        VALID_CONFIG
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("topics", "a, b(", "Invalid value b( for configuration topics: Invalid regex: "),
        ("topics.regex", "b(", "Invalid value b( for configuration topics.regex: Invalid regex: "),
        ("topics.exclude", "*", "Invalid value * for configuration topics.exclude: Invalid regex: "),
        (
            "replication.policy.class",
            "com.example.Mine",
            "configuration replication.policy.class: String must be one of: org.apache.kafka.connect.mirror.Default",
        ),
        ("replication.policy.separator", "", "String must be non-empty"),
        ("refresh.topics.interval.seconds", "-1", "Value must be at least 0"),
        (
            "trigger",
            "now",
            "Invalid value now for configuration trigger: String must be one of: batch, realtime",
        ),
        ("realtime.batch.ms", "4999", "Value must be at least 5000"),
        ("offset-syncs.topic.location", "here", "String must be one of: source, target"),
    ],
)
def test_invalid_value_is_reported(key: str, value: str, message: str) -> None:
    (error,) = find_errors({key: value})
    assert message in error


def test_topics_and_topics_regex_are_mutually_exclusive() -> None:
    (error,) = find_errors({"topics": "a", "topics.regex": "b"})
    assert "topics and topics.regex are mutually exclusive options" in error
    assert find_errors({"topics.regex": "a{1,2}"}) == []


def test_client_settings_are_merged_from_prefixes() -> None:
    config = VALID_CONFIG | {
        "source.cluster.security.protocol": "SSL",
        "consumer.max.poll.records": "7",
        "consumer.fetch.min.bytes": "1",
        "source.consumer.fetch.min.bytes": "2",
        "consumer.override.fetch.min.bytes": "3",
        "consumer.poll.timeout.ms": "5",
        "admin.retries": "9",
        "admin.timeout.ms": "100",
        "target.admin.retries": "8",
    }
    assert make_source_consumer_settings(config) == {
        "auto.offset.reset": "earliest",
        "bootstrap.servers": "west:1",
        "security.protocol": "SSL",
        "max.poll.records": "7",
        "fetch.min.bytes": "2",
    }
    assert make_source_admin_settings(config) == {
        "bootstrap.servers": "west:1",
        "security.protocol": "SSL",
        "retries": "9",
    }
    assert make_target_admin_settings(config) == {"bootstrap.servers": "east:1", "retries": "8"}
    latest_settings = make_source_consumer_settings(VALID_CONFIG | {"consumer.auto.offset.reset": "latest"})
    assert latest_settings["auto.offset.reset"] == "latest"

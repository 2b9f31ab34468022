"""Tests that failed writes to the config topic have the error messages of KafkaConfigBackingStore."""

from __future__ import annotations

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.records import Entry
from kraal.kafka.write_failures import config_failure
from kraal.protocol.records import (
    ConfigRecord,
    ConnectorConfigRecord,
    LoggerRecord,
    RestartRecord,
    SessionKeyRecord,
    TargetStateRecord,
    TaskCommitRecord,
    TaskConfigRecord,
    TaskCountRecord,
    encode,
)

X = ConnectorName("x")
CONFIG = ConnectorConfigRecord(X, {"a": "b"})
TARGET = TargetStateRecord(X, None)


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        pytest.param([CONFIG], "Error writing connector configuration to Kafka", id="config"),
        pytest.param(
            [TARGET, CONFIG], "Error writing connector configuration to Kafka", id="config with initial state"
        ),
        pytest.param(
            [ConnectorConfigRecord(X, None), TARGET],
            "Error removing connector configuration from Kafka",
            id="deleted",
        ),
        pytest.param(
            [TaskConfigRecord(TaskId(X, 0), {}), TaskCommitRecord(X, 1)],
            "Error writing task configurations to Kafka",
            id="tasks",
        ),
        pytest.param([TaskCommitRecord(X, 0)], "Error writing root configuration to Kafka", id="commit"),
        pytest.param(
            [TaskCommitRecord(X, 0), TARGET],
            "Error writing root configuration to Kafka",
            id="commit of no tasks, then target state",
        ),
        pytest.param([TARGET], "Error writing target state to Kafka", id="target state"),
        pytest.param(
            [SessionKeyRecord(b"k", "HmacSHA256", 1)], "Error writing session key to Kafka", id="session key"
        ),
        pytest.param([TaskCountRecord(X, 2)], "Error writing task count record to Kafka", id="task count"),
        pytest.param([LoggerRecord("root", "DEBUG")], "Error writing logger level to Kafka", id="logger"),
        pytest.param(
            [RestartRecord(X, include_tasks=False, only_failed=True)],
            "Error writing restart request for {connectorName='x', onlyFailed=true, includeTasks=false} to Kafka",
            id="restart",
        ),
    ],
)
def test_write_failure_message_matches_connect(records: list[ConfigRecord], sentence: str) -> None:
    assert config_failure([Entry(*encode(record)) for record in records]) == sentence


def test_unknown_record_has_generic_message() -> None:
    assert config_failure([Entry("unknown", b"x")]) == "Error writing to the config topic"

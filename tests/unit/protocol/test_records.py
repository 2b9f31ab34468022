"""Tests for records of the config and status topics, compared with those of Java workers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kraal.core.errors import ProtocolError
from kraal.core.ids import ConnectorName, State, TargetState, TaskId
from kraal.protocol.fields import NotJson
from kraal.protocol.records import (
    ConnectorConfigRecord,
    RestartRecord,
    TargetStateRecord,
    TaskConfigRecord,
    decode,
    encode,
)
from kraal.protocol.status_records import StatusRecord, TopicRecord, decode_status, encode_status
from tests.golden_files import current

GOLDEN = current("records")
X = ConnectorName("x")


def read_captured_rows(name: str) -> list[Any]:
    rows = [json.loads(line) for line in (GOLDEN / name).read_text(encoding="utf-8").strip().split("\n")]
    return [pytest.param(row["key"], row["value"], id=f"{row['offset']} {row['key']}") for row in rows]


@pytest.mark.parametrize(
    ("key", "value"),
    read_captured_rows("distributed-configs.jsonl") + read_captured_rows("exactly-once-configs.jsonl"),
)
def test_javas_config_records_round_trip_byte_for_byte(key: str, value: str | None) -> None:
    data = None if value is None else value.encode()
    assert encode(decode(key, data)) == (key, data)


@pytest.mark.parametrize(
    ("key", "value"),
    read_captured_rows("distributed-status.jsonl") + read_captured_rows("exactly-once-status.jsonl"),
)
def test_javas_status_records_round_trip_byte_for_byte(key: str, value: str | None) -> None:
    data = None if value is None else value.encode()
    assert encode_status(decode_status(key, data)) == (key, data)


def test_stopped_is_written_as_paused_for_older_workers() -> None:
    record = TargetStateRecord(X, TargetState.STOPPED)
    assert encode(record) == ("target-state-x", b'{"state":"PAUSED","state.v2":"STOPPED"}')
    assert decode(*encode(record)) == record


@pytest.mark.parametrize(
    ("value", "target"),
    [
        pytest.param(b'{"state":"PAUSED"}', TargetState.PAUSED, id="record of an older worker"),
        pytest.param(
            b'{"state":"PAUSED","state.v2":7}', TargetState.PAUSED, id="newer field with a wrong type"
        ),
        pytest.param(b'{"state.v2":"STOPPED","x":[]}', TargetState.STOPPED, id="only the newer field"),
    ],
)
def test_target_states_are_read_from_either_field(value: bytes, target: TargetState) -> None:
    assert decode("target-state-x", value) == TargetStateRecord(X, target)


def test_connector_names_can_contain_dashes() -> None:
    record = decode("task-a-1-b-2", b'{"properties":{"k":null},"extra":1}')
    assert record == TaskConfigRecord(TaskId(ConnectorName("a-1-b"), 2), {"k": None})


def test_invalid_restart_fields_are_false() -> None:
    assert decode("restart-connector-x", b'{"only-failed":"true"}') == RestartRecord(
        X, include_tasks=False, only_failed=False
    )


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        pytest.param("connector-x", b"[1]", "an array", id="config not an object"),
        pytest.param("connector-x", b'{"properties":[]}', "properties must be an object", id="properties"),
        pytest.param("connector-x", b'{"properties":{"a":1}}', "property 'a'", id="a number as property"),
        pytest.param("connector-x", b"\xff", "not JSON", id="not UTF-8"),
        pytest.param("connector-x", b"[" * 100_000, "not JSON", id="nested too deeply"),
        pytest.param("task-x-0", None, "null", id="a tombstone of a task config"),
        pytest.param("task-x", b'{"properties":{}}', "task id", id="no task number"),
        pytest.param("task-x-99999999999", b'{"properties":{}}', "greater than", id="a huge task number"),
        pytest.param("commit-x", b'{"tasks":-1}', "between 0", id="a negative count"),
        pytest.param("commit-x", b'{"tasks":true}', "a boolean", id="a boolean count"),
        pytest.param(
            "target-state-x", b'{"state.v2":"GONE","state":"PAUSED"}', "'GONE'", id="unknown target"
        ),
        pytest.param("restart-connector-x", None, "null", id="a tombstone of a restart"),
        pytest.param("logger-cluster-a", b"{}", "level", id="no level"),
        pytest.param(
            "session-key", b'{"key":"#","algorithm":"a","creation-timestamp":1}', "base64", id="key"
        ),
        pytest.param("session-key", b'{"key":"","algorithm":"a"}', "creation-timestamp", id="no time"),
        pytest.param("somewhere-x", b"{}", "unknown key", id="unknown key"),
    ],
)
def test_malformed_config_records_are_rejected_with_reason(
    key: str, value: bytes | None, reason: str
) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode(key, value)


def test_not_json_is_raised_only_for_invalid_json() -> None:
    with pytest.raises(NotJson):
        decode("connector-x", b"{")
    with pytest.raises(ProtocolError) as error:
        decode("connector-x", b"{}")
    assert not isinstance(error.value, NotJson)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        pytest.param("status-connector-", b"{}", "has no connector name", id="no name"),
        pytest.param("status-task-x", b"{}", "task id", id="no task"),
        pytest.param("status-connector-x", b'{"state":"DESTROYED"}', "DESTROYED", id="unknown state"),
        pytest.param("status-connector-x", b'{"state":"RUNNING","worker_id":"w"}', "generation", id="fields"),
        pytest.param("status-topic-t", None, "status-topic-T:connector-X", id="no connector"),
        pytest.param("status-topic-t:connector-x", b'{"topic":1}', "a number", id="topic"),
        pytest.param("other", None, "unknown key", id="unknown key"),
    ],
)
def test_malformed_status_records_are_rejected_with_reason(
    key: str, value: bytes | None, reason: str
) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_status(key, value)


def test_statuses_of_workers_before_4_1_have_no_version() -> None:
    record = decode_status(
        "status-connector-x", b'{"state":"FAILED","trace":"t","worker_id":"w:1","generation":3}'
    )
    assert isinstance(record, StatusRecord)
    assert record.status is not None
    assert (record.status.state, record.status.trace, record.status.version) == (State.FAILED, "t", None)


def test_connector_name_can_contain_colons() -> None:
    record = decode_status("status-topic-t:connector-a:connector-b", None)
    assert isinstance(record, TopicRecord)
    assert (record.topic, record.connector) == ("t", "a:connector-b")


def test_unpaired_surrogates_and_control_characters_round_trip() -> None:
    record = ConnectorConfigRecord(X, {"lone": "\ud800", "\\u00e9": "\\\x1f\\u001f😀"})
    _, value = encode(record)
    assert value == b'{"properties":{"lone":"\\uD800","\\\\u00e9":"\\\\\\u001F\\\\u001f\\uD83D\\uDE00"}}'
    assert decode("connector-x", value) == record

"""Tests for encoded messages and records, compared with those of Java workers (scripts/harness/capture_golden.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraal.protocol.group import (
    ConnectProtocol,
    GroupProtocol,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from kraal.protocol.offsets import decode_key, decode_value, encode_key, encode_value
from kraal.protocol.records import decode, encode
from kraal.protocol.status_records import decode_status, encode_status
from tests.golden_files import GOLDEN

VERSIONS = sorted((GOLDEN / "protocol").iterdir())


def read_captured_rows(directory: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / name).read_text(encoding="ascii").splitlines()]


def captured_pairs(name: str) -> list[Any]:
    return [
        pytest.param(row["key"], row["value"], id=f"{directory.name} {row['offset']} {row['key']}")
        for directory in VERSIONS
        for row in read_captured_rows(directory, name)
    ]


MEMBERS = {directory.name: read_captured_rows(directory, "group.jsonl") for directory in VERSIONS}


@pytest.mark.parametrize("row", [row for rows in MEMBERS.values() for row in rows])
def test_captured_messages_round_trip_byte_for_byte(row: dict[str, str]) -> None:
    metadata, assignment = bytes.fromhex(row["metadata"]), bytes.fromhex(row["assignment"])
    worker_metadata, group_assignment = decode_metadata(metadata), decode_assignment(assignment)
    assert encode_metadata(worker_metadata) == metadata
    assert encode_assignment(group_assignment) == assignment
    protocol = GroupProtocol(row["protocol"])
    assert (worker_metadata.version, group_assignment.version) == (protocol.version, protocol.version)
    assert ConnectProtocol(row["connect.protocol"]).offered_protocols[0] is protocol


@pytest.mark.parametrize("members", MEMBERS.values(), ids=MEMBERS)
def test_captured_messages_contain_all_fields(members: list[dict[str, Any]]) -> None:
    assignments = [decode_assignment(bytes.fromhex(row["assignment"])) for row in members]
    worker_metadata = [decode_metadata(bytes.fromhex(row["metadata"])) for row in members]
    assert {message.version for message in assignments} == {0, 1, 2}
    for version in (1, 2):
        assert any(message.allocation for message in worker_metadata if message.version == version)
        assert any(message.revoked for message in assignments if message.version == version)
        assert any(message.delay_ms for message in assignments if message.version == version)


@pytest.mark.parametrize(("key", "value"), captured_pairs("configs.jsonl"))
def test_captured_config_records_round_trip(key: str, value: str | None) -> None:
    data = None if value is None else value.encode()
    assert encode(decode(key, data)) == (key, data)


@pytest.mark.parametrize(("key", "value"), captured_pairs("statuses.jsonl"))
def test_captured_status_records_round_trip(key: str, value: str | None) -> None:
    data = None if value is None else value.encode()
    assert encode_status(decode_status(key, data)) == (key, data)


@pytest.mark.parametrize(("key", "value"), captured_pairs("offsets.jsonl"))
def test_captured_offset_records_round_trip(key: str, value: str | None) -> None:
    data = None if value is None else value.encode()
    assert encode_key(*decode_key(key.encode())) == key.encode()
    assert encode_value(decode_value(data)) == data

"""Tests for the encoding of source offsets, compared with the offset topic of a Java worker."""

from __future__ import annotations

import json

import pytest

from kraal.core.errors import ProtocolError
from kraal.core.ids import ConnectorName
from kraal.core.offsets import SourcePartition
from kraal.protocol.offsets import decode_key, decode_value, encode_key, encode_value
from tests.golden_files import current

GOLDEN = current("offsets", "distributed-offsets.jsonl")


@pytest.mark.parametrize("line", GOLDEN.read_text(encoding="utf-8").splitlines())
def test_javas_offsets_round_trip_byte_for_byte(line: str) -> None:
    row = json.loads(line)
    key, value = row["key"].encode(), row["value"].encode()
    assert encode_key(*decode_key(key)) == key
    assert encode_value(decode_value(value)) == value


def test_field_order_is_preserved_but_ignored_by_equality() -> None:
    first_key = decode_key(b'["x",{"b":1,"a":null}]')
    second_key = decode_key(b'["x",{"a":null,"b":1}]')
    assert first_key == second_key == (ConnectorName("x"), SourcePartition.of({"a": None, "b": 1}))
    assert encode_key(*first_key) != encode_key(*second_key)


@pytest.mark.parametrize("value", [None, b"null"])
def test_tombstone_decodes_to_no_offset(value: bytes | None) -> None:
    assert decode_value(value) is None
    assert encode_value(None) is None


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        pytest.param(None, "null", id="no key"),
        pytest.param(b"x", "not JSON", id="not JSON"),
        pytest.param(b"{}", "an array of connector name", id="not an array"),
        pytest.param(b"[1,{}]", "must start with a connector name", id="name"),
        pytest.param(b'["x",null]', "partition must be an object", id="a null partition"),
        pytest.param(b'["x",{"a":[]}]', "primitive types", id="a nested partition"),
    ],
)
def test_malformed_keys_are_rejected_with_reason(key: bytes | None, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_key(key)

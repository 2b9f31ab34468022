"""Tests for reading envelopes: groups of schemas, unusual forms, and invalid records."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kraal.connectors.tables.envelopes import read_envelopes
from tests.fakes.tables.records import ROW, envelope, field, struct

WIDER_ROW = struct(field("id", "int64"), field("name"))


def read(*texts: str | None) -> dict[int, Any]:
    """Return the values by row; errors as texts."""
    reading = read_envelopes(pa.array(texts, pa.string()))
    values = {
        number: value
        for group in reading.groups
        for number, value in zip(group.rows.to_pylist(), group.values.to_pylist(), strict=True)
    }
    return values | {number: str(error) for number, error in reading.errors.items()}


def test_records_of_several_schemas_form_a_group_each() -> None:
    texts = [envelope(schema, {"id": n, "name": "x"}) for n, schema in enumerate([ROW, WIDER_ROW, ROW])]
    reading = read_envelopes(pa.array([*texts, None]))
    assert [group.rows.to_pylist() for group in reading.groups] == [[0, 2], [1]]
    assert [str(group.values.type[0].type) for group in reading.groups] == ["int32", "int64"]
    assert reading.errors == {}


def test_envelope_may_have_any_form_of_json() -> None:
    payload = {"id": 1, "name": ',"payload":'}
    pretty = json.dumps({"schema": ROW, "payload": payload}, indent=2)
    reversed_members = json.dumps({"payload": payload, "schema": ROW})
    assert read(pretty, reversed_members, envelope(ROW, payload)) == dict.fromkeys(range(3), payload)


def test_schema_may_contain_the_text_before_a_payload() -> None:
    schema = {**ROW, "parameters": {"a": "b", "payload": "c"}}
    assert read(envelope(schema, {"id": 1, "name": "x"})) == {0: {"id": 1, "name": "x"}}


@pytest.mark.parametrize(
    "text",
    [
        "garbage",
        "",
        "[]",
        "{}",
        '{"schema":{"type":"int32"}}',
        '{"schema":{"type":"int32"},"payload":1,"more":2}',
        '{"schema":{"type":"int32"},"payload":1}}',
        '{"schema":{"type":"int32"},"payload":1} {"p":2}',
        '{"schema":{"type":"int32"},"payload":NaN}',
        '{"schema":{"type":"int32"},"payload":',
    ],
)
def test_record_that_is_not_an_envelope_is_an_error(text: str) -> None:
    values = read(text, envelope({"type": "int64"}, 7), None)
    assert values.keys() == {0, 1}
    assert values[1] == 7
    assert "JSON" in values[0] or "payload" in values[0]


def test_values_without_a_schema_have_inferred_types() -> None:
    values = read(
        envelope(None, {"a": 1, "t": "2026-03-01", "n": None, "l": []}),
        envelope(None, {"a": 2, "t": "later", "x": {"y": True}}),
    )
    assert values[0] == {"a": 1, "t": "2026-03-01", "l": [], "x": None}
    assert values[1] == {"a": 2, "t": "later", "l": None, "x": {"y": True}}


def test_values_without_a_schema_and_a_common_type_form_groups() -> None:
    payloads = [{"a": 1, "b": 1}, {"a": "x", "b": 2.5}, {"b": 0.5}, None, {"a": None, "l": [1, 2.5], "n": []}]
    reading = read_envelopes(pa.array([envelope(None, payload) for payload in payloads]))
    assert reading.errors == {}
    assert [group.rows.to_pylist() for group in reading.groups] == [[0, 2, 3, 4], [1]]
    first, second = (group.values for group in reading.groups)
    assert first.type == pa.struct(
        [("a", pa.int64()), ("b", pa.float64()), ("l", pa.list_(pa.float64())), ("n", pa.list_(pa.string()))]
    )
    assert first.to_pylist()[1:3] == [{"a": None, "b": 0.5, "l": None, "n": None}, None]
    assert second.to_pylist() == [{"a": "x", "b": 2.5}]


def test_array_without_a_schema_and_a_common_type_is_an_error() -> None:
    values = read(envelope(None, {"a": [1, "x"]}), envelope(None, {"a": [1]}))
    assert values[1] == {"a": [1]}
    assert "elements of different types: int64 and string" in values[0]


def test_whole_and_fractional_numbers_without_a_schema_are_widened() -> None:
    reading = read_envelopes(pa.array([envelope(None, {"a": number}) for number in (1, 2.5, 2**70)]))
    (group,) = reading.groups
    assert group.values.type == pa.struct([("a", pa.float64())])
    assert group.values.to_pylist() == [{"a": 1.0}, {"a": 2.5}, {"a": float(2**70)}]


def test_null_payload_is_null() -> None:
    assert read(envelope(ROW, None), envelope(None, None)) == {0: None, 1: None}


def test_large_payload_is_read() -> None:
    text = "x" * 10_000_000
    assert read(envelope({"type": "string"}, text)) == {0: text}


def test_text_that_is_not_utf8_is_an_error() -> None:
    valid = envelope(ROW, {"id": 1, "name": "x"})
    data = pa.array([valid.encode(), b'{"schema":null,"payload":"\xff"}', None], pa.binary())
    reading = read_envelopes(data.view(pa.string()))
    assert [group.values.to_pylist() for group in reading.groups] == [[{"id": 1, "name": "x"}]]
    assert {row: str(error)[:16] for row, error in reading.errors.items()} == {1: "it is not UTF-8:"}

"""Tests that ValueToKey reads nested fields (KIP-821) like ValueToKey.apply of Kafka 4.4.0."""

from __future__ import annotations

from typing import Any

import pytest

from kraal.plugins.model.records import DataException, Record, Struct
from kraal.plugins.model.schema import Field, Schema, Type
from kraal.transforms.value_to_key import ValueToKey

LINE = Schema(type=Type.STRING, optional=True)
INNER = Schema(
    type=Type.STRUCT, optional=True, fields=(Field(name="line", schema=LINE), Field(name="a.b", schema=LINE))
)
OUTER = Schema(
    type=Type.STRUCT, fields=(Field(name="outer", schema=INNER), Field(name="outer.line", schema=LINE))
)


def apply_value_to_key(value: Any, schema: Schema | None, **config: str) -> Record:
    transform = ValueToKey()
    transform.configure({key.replace("_", "."): text for key, text in config.items()})
    return transform.apply(Record(topic="t", value=value, value_schema=schema))


def make_outer(inner: Struct | None) -> Struct:
    return Struct(OUTER, {"outer": inner, "outer.line": "top"})


def test_v2_reads_nested_fields_and_names_them_by_their_path() -> None:
    value = make_outer(Struct(INNER, {"line": "deep", "a.b": "dots"}))
    record = apply_value_to_key(value, OUTER, fields="outer.line,outer.`a.b`", field_syntax_version="v2")
    assert record.key_schema is not None
    assert [field.name for field in record.key_schema.fields] == ["outer.line", "outer.`a.b`"]
    assert dict(record.key.values) == {"outer.line": "deep", "outer.`a.b`": "dots"}


def test_v1_reads_top_level_fields_whose_names_contain_dots() -> None:
    record = apply_value_to_key(make_outer(None), OUTER, fields="outer.line")
    assert dict(record.key.values) == {"outer.line": "top"}


def test_v2_reads_schemaless_values() -> None:
    value = {"outer": {"line": "deep"}}
    record = apply_value_to_key(value, None, fields="outer.line,none.x", field_syntax_version="V2")
    assert record.key == {"outer.line": "deep", "none.x": None}


def test_null_parent_results_in_a_null_key_field() -> None:
    record = apply_value_to_key(make_outer(None), OUTER, fields="outer.line", field_syntax_version="V2")
    assert dict(record.key.values) == {"outer.line": None}


def test_unknown_path_fails_with_the_message_of_java() -> None:
    with pytest.raises(DataException, match=r"^Field does not exist: outer\.none$"):
        apply_value_to_key(make_outer(None), OUTER, fields="outer.none", field_syntax_version="V2")

"""Nulls in tables of sources, and what their schemas allow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kraal.engine.columns.source import passes_alike
from kraal.engine.columns.types import nulls_are_allowed
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.schema import OPTIONAL_STRING, STRING, Field, Schema, Type
from kraal.plugins.registry import Registry

PERSON = Schema(
    type=Type.STRUCT,
    optional=True,
    fields=(Field(name="name", schema=STRING), Field(name="nick", schema=OPTIONAL_STRING)),
)
NAMES = Schema(type=Type.ARRAY, value=STRING)
AGES = Schema(type=Type.MAP, key=STRING, value=STRING)


@pytest.mark.parametrize(
    ("values", "schema", "expected"),
    [
        (pa.array(["a", None]), OPTIONAL_STRING, True),
        (pa.array(["a", None]), STRING, False),
        (pa.array(["a"]), STRING, True),
        (pa.array([{"name": "a", "nick": None}]), PERSON, True),
        (pa.array([{"name": None, "nick": "b"}]), PERSON, False),
        (pa.array([{"nick": "b"}]), PERSON, False),
        (pa.array([["a"], []]), NAMES, True),
        (pa.array([["a", None]]), NAMES, False),
        (pa.array([[("a", "1")]], pa.map_(pa.string(), pa.string())), AGES, True),
        (pa.array([[("a", None)]], pa.map_(pa.string(), pa.string())), AGES, False),
    ],
)
def test_a_null_needs_an_optional_schema(values: pa.Array, schema: Schema, *, expected: bool) -> None:
    assert nulls_are_allowed(values, schema) is expected


def converters(value: str) -> Converters:
    made: list[Any] = [Registry.load().converter_class(name)() for name in ("StringConverter", value)]
    for converter in made:
        converter.configure({"schema.registry.url": "http://127.0.0.1:1"}, is_key=False)
    return Converters(made[0], made[1], ())


@pytest.mark.parametrize(
    ("value", "table", "schema", "expected"),
    [
        ("JsonConverter", {"value": ["a"]}, STRING, True),
        ("JsonConverter", {"value": ["a"], "topic": ["t"], "partition": [0]}, STRING, True),
        ("JsonConverter", {"value": ["a"], "timestamp": [0]}, STRING, False),
        ("JsonConverter", {"value": ["a"], "key": ["k"]}, STRING, False),
        ("JsonConverter", {"value": ["a"]}, None, False),
        ("JsonConverter", {"topic": ["t"]}, STRING, False),
        ("JsonConverter", {"value": ["a", None]}, STRING, False),
        ("DoubleConverter", {"value": [1.0]}, Schema(type=Type.FLOAT64), False),
    ],
)
def test_tables_pass_alike_if_columns_and_schemas_match_and_converters_say_so(
    value: str, table: dict[str, Any], schema: Schema | None, *, expected: bool
) -> None:
    batch = SourceBatch(offsets={}, topic="t", value_schema=schema)
    assert passes_alike(converters(value), batch, pa.table(table)) is expected

"""Tests for `arrow_fits`, and for the condition under which columns and records are converted identically."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kraal.engine.columns.source import converts_identically
from kraal.engine.columns.types import arrow_fits
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.schema import OPTIONAL_BYTES, OPTIONAL_STRING, STRING, Field, Schema, Type
from kraal.plugins.registry import Registry

PERSON = Schema(
    type=Type.STRUCT,
    fields=(Field(name="name", schema=STRING), Field(name="age", schema=Schema(type=Type.INT32))),
)
TEXT, NUMBER = pa.string(), pa.int32()


@pytest.mark.parametrize(
    ("arrow_type", "schema", "expected"),
    [
        (TEXT, OPTIONAL_STRING, True),
        (pa.dictionary(NUMBER, TEXT), STRING, False),
        (pa.binary(), OPTIONAL_BYTES, True),
        (pa.binary(16), OPTIONAL_BYTES, False),
        (pa.float64(), Schema(type=Type.FLOAT64), True),
        (pa.float64(), Schema(type=Type.FLOAT32), False),
        (pa.int64(), Schema(type=Type.FLOAT64), False),
        (pa.date32(), Schema(type=Type.INT32, name="org.apache.kafka.connect.data.Date"), False),
        (pa.struct({"name": TEXT, "age": NUMBER}), PERSON, True),
        (pa.struct({"age": NUMBER, "name": TEXT}), PERSON, True),
        (pa.struct({"name": TEXT, "age": TEXT}), PERSON, False),
        (pa.struct({"name": TEXT}), PERSON, False),
        (pa.struct({"name": TEXT, "age": NUMBER, "more": TEXT}), PERSON, False),
        (TEXT, PERSON, False),
        (pa.list_(TEXT), Schema(type=Type.ARRAY, value=STRING), True),
        (pa.list_(NUMBER), Schema(type=Type.ARRAY, value=STRING), False),
        (pa.list_(TEXT, 2), Schema(type=Type.ARRAY, value=STRING), False),
        (pa.map_(TEXT, NUMBER), Schema(type=Type.MAP, key=STRING, value=Schema(type=Type.INT32)), True),
        (pa.map_(TEXT, TEXT), Schema(type=Type.MAP, key=STRING, value=Schema(type=Type.INT32)), False),
    ],
)
def test_arrow_type_fits_only_if_values_match_the_schema(
    arrow_type: pa.DataType, schema: Schema, *, expected: bool
) -> None:
    assert arrow_fits(arrow_type, schema) is expected


def make_converters(value_converter: str) -> Converters:
    plugins: list[Any] = [
        Registry.load().converter_class(name)() for name in ("StringConverter", value_converter)
    ]
    for converter in plugins:
        converter.configure({"schema.registry.url": "http://127.0.0.1:1"}, is_key=False)
    return Converters(plugins[0], plugins[1], ())


@pytest.mark.parametrize(
    ("value_converter", "table", "schema", "expected"),
    [
        ("JsonConverter", {"value": ["a"]}, STRING, True),
        ("JsonConverter", {"value": ["a"], "topic": ["t"], "partition": [0]}, STRING, True),
        ("JsonConverter", {"value": ["a"], "timestamp": [0]}, STRING, False),
        ("JsonConverter", {"value": ["a"], "key": ["k"]}, STRING, False),
        ("JsonConverter", {"value": ["a"]}, None, False),
        ("JsonConverter", {"topic": ["t"]}, STRING, False),
        ("JsonConverter", {"value": ["a", None]}, STRING, True),
        ("JsonConverter", {"value": [1]}, STRING, False),
        ("DoubleConverter", {"value": [1.0]}, Schema(type=Type.FLOAT64), False),
    ],
)
def test_conversion_is_identical_if_columns_match_and_converters_declare_it(
    value_converter: str, table: dict[str, Any], schema: Schema | None, *, expected: bool
) -> None:
    batch = SourceBatch(offsets={}, topic="t", value_schema=schema)
    assert converts_identically(make_converters(value_converter), batch, pa.table(table)) is expected

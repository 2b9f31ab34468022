"""Tests that schemas and values of all kinds survive a round trip through the converters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraal.converters.json.converter import JsonConverter
from kraal.converters.primitive.boolean import BooleanConverter
from kraal.converters.primitive.bytearray import ByteArrayConverter
from kraal.converters.primitive.numbers import (
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from kraal.converters.primitive.string import StringConverter
from kraal.plugins.api import Converter
from kraal.plugins.model.records import DATE, DECIMAL, TIME, TIMESTAMP, Float32, Instant, Struct
from kraal.plugins.model.schema import Field, Schema, Type
from kraal.plugins.values.map_keys import as_key
from kraal.plugins.values.simple_headers import SimpleHeaderConverter
from kraal.plugins.values.text import convert_to_string, parse_string
from tests.fakes.values.converter_notation import format_schema, format_value

SchemaWithValues = tuple[Schema, st.SearchStrategy[Any]]
"""A schema and a strategy for its values."""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value or 0.0)
SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda value: Float32(value or 0.0))
"""Values without NaN, which JSON lacks, and without -0.0, which Jackson reads as 0."""


def integers_of_bits(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def make_decimal(scale: int, unscaled: int) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


SCALARS: list[SchemaWithValues] = [
    (Schema(type=Type.INT8), integers_of_bits(8)),
    (Schema(type=Type.INT16), integers_of_bits(16)),
    (Schema(type=Type.INT32), integers_of_bits(32)),
    (Schema(type=Type.INT64), integers_of_bits(64)),
    (Schema(type=Type.FLOAT32), SINGLES),
    (Schema(type=Type.FLOAT64), DOUBLES),
    (Schema(type=Type.BOOLEAN), st.booleans()),
    (Schema(type=Type.STRING), TEXT),
    (Schema(type=Type.BYTES), st.binary(max_size=9)),
    (
        Schema(type=Type.INT32, name=DATE, version=1),
        integers_of_bits(31).map(lambda day: Instant(day * 86_400_000)),
    ),
    (Schema(type=Type.INT32, name=TIME, version=1), st.integers(0, 86_400_000).map(Instant)),
    (Schema(type=Type.INT64, name=TIMESTAMP, version=1), integers_of_bits(64).map(Instant)),
    *(
        (
            Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters={"scale": str(scale)}),
            st.integers().map(partial(make_decimal, scale)),
        )
        for scale in (-2, 0, 7)
    ),
]


@st.composite
def draw_schema_and_values(draw: st.DrawFn, depth: int = 3) -> SchemaWithValues:
    """Draw a schema, sometimes optional or with a default, and a strategy for its values."""
    schema, values = draw(_draw_schema_without_metadata(depth))
    if schema.name is None and draw(st.booleans()):
        number = draw(st.none() | integers_of_bits(32))
        schema = replace(
            schema,
            name=draw(TEXT),
            doc=draw(TEXT),
            version=number,
            parameters=draw(st.dictionaries(TEXT, TEXT)),
        )
    if schema.type is not Type.STRUCT and draw(st.integers(0, 3)) == 0:
        schema = replace(schema, default=draw(values))
    elif draw(st.booleans()):
        return replace(schema, optional=True), st.none() | values
    return schema, values


@st.composite
def _draw_schema_without_metadata(draw: st.DrawFn, depth: int) -> SchemaWithValues:
    kind = draw(st.sampled_from(["scalar", "array", "map", "struct"] if depth else ["scalar"]))
    if kind == "scalar":
        return draw(st.sampled_from(SCALARS))
    if kind == "struct":
        return draw(_draw_struct(depth))
    element, items = draw(draw_schema_and_values(depth - 1))
    if kind == "array":
        return Schema(type=Type.ARRAY, value=element), st.lists(items, max_size=3)
    key, keys = draw(st.sampled_from(SCALARS) | st.just(_LIST_KEYS))
    schema = Schema(type=Type.MAP, key=key, value=element)
    return schema, st.dictionaries(keys.map(as_key), items, max_size=3)


_LIST_KEYS: SchemaWithValues = (
    Schema(type=Type.ARRAY, value=Schema(type=Type.INT8)),
    st.lists(integers_of_bits(8), max_size=2),
)


@st.composite
def _draw_struct(draw: st.DrawFn, depth: int) -> SchemaWithValues:
    names = draw(st.lists(TEXT.filter(bool), max_size=3, unique=True))
    parts = {name: draw(draw_schema_and_values(depth - 1)) for name in names}
    fields = tuple(Field(name=name, schema=schema) for name, (schema, _) in parts.items())
    schema = Schema(type=Type.STRUCT, fields=fields)

    def build(final_schema: Schema) -> st.SearchStrategy[Struct]:
        fields_strategy = st.fixed_dictionaries({name: values for name, (_, values) in parts.items()})
        return fields_strategy.map(lambda values: Struct(final_schema, values))

    return schema, build(schema)


def with_final_schema(schema: Schema, value: Any) -> Any:
    """Return a value whose structs have the final schema, to which metadata was added after the values were drawn."""
    match value:
        case Struct():
            parts = {field.name: field.schema for field in schema.fields}
            return Struct(
                schema, {name: with_final_schema(parts[name], item) for name, item in value.values.items()}
            )
        case list() if schema.value is not None:
            return [with_final_schema(schema.value, item) for item in value]
        case dict() if schema.value is not None:
            return {key: with_final_schema(schema.value, item) for key, item in value.items()}
        case _:
            return value


def configure(converter: Converter, **config: str) -> Converter:
    converter.configure({name.replace("_", "."): text for name, text in config.items()}, is_key=False)
    return converter


CONVERTERS = [
    configure(JsonConverter(), decimal_format=number_format) for number_format in ("BASE64", "NUMERIC")
]


@settings(max_examples=150)
@given(st.data())
def test_json_with_schema_round_trip(data: st.DataObject) -> None:
    schema, values = data.draw(draw_schema_and_values())
    schema = with_final_defaults(schema)
    value = with_final_schema(schema, data.draw(values))
    for converter in CONVERTERS:
        data_bytes = converter.encode("t", schema, value)
        decoded_schema, decoded_value = converter.decode("t", data_bytes)
        assert (format_schema(decoded_schema), format_value(decoded_value)) == (
            format_schema(schema),
            format_value(value),
        )
        assert converter.encode("t", decoded_schema, decoded_value) == data_bytes


def with_final_defaults(schema: Schema) -> Schema:
    """Return the schema with its defaults rebuilt, so that their structs have the final schemas."""
    key = None if schema.key is None else with_final_defaults(schema.key)
    value = None if schema.value is None else with_final_defaults(schema.value)
    fields = tuple(
        Field(name=field.name, schema=with_final_defaults(field.schema)) for field in schema.fields
    )
    final_schema = replace(schema, fields=fields, key=key, value=value)
    return replace(final_schema, default=with_final_schema(final_schema, schema.default))


SCHEMALESS_VALUES = st.recursive(
    st.none() | st.booleans() | integers_of_bits(64) | DOUBLES | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=150)
@given(SCHEMALESS_VALUES)
def test_schemaless_json_round_trip(value: Any) -> None:
    for enabled in ("true", "false"):
        converter = configure(JsonConverter(), schemas_enable=enabled)
        schema, decoded_value = converter.decode("t", converter.encode("t", None, value))
        assert (schema, format_value(decoded_value)) == (None, format_value(value))


def _float32(value: float) -> Float32:
    return Float32(value)


PRIMITIVE_CASES: list[tuple[type[Converter], Schema, st.SearchStrategy[Any]]] = [
    (ShortConverter, Schema(type=Type.INT16), integers_of_bits(16)),
    (IntegerConverter, Schema(type=Type.INT32), integers_of_bits(32)),
    (LongConverter, Schema(type=Type.INT64), integers_of_bits(64)),
    (FloatConverter, Schema(type=Type.FLOAT32), st.floats(width=32).map(_float32)),
    (DoubleConverter, Schema(type=Type.FLOAT64), st.floats()),
    (BooleanConverter, Schema(type=Type.BOOLEAN), st.booleans()),
    (StringConverter, Schema(type=Type.STRING), TEXT),
    (ByteArrayConverter, Schema(type=Type.BYTES), st.binary()),
]


@pytest.mark.parametrize(
    ("create_converter", "schema", "values"),
    PRIMITIVE_CASES,
    ids=[case[0].__name__ for case in PRIMITIVE_CASES],
)
def test_primitive_converters_round_trip(
    create_converter: Callable[[], Converter], schema: Schema, values: st.SearchStrategy[Any]
) -> None:
    converter = configure(create_converter())

    @settings(max_examples=50)
    @given(st.none() | values)
    def check(value: Any) -> None:
        decoded_schema, decoded_value = converter.decode("t", converter.encode("t", schema, value))
        assert decoded_schema == replace(schema, optional=True)
        assert format_value(decoded_value) == format_value(value)

    check()


@settings(max_examples=300)
@given(
    st.text(st.sampled_from('[]{}:,"\\ -+.eE012TZ:anull\u0661') | st.characters(exclude_categories=["Cs"]))
)
def test_any_header_text_is_parsed_and_numbers_and_booleans_round_trip(text: str) -> None:
    converter = SimpleHeaderConverter()
    schema, value = converter.decode_header("t", "h", text.encode())
    assert (schema is None) == (value is None)
    formatted = convert_to_string(value)
    assert formatted == convert_to_string(parse_string(formatted)[1]) or isinstance(
        value, (str, list, dict, Instant)
    )

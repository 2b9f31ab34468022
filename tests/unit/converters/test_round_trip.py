"""What is written is read again, for schemas and values of all kinds."""

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
from tests.fakes.values.converter_notation import described, shown

Typed = tuple[Schema, st.SearchStrategy[Any]]
"""A schema and what makes values of it."""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value or 0.0)
SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda value: Float32(value or 0.0))
"""JSON has neither NaN nor, as Jackson reads it, -0.0."""


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def decimal(scale: int, unscaled: int) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


SCALARS: list[Typed] = [
    (Schema(type=Type.INT8), whole(8)),
    (Schema(type=Type.INT16), whole(16)),
    (Schema(type=Type.INT32), whole(32)),
    (Schema(type=Type.INT64), whole(64)),
    (Schema(type=Type.FLOAT32), SINGLES),
    (Schema(type=Type.FLOAT64), DOUBLES),
    (Schema(type=Type.BOOLEAN), st.booleans()),
    (Schema(type=Type.STRING), TEXT),
    (Schema(type=Type.BYTES), st.binary(max_size=9)),
    (Schema(type=Type.INT32, name=DATE, version=1), whole(31).map(lambda day: Instant(day * 86_400_000))),
    (Schema(type=Type.INT32, name=TIME, version=1), st.integers(0, 86_400_000).map(Instant)),
    (Schema(type=Type.INT64, name=TIMESTAMP, version=1), whole(64).map(Instant)),
    *(
        (
            Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters={"scale": str(scale)}),
            st.integers().map(partial(decimal, scale)),
        )
        for scale in (-2, 0, 7)
    ),
]


@st.composite
def typed(draw: st.DrawFn, depth: int = 3) -> Typed:
    """Draw a schema, optional or with a default at times, and what makes its values."""
    schema, values = draw(_bare(depth))
    if schema.name is None and draw(st.booleans()):
        number = draw(st.none() | whole(32))
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
def _bare(draw: st.DrawFn, depth: int) -> Typed:
    kind = draw(st.sampled_from(["scalar", "array", "map", "struct"] if depth else ["scalar"]))
    if kind == "scalar":
        return draw(st.sampled_from(SCALARS))
    if kind == "struct":
        return draw(_struct(depth))
    element, items = draw(typed(depth - 1))
    if kind == "array":
        return Schema(type=Type.ARRAY, value=element), st.lists(items, max_size=3)
    key, keys = draw(st.sampled_from(SCALARS) | st.just(_LISTS))
    schema = Schema(type=Type.MAP, key=key, value=element)
    return schema, st.dictionaries(keys.map(as_key), items, max_size=3)


_LISTS: Typed = (Schema(type=Type.ARRAY, value=Schema(type=Type.INT8)), st.lists(whole(8), max_size=2))


@st.composite
def _struct(draw: st.DrawFn, depth: int) -> Typed:
    names = draw(st.lists(TEXT.filter(bool), max_size=3, unique=True))
    parts = {name: draw(typed(depth - 1)) for name in names}
    fields = tuple(Field(name=name, schema=schema) for name, (schema, _) in parts.items())
    schema = Schema(type=Type.STRUCT, fields=fields)

    def build(own: Schema) -> st.SearchStrategy[Struct]:
        shaped = st.fixed_dictionaries({name: values for name, (_, values) in parts.items()})
        return shaped.map(lambda values: Struct(own, values))

    return schema, build(schema)


def with_own_schema(schema: Schema, value: Any) -> Any:
    """Return a value whose structs have the schema that was decorated after the values were drawn."""
    match value:
        case Struct():
            parts = {each.name: each.schema for each in schema.fields}
            return Struct(
                schema, {name: with_own_schema(parts[name], item) for name, item in value.values.items()}
            )
        case list() if schema.value is not None:
            return [with_own_schema(schema.value, each) for each in value]
        case dict() if schema.value is not None:
            return {key: with_own_schema(schema.value, each) for key, each in value.items()}
        case _:
            return value


def configured(converter: Converter, **config: str) -> Converter:
    converter.configure({name.replace("_", "."): text for name, text in config.items()}, is_key=False)
    return converter


CONVERTERS = [configured(JsonConverter(), decimal_format=each) for each in ("BASE64", "NUMERIC")]


@settings(max_examples=150)
@given(st.data())
def test_json_with_a_schema_is_read_as_it_was_written(data: st.DataObject) -> None:
    schema, values = data.draw(typed())
    schema = owned(schema)
    value = with_own_schema(schema, data.draw(values))
    for converter in CONVERTERS:
        written = converter.encode("t", schema, value)
        decoded_schema, read = converter.decode("t", written)
        assert (described(decoded_schema), shown(read)) == (described(schema), shown(value))
        assert converter.encode("t", decoded_schema, read) == written


def owned(schema: Schema) -> Schema:
    """Return the schema with structs in its defaults that have their own schema."""
    key = None if schema.key is None else owned(schema.key)
    value = None if schema.value is None else owned(schema.value)
    fields = tuple(Field(name=each.name, schema=owned(each.schema)) for each in schema.fields)
    rebuilt = replace(schema, fields=fields, key=key, value=value)
    return replace(rebuilt, default=with_own_schema(rebuilt, schema.default))


PLAIN = st.recursive(
    st.none() | st.booleans() | whole(64) | DOUBLES | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=150)
@given(PLAIN)
def test_json_without_a_schema_is_read_as_it_was_written(value: Any) -> None:
    for enabled in ("true", "false"):
        converter = configured(JsonConverter(), schemas_enable=enabled)
        schema, read = converter.decode("t", converter.encode("t", None, value))
        assert (schema, shown(read)) == (None, shown(value))


def _float32(value: float) -> Float32:
    return Float32(value)


FIXED: list[tuple[type[Converter], Schema, st.SearchStrategy[Any]]] = [
    (ShortConverter, Schema(type=Type.INT16), whole(16)),
    (IntegerConverter, Schema(type=Type.INT32), whole(32)),
    (LongConverter, Schema(type=Type.INT64), whole(64)),
    (FloatConverter, Schema(type=Type.FLOAT32), st.floats(width=32).map(_float32)),
    (DoubleConverter, Schema(type=Type.FLOAT64), st.floats()),
    (BooleanConverter, Schema(type=Type.BOOLEAN), st.booleans()),
    (StringConverter, Schema(type=Type.STRING), TEXT),
    (ByteArrayConverter, Schema(type=Type.BYTES), st.binary()),
]


@pytest.mark.parametrize(("make", "schema", "values"), FIXED, ids=[each[0].__name__ for each in FIXED])
def test_other_converters_read_what_they_wrote(
    make: Callable[[], Converter], schema: Schema, values: st.SearchStrategy[Any]
) -> None:
    converter = configured(make())

    @settings(max_examples=50)
    @given(st.none() | values)
    def check(value: Any) -> None:
        decoded_schema, read = converter.decode("t", converter.encode("t", schema, value))
        assert decoded_schema == replace(schema, optional=True)
        assert shown(read) == shown(value)

    check()


@settings(max_examples=300)
@given(
    st.text(st.sampled_from('[]{}:,"\\ -+.eE012TZ:anull\u0661') | st.characters(exclude_categories=["Cs"]))
)
def test_every_text_is_some_header_and_its_text_is_stable(text: str) -> None:
    converter = SimpleHeaderConverter()
    schema, value = converter.decode_header("t", "h", text.encode())
    assert (schema is None) == (value is None)
    again = convert_to_string(value)
    assert again == convert_to_string(parse_string(again)[1]) or isinstance(value, (str, list, dict, Instant))

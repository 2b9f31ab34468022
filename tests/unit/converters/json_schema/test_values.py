"""Tests for encoding and decoding values with JSON Schema, in Jackson's layout."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraal.converters.json_schema.converter import JsonSchemaFormat
from kraal.converters.json_schema.names import ONE_OF, JsonSchemaOptions
from kraal.converters.schema_registry.client import SerializationException
from kraal.plugins.model.records import DATE, DECIMAL, TIMESTAMP, DataException, Float32, Instant, Struct
from kraal.plugins.model.schema import OPTIONAL_STRING, STRING, Field, Schema, Type
from kraal.plugins.values.java_values import float32
from tests.fakes.values.connect_schemas import optional, struct
from tests.fakes.values.converter_notation import format_schema, format_value
from tests.fakes.values.json_schemas import PLAIN, decode_json, encode_json, to_json_schema

INT, LONG = Schema(type=Type.INT32), Schema(type=Type.INT64)
DECIMAL_SCHEMA = Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})
TIMESTAMP_SCHEMA = Schema(type=Type.INT64, name=TIMESTAMP, version=1)
INNER = Schema(type=Type.STRUCT, name="Inner", fields=(Field(name="z", schema=INT),))


def get_fields(schema: Schema) -> dict[str, Schema]:
    return {field.name: field.schema for field in schema.fields}


WIDE_SCHEMA = struct(
    "Wide",
    i=INT,
    f=Schema(type=Type.FLOAT32),
    d=Schema(type=Type.FLOAT64),
    b=Schema(type=Type.BOOLEAN),
    y=Schema(type=Type.BYTES),
    m=DECIMAL_SCHEMA,
    w=TIMESTAMP_SCHEMA,
    day=Schema(type=Type.INT32, name=DATE, version=1),
    o=Schema(type=Type.MAP, key=STRING, value=optional(LONG)),
    p=Schema(type=Type.MAP, key=INT, value=STRING),
    s=optional(INNER),
    n=OPTIONAL_STRING,
    e=Schema(type=Type.INT32, default=7),
)
VALUES = {
    "i": -1,
    "f": Float32(1.5),
    "d": -2.0,
    "b": True,
    "y": b"\0\xff",
    "m": Decimal("-1234.56"),
    "w": Instant(1_700_000_000_123),
    "day": Instant(86_400_000),
    "o": {"k\u00e9\U0001f600": None},
    "p": {5: "x"},
    "s": Struct(INNER, {"z": 3}),
}


def test_encoded_values_match_jackson() -> None:
    value = Struct(WIDE_SCHEMA, {**VALUES, "s": Struct(get_fields(WIDE_SCHEMA)["s"], {"z": 3})})
    expected = (
        '{"i":-1,"f":1.5,"d":-2.0,"b":true,"y":"AP8=","m":"/h3A","w":1700000000123,"day":1,'
        '"o":{"k\u00e9\\uD83D\\uDE00":null},"p":[{"key":5,"value":"x"}],"s":{"z":3},"n":null,"e":7}'
    )
    assert encode_json(WIDE_SCHEMA, value) == expected
    schema, decoded = decode_json(to_json_schema(WIDE_SCHEMA), expected)
    assert format_schema(schema) == format_schema(WIDE_SCHEMA)
    assert format_value(decoded) == format_value(replace(value, values={**value.values, "e": 7}))
    numeric_options = JsonSchemaOptions(numeric_decimals=True)
    assert '"m":-1234.56,' in encode_json(WIDE_SCHEMA, value, numeric_options)
    assert json.loads(to_json_schema(DECIMAL_SCHEMA, numeric_options))["type"] == "number"
    assert decode_json(to_json_schema(DECIMAL_SCHEMA, numeric_options), "-1234.56", numeric_options)[
        1
    ] == Decimal("-1234.56")


def test_null_field_is_encoded_as_default_or_null_or_omitted() -> None:
    record = struct("R", a=Schema(type=Type.STRING, optional=True, default="d"), b=OPTIONAL_STRING, c=STRING)
    assert encode_json(record, Struct(record, {})) == '{"a":"d","b":null}'
    ignoring_options = JsonSchemaOptions(ignore_defaults=True)
    assert encode_json(record, Struct(record, {}), ignoring_options) == '{"a":null,"b":null}'
    fmt = JsonSchemaFormat(PLAIN)
    assert [
        fmt.writes_null(schema) for schema in (None, STRING, OPTIONAL_STRING, replace(INT, default=1))
    ] == [
        False,
        False,
        True,
        True,
    ]
    assert encode_json(OPTIONAL_STRING, None) == "null"
    assert encode_json(replace(INT, default=1), None) == "1"
    assert decode_json(to_json_schema(OPTIONAL_STRING), "null")[1] is None
    definition = to_json_schema(record)
    assert decode_json(definition, "{}")[1].values == {"a": "d"}
    with pytest.raises(DataException, match="Invalid null value for required STRING field"):
        decode_json(definition, '{"c":null}')


UNION = Schema(
    type=Type.STRUCT,
    name=ONE_OF,
    optional=True,
    fields=tuple(
        Field(name=f"{ONE_OF}.field.{index}", schema=optional(member))
        for index, member in enumerate([LONG, STRING, INNER, struct("Other", z=INT, y=INT)])
    ),
)


@pytest.mark.parametrize(
    ("text", "index"), [("5", 0), ('"x"', 1), ('{"z":1}', 2), ('{"z":1,"y":2}', 3), ("null", None)]
)
def test_one_of_value_is_decoded_to_a_struct_field(text: str, index: int | None) -> None:
    definition = to_json_schema(UNION)
    assert [member.get("type") for member in json.loads(definition)["oneOf"]] == [
        "null",
        "integer",
        "string",
        "object",
        "object",
    ]
    schema, decoded = decode_json(definition, text)
    assert format_schema(schema) == format_schema(UNION)
    if index is None:
        assert decoded is None
    else:
        assert list(decoded.values) == [f"{ONE_OF}.field.{index}"]
    assert encode_json(schema, decoded) == text


def test_value_matching_no_one_of_schema_is_rejected() -> None:
    with pytest.raises(DataException, match="No schema of the oneOf matches"):
        decode_json(to_json_schema(UNION), "true")


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        (INNER, "[]", "Structs should be encoded as JSON objects, but found ARRAY"),
        (INNER, "", "Structs should be encoded as JSON objects, but found MISSING"),
        (Schema(type=Type.MAP, key=STRING, value=INT), "5", "encoded as JSON objects, but found NUMBER"),
        (
            Schema(type=Type.MAP, key=INT, value=INT),
            "{}",
            "Expected a JSON array of objects .*, got OBJECT",
        ),
        (
            Schema(type=Type.MAP, key=INT, value=INT),
            "[[1,2]]",
            "Expected a JSON object with key and value .*, got ARRAY",
        ),
        (Schema(type=Type.MAP, key=INT, value=INT), '[{"key":1}]', "expected length 2 but found :1"),
        (TIMESTAMP_SCHEMA, '"x"', "Invalid type for Timestamp"),
        (DECIMAL_SCHEMA, '"*"', "Invalid bytes for Decimal field"),
    ],
)
def test_decoding_rejects_json_incompatible_with_schema(schema: Schema, text: str, message: str) -> None:
    with pytest.raises(DataException, match=message):
        decode_json(to_json_schema(schema), text)


@pytest.mark.parametrize("text", ["{", '{"z":', "nope", '{"z":1'])
def test_invalid_json_is_rejected(text: str) -> None:
    with pytest.raises(SerializationException, match="JSON value does not match its schema with ID 1: "):
        decode_json(to_json_schema(INNER), text)


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (INT, "x", "Invalid type for INT32: class java.lang.String"),
        (DECIMAL_SCHEMA, Decimal("1.234"), "mismatching scale"),
        (INNER, Struct(struct("Inner", z=LONG), {"z": 1}), "Mismatching schema"),
        (INNER, {"z": 1}, "Invalid type for STRUCT: class java.util.HashMap"),
    ],
)
def test_encoding_rejects_values_incompatible_with_schema(schema: Schema, value: Any, message: str) -> None:
    with pytest.raises(DataException, match=message):
        encode_json(schema, value)


def test_schemaless_values_are_rejected() -> None:
    with pytest.raises(DataException, match="JSON Schema requires a schema"):
        JsonSchemaFormat(PLAIN).describe(None)


LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ANY_SCHEMA = struct(
    "Any",
    l=optional(LONG),
    f=optional(Schema(type=Type.FLOAT32)),
    d=optional(Schema(type=Type.FLOAT64)),
    s=OPTIONAL_STRING,
    y=optional(Schema(type=Type.BYTES)),
    n=optional(DECIMAL_SCHEMA),
    a=optional(Schema(type=Type.ARRAY, value=OPTIONAL_STRING)),
    m=optional(Schema(type=Type.MAP, key=LONG, value=STRING)),
)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "l": LONGS,
        "f": st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool).map(float32),
        "d": st.floats(allow_nan=False, allow_infinity=False).filter(bool),
        "s": TEXTS,
        "y": st.binary(max_size=8),
        "n": st.decimals(
            allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9
        ).filter(bool),
        "a": st.lists(st.none() | TEXTS, max_size=4),
        "m": st.dictionaries(LONGS, TEXTS, max_size=4),
    },
)
FORMATS = [JsonSchemaFormat(JsonSchemaOptions(numeric_decimals=is_numeric)) for is_numeric in (True, False)]
CODECS = [
    (
        fmt.encoder(ANY_SCHEMA, fmt.describe(ANY_SCHEMA).schema, {}),
        fmt.decoder(fmt.describe(ANY_SCHEMA).schema, {}, lambda _: None),
    )
    for fmt in FORMATS
]


@settings(max_examples=60)
@given(RECORDS)
def test_record_round_trip(values: dict[str, Any]) -> None:
    for encode, decode in CODECS:
        decoded = decode(b"\0\0\0\0\1" + encode(Struct(ANY_SCHEMA, values)))[1]
        assert format_value(decoded.values) == format_value(values)

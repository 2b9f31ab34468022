"""JSON Schema: values both ways, as Jackson writes them."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kraal.converters.json_schema.converter import JsonSchemaFormat
from kraal.converters.json_schema.names import ONE_OF, JsonSchemaOptions
from kraal.converters.schema_registry.client import SerializationException
from kraal.plugins.model.records import DATE, DECIMAL, TIMESTAMP, DataException, Float32, Instant, Struct
from kraal.plugins.model.schema import OPTIONAL_STRING, STRING, Field, Schema, Type
from kraal.plugins.values.java_values import float32
from tests.fakes.values.connect_schemas import optional, struct
from tests.fakes.values.converter_notation import described, shown
from tests.fakes.values.json_schemas import PLAIN, read, text_of, written

INT, LONG = Schema(type=Type.INT32), Schema(type=Type.INT64)
MONEY = Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})
WHEN = Schema(type=Type.INT64, name=TIMESTAMP, version=1)
INNER = Schema(type=Type.STRUCT, name="Inner", fields=(Field(name="z", schema=INT),))


def fields_of(schema: Schema) -> dict[str, Schema]:
    return {each.name: each.schema for each in schema.fields}


WIDE = struct(
    "Wide",
    i=INT,
    f=Schema(type=Type.FLOAT32),
    d=Schema(type=Type.FLOAT64),
    b=Schema(type=Type.BOOLEAN),
    y=Schema(type=Type.BYTES),
    m=MONEY,
    w=WHEN,
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


def test_values_are_the_json_that_jackson_writes() -> None:
    value = Struct(WIDE, {**VALUES, "s": Struct(fields_of(WIDE)["s"], {"z": 3})})
    expected = (
        '{"i":-1,"f":1.5,"d":-2.0,"b":true,"y":"AP8=","m":"/h3A","w":1700000000123,"day":1,'
        '"o":{"k\u00e9\\uD83D\\uDE00":null},"p":[{"key":5,"value":"x"}],"s":{"z":3},"n":null,"e":7}'
    )
    assert written(WIDE, value) == expected
    schema, decoded = read(text_of(WIDE), expected)
    assert described(schema) == described(WIDE)
    assert shown(decoded) == shown(replace(value, values={**value.values, "e": 7}))
    numeric = JsonSchemaOptions(numeric_decimals=True)
    assert '"m":-1234.56,' in written(WIDE, value, numeric)
    assert json.loads(text_of(MONEY, numeric))["type"] == "number"
    assert read(text_of(MONEY, numeric), "-1234.56", numeric)[1] == Decimal("-1234.56")


def test_a_null_is_its_schemas_default_null_or_nothing() -> None:
    record = struct("R", a=Schema(type=Type.STRING, optional=True, default="d"), b=OPTIONAL_STRING, c=STRING)
    assert written(record, Struct(record, {})) == '{"a":"d","b":null}'
    ignoring = JsonSchemaOptions(ignore_defaults=True)
    assert written(record, Struct(record, {}), ignoring) == '{"a":null,"b":null}'
    fmt = JsonSchemaFormat(PLAIN)
    assert [fmt.writes_null(each) for each in (None, STRING, OPTIONAL_STRING, replace(INT, default=1))] == [
        False,
        False,
        True,
        True,
    ]
    assert written(OPTIONAL_STRING, None) == "null"
    assert written(replace(INT, default=1), None) == "1"
    assert read(text_of(OPTIONAL_STRING), "null")[1] is None
    definition = text_of(record)
    assert read(definition, "{}")[1].values == {"a": "d"}
    with pytest.raises(DataException, match="Invalid null value for required STRING field"):
        read(definition, '{"c":null}')


UNION = Schema(
    type=Type.STRUCT,
    name=ONE_OF,
    optional=True,
    fields=tuple(
        Field(name=f"{ONE_OF}.field.{at}", schema=optional(each))
        for at, each in enumerate([LONG, STRING, INNER, struct("Other", z=INT, y=INT)])
    ),
)


@pytest.mark.parametrize(
    ("text", "at"), [("5", 0), ('"x"', 1), ('{"z":1}', 2), ('{"z":1,"y":2}', 3), ("null", None)]
)
def test_a_choice_is_a_struct_with_a_field_for_each(text: str, at: int | None) -> None:
    definition = text_of(UNION)
    assert [each.get("type") for each in json.loads(definition)["oneOf"]] == [
        "null",
        "integer",
        "string",
        "object",
        "object",
    ]
    schema, decoded = read(definition, text)
    assert described(schema) == described(UNION)
    if at is None:
        assert decoded is None
    else:
        assert list(decoded.values) == [f"{ONE_OF}.field.{at}"]
    assert written(schema, decoded) == text


def test_rejects_a_value_that_fits_no_choice() -> None:
    with pytest.raises(DataException, match="No schema of the oneOf matches"):
        read(text_of(UNION), "true")


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
        (WHEN, '"x"', "Invalid type for Timestamp"),
        (MONEY, '"*"', "Invalid bytes for Decimal field"),
    ],
)
def test_rejects_values_that_do_not_fit_their_schema(schema: Schema, text: str, message: str) -> None:
    with pytest.raises(DataException, match=message):
        read(text_of(schema), text)


@pytest.mark.parametrize("text", ["{", '{"z":', "nope", '{"z":1'])
def test_rejects_a_text_that_is_not_json(text: str) -> None:
    with pytest.raises(SerializationException, match="JSON value does not match its schema with ID 1: "):
        read(text_of(INNER), text)


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (INT, "x", "Invalid type for INT32: class java.lang.String"),
        (MONEY, Decimal("1.234"), "mismatching scale"),
        (INNER, Struct(struct("Inner", z=LONG), {"z": 1}), "Mismatching schema"),
        (INNER, {"z": 1}, "Invalid type for STRUCT: class java.util.HashMap"),
    ],
)
def test_a_value_of_another_schema_is_refused(schema: Schema, value: Any, message: str) -> None:
    with pytest.raises(DataException, match=message):
        written(schema, value)


def test_values_without_a_schema_are_refused() -> None:
    with pytest.raises(DataException, match="JSON Schema needs a schema"):
        JsonSchemaFormat(PLAIN).describe(None)


LONGS = some.integers(-(2**63), 2**63 - 1)
TEXTS = some.text(some.characters(exclude_categories=["Cs"]), max_size=8)
ANY = struct(
    "Any",
    l=optional(LONG),
    f=optional(Schema(type=Type.FLOAT32)),
    d=optional(Schema(type=Type.FLOAT64)),
    s=OPTIONAL_STRING,
    y=optional(Schema(type=Type.BYTES)),
    n=optional(MONEY),
    a=optional(Schema(type=Type.ARRAY, value=OPTIONAL_STRING)),
    m=optional(Schema(type=Type.MAP, key=LONG, value=STRING)),
)
RECORDS = some.fixed_dictionaries(
    {},
    optional={
        "l": LONGS,
        "f": some.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool).map(float32),
        "d": some.floats(allow_nan=False, allow_infinity=False).filter(bool),
        "s": TEXTS,
        "y": some.binary(max_size=8),
        "n": some.decimals(
            allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9
        ).filter(bool),
        "a": some.lists(some.none() | TEXTS, max_size=4),
        "m": some.dictionaries(LONGS, TEXTS, max_size=4),
    },
)
FORMATS = [JsonSchemaFormat(JsonSchemaOptions(numeric_decimals=each)) for each in (True, False)]
BOTH = [
    (
        fmt.encoder(ANY, fmt.describe(ANY).schema, {}),
        fmt.decoder(fmt.describe(ANY).schema, {}, lambda _: None),
    )
    for fmt in FORMATS
]


@settings(max_examples=60)
@given(RECORDS)
def test_records_come_back_as_they_went(values: dict[str, Any]) -> None:
    for encode, decode in BOTH:
        decoded = decode(b"\0\0\0\0\1" + encode(Struct(ANY, values)))[1]
        assert shown(decoded.values) == shown(values)

"""Tests for the mapping between JSON Schema and Connect schemas."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kraal.converters.json_schema.converter import JsonSchemaFormat
from kraal.converters.json_schema.names import ENUM, ONE_OF, JsonSchemaOptions, order_by_hash
from kraal.converters.schema_registry.client import SchemaText, SerializationException
from kraal.plugins.model.records import DECIMAL, DataException
from kraal.plugins.model.schema import OPTIONAL_STRING, STRING, Field, Schema, Type
from tests.fakes.values.connect_schemas import optional, struct
from tests.fakes.values.converter_notation import format_schema
from tests.fakes.values.json_schemas import PLAIN, decode_json, to_json_schema

INT, LONG = Schema(type=Type.INT32), Schema(type=Type.INT64)
DECIMAL_SCHEMA = Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})
INNER = Schema(type=Type.STRUCT, name="Inner", fields=(Field(name="z", schema=INT),))


def get_fields(schema: Schema) -> dict[str, Schema]:
    return {field.name: field.schema for field in schema.fields}


# The members are in the order in which everit's ToStringVisitor prints them.
SCHEMAS: list[Any] = [
    pytest.param(Schema(type=Type.INT8), {"type": "integer", "connect.type": "int8"}, id="int8"),
    pytest.param(
        Schema(type=Type.FLOAT32, doc="d"),
        {"type": "number", "description": "d", "connect.type": "float32"},
        id="float",
    ),
    pytest.param(OPTIONAL_STRING, {"oneOf": [{"type": "null"}, {"type": "string"}]}, id="optional"),
    pytest.param(
        Schema(type=Type.BOOLEAN, optional=True, default=True, version=3),
        {"oneOf": [{"type": "null"}, {"default": True, "connect.version": 3, "type": "boolean"}]},
        id="boolean with its type last",
    ),
    pytest.param(
        DECIMAL_SCHEMA,
        {
            "type": "string",
            "title": DECIMAL,
            "connect.version": 1,
            "connect.type": "bytes",
            "connect.parameters": {"scale": "2"},
        },
        id="decimal",
    ),
    pytest.param(
        Schema(type=Type.MAP, key=STRING, value=INT),
        {
            "type": "object",
            "connect.type": "map",
            "additionalProperties": {"type": "integer", "connect.type": "int32"},
        },
        id="map",
    ),
    pytest.param(
        Schema(type=Type.MAP, key=LONG, value=STRING),
        {
            "type": "array",
            "connect.type": "map",
            "items": {
                "type": "object",
                "properties": {
                    "value": {"type": "string", "connect.index": 1},
                    "key": {"type": "integer", "connect.index": 0, "connect.type": "int64"},
                },
            },
        },
        id="map with other keys",
    ),
    pytest.param(
        struct("shop.Order", id=STRING, inner=optional(INNER), tags=Schema(type=Type.ARRAY, value=STRING)),
        {
            "type": "object",
            "title": "shop.Order",
            "properties": {
                "inner": {
                    "connect.index": 1,
                    "oneOf": [
                        {"type": "null"},
                        {
                            "type": "object",
                            "title": "Inner",
                            "properties": {
                                "z": {"type": "integer", "connect.index": 0, "connect.type": "int32"}
                            },
                        },
                    ],
                },
                "id": {"type": "string", "connect.index": 0},
                "tags": {"type": "array", "connect.index": 2, "items": {"type": "string"}},
            },
        },
        id="record",
    ),
    pytest.param(
        Schema(type=Type.STRING, parameters={ENUM: "", f"{ENUM}.b": "b", f"{ENUM}.a": "a"}),
        {"enum": ["a", "b"]},
        id="enum",
    ),
]


SAMPLES = {
    Type.STRUCT: "{}",
    Type.ARRAY: "[]",
    Type.MAP: "{}",
    Type.STRING: '"AA=="',
    Type.BYTES: '"AA=="',
    Type.BOOLEAN: "true",
}
"""Valid JSON values by type. For numeric types, the tests use 1."""


@pytest.mark.parametrize(("schema", "expected"), SCHEMAS)
def test_schema_text_matches_java_and_round_trips(schema: Schema, expected: Any) -> None:
    text = to_json_schema(schema)
    assert json.loads(text) == expected
    assert text == json.dumps(_sort_like_java(expected), separators=(",", ":"))
    decode = JsonSchemaFormat(PLAIN).decoder(SchemaText("JSON", text), {}, lambda _: None)
    sample = "null" if schema.optional else SAMPLES.get(schema.type, "1")
    if schema.type is Type.MAP and schema.key == LONG:
        sample = "[]"
    decoded = decode(b"\0\0\0\0\1" + sample.encode())[0]
    assert format_schema(decoded) == format_schema(schema)


def _sort_like_java(definition: Any) -> Any:
    """Sort properties like java.util.HashMap; other members keep their order."""
    if isinstance(definition, list):
        return [_sort_like_java(item) for item in definition]
    if not isinstance(definition, dict):
        return definition
    fields = {name: _sort_like_java(item) for name, item in definition.items()}
    if isinstance(fields.get("properties"), dict):
        fields["properties"] = {
            name: fields["properties"][name] for name in order_by_hash(fields["properties"])
        }
    return fields


def test_order_by_hash_matches_java_maps() -> None:
    # The properties of a schema in SchemaValuesTest, in the order in which Confluent's converter writes them.
    order = [
        "boolean",
        "string",
        "int32",
        "array",
        "int64",
        "bytes",
        "int8",
        "float32",
        "float64",
        "map",
        "int16",
    ]
    fields = "int8 int16 int32 int64 float32 float64 boolean string bytes array map"
    assert order_by_hash(fields.split()) == order
    assert order_by_hash(["BB", "Aa"]) == ["BB", "Aa"], "names with equal hashes keep their order"


def test_additional_properties_can_be_disallowed() -> None:
    closed_options = JsonSchemaOptions(additional_properties=False)
    assert json.loads(to_json_schema(INNER, closed_options))["additionalProperties"] is False
    assert "additionalProperties" not in json.loads(to_json_schema(INNER))


# --- foreign schemas --------------------------------------------------------------------------------------------


def test_nonrequired_properties_are_optional_if_configured() -> None:
    definition = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "number"}},
        "required": ["a"],
    }
    default_fields, optional_fields = (
        get_fields(decode_json(definition, "{}")[0]),
        get_fields(decode_json(definition, "{}", JsonSchemaOptions(optional_for_nonrequired=True))[0]),
    )
    assert default_fields == {"a": LONG, "b": Schema(type=Type.FLOAT64)}
    assert (optional_fields["a"].optional, optional_fields["b"].optional) == (False, True)


FOREIGN_SCHEMAS: list[Any] = [
    ({"type": ["string", "null"]}, OPTIONAL_STRING),
    (
        {"anyOf": [{"type": "null"}, {"type": "integer", "title": "N"}]},
        replace(LONG, name="N", optional=True),
    ),
    ({"oneOf": [{"type": "string"}]}, STRING),
    ({"type": "string", "const": "x"}, STRING),
    ({"const": 5}, Schema(type=Type.STRING, parameters={ENUM: "", f"{ENUM}.5": "5"})),
    (
        {"type": "string", "enum": ["x", "y"]},
        Schema(type=Type.STRING, parameters={ENUM: "", f"{ENUM}.x": "x", f"{ENUM}.y": "y"}),
    ),
    ({"type": "integer", "enum": [1, 2]}, LONG),
    ({"type": "string", "format": "date-time", "maxLength": 5}, STRING),
    ({"minLength": 1}, STRING),
    ({"properties": {"a": {"maximum": 3}}}, struct(None, a=Schema(type=Type.FLOAT64))),
    (
        {"type": "array", "items": {"type": "boolean"}, "default": [True]},
        Schema(type=Type.ARRAY, value=Schema(type=Type.BOOLEAN), default=[True]),
    ),
    (
        {
            "allOf": [{"$ref": "#/definitions/A"}, {"properties": {"b": {"type": "string"}}}],
            "definitions": {"A": {"properties": {"a": {"type": "string"}}}},
        },
        struct(None, a=STRING, b=STRING),
    ),
    ({"$ref": "#/$defs/x~1y", "$defs": {"x/y": {"type": "string"}}}, STRING),
    ({"$ref": "#name", "$defs": {"n": {"$id": "#name", "type": "string"}}}, STRING),
    ({"$ref": "other.json"}, STRING),
    ({"properties": {"o": {"$ref": "./other.json#/definitions/i"}}}, struct(None, o=LONG)),
    (
        {"type": "integer", "title": "T", "description": "d", "connect.version": 4},
        replace(LONG, name="T", doc="d", version=4),
    ),
]


@pytest.mark.parametrize(("definition", "schema"), FOREIGN_SCHEMAS)
def test_foreign_schemas_are_read(definition: Any, schema: Schema) -> None:
    other_schema = {"type": "string", "definitions": {"i": {"type": "integer"}}}
    fmt = JsonSchemaFormat(PLAIN)
    referenced_schemas = {"other.json": SchemaText("JSON", json.dumps(other_schema))}
    decode = fmt.decoder(SchemaText("JSON", json.dumps(definition)), referenced_schemas, lambda _: None)
    sample = SAMPLES.get(schema.type, "1")
    assert format_schema(decode(b"\0\0\0\0\1" + sample.encode())[0]) == format_schema(schema)


def test_singleton_unions_are_kept_if_configured() -> None:
    definition = {"oneOf": [{"type": "string"}]}
    schema, value = decode_json(definition, '"x"', JsonSchemaOptions(flatten_singletons=False))
    assert (schema.name, value.values) == (ONE_OF, {f"{ONE_OF}.field.0": "x"})


@pytest.mark.parametrize(
    ("definition", "error", "message"),
    [
        ("{", SerializationException, "Invalid JSON Schema"),
        ("5", SerializationException, "expected an object as schema, got 5"),
        ('{"type":"strange"}', SerializationException, r"unknown type 'strange'; expected one of array,"),
        ('{"$ref":"#/no"}', SerializationException, "the reference #/no points to no schema"),
        ('{"$ref":"x.json"}', SerializationException, "unresolved reference x.json"),
        ('{"type":"integer","connect.type":"int9"}', SerializationException, "invalid connect.type 'int9'"),
        ('{"oneOf":5}', SerializationException, "expected an array as oneOf, got 5"),
        ("{}", DataException, "A JSON Schema without a type"),
        ('{"type":"null"}', DataException, "A JSON Schema with only 'null'"),
        ('{"type":"array"}', DataException, "A JSON Schema array without a single `items` schema"),
        ('{"properties":{"next":{"$ref":"#"}}}', DataException, "contains itself"),
    ],
)
def test_invalid_schema_text_is_rejected(definition: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        decode_json(definition, "{}")

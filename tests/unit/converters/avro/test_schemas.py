"""Tests for the mapping between Avro and Connect schemas."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest

from kraal.converters.avro.from_connect import make_avro_text
from kraal.converters.avro.model import SchemaInvalid, parse_schema, schema_text
from kraal.converters.avro.names import AvroOptions
from kraal.converters.avro.to_connect import connect_schema
from kraal.plugins.model.records import DATE, DECIMAL, TIME, TIMESTAMP, DataException
from kraal.plugins.model.schema import OPTIONAL_STRING, STRING, Schema, Type
from tests.fakes.values.connect_schemas import optional, struct
from tests.fakes.values.converter_notation import format_schema

DEFAULT_OPTIONS = AvroOptions()
ENHANCED_OPTIONS = AvroOptions(enhanced=True)
INT, LONG = Schema(type=Type.INT32), Schema(type=Type.INT64)
DECIMAL_SCHEMA = Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})
TIMESTAMP_SCHEMA = Schema(type=Type.INT64, name=TIMESTAMP, version=1)


# The expected schemas are taken from AvroDataTest and from the documentation of Confluent's converters.
SCHEMAS: list[Any] = [
    pytest.param(INT, "int", id="int"),
    pytest.param(optional(STRING), ["null", "string"], id="optional"),
    pytest.param(
        Schema(type=Type.INT8), {"type": "int", "connect.type": "int8"}, id="type without Avro equivalent"
    ),
    pytest.param(
        Schema(type=Type.STRING, optional=True, default="x"),
        [{"type": "string", "connect.default": "x"}, "null"],
        id="optional with a default",
    ),
    pytest.param(
        Schema(type=Type.BOOLEAN, doc="d", version=2, name="n.N", parameters={"p": "q"}),
        {
            "type": "boolean",
            "connect.doc": "d",
            "connect.version": 2,
            "connect.parameters": {"p": "q"},
            "connect.name": "n.N",
        },
        id="Connect metadata",
    ),
    pytest.param(
        DECIMAL_SCHEMA,
        {
            "type": "bytes",
            "scale": 2,
            "precision": 64,
            "connect.version": 1,
            "connect.parameters": {"scale": "2"},
            "connect.name": DECIMAL,
            "logicalType": "decimal",
        },
        id="decimal",
    ),
    pytest.param(
        Schema(type=Type.INT32, name=DATE, version=1),
        {"type": "int", "connect.version": 1, "connect.name": DATE, "logicalType": "date"},
        id="date",
    ),
    pytest.param(
        Schema(type=Type.INT32, name=TIME, version=1),
        {"type": "int", "connect.version": 1, "connect.name": TIME, "logicalType": "time-millis"},
        id="time",
    ),
    pytest.param(
        TIMESTAMP_SCHEMA,
        {"type": "long", "connect.version": 1, "connect.name": TIMESTAMP, "logicalType": "timestamp-millis"},
        id="timestamp",
    ),
    pytest.param(
        Schema(type=Type.MAP, key=STRING, value=OPTIONAL_STRING),
        {"type": "map", "values": ["null", "string"]},
        id="map",
    ),
    pytest.param(
        Schema(type=Type.MAP, key=INT, value=STRING),
        {
            "type": "array",
            "items": {
                "type": "record",
                "name": "MapEntry",
                "namespace": "io.confluent.connect.avro",
                "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "string"}],
            },
        },
        id="map with other keys",
    ),
    pytest.param(
        struct("a.b.C", x=INT, y=optional(struct("a.b.D", z=LONG)), w=struct("e.D", z=LONG)),
        {
            "type": "record",
            "name": "C",
            "namespace": "a.b",
            "fields": [
                {"name": "x", "type": "int"},
                {
                    "name": "y",
                    "type": [
                        "null",
                        {
                            "type": "record",
                            "name": "D",
                            "fields": [{"name": "z", "type": "long"}],
                            "connect.name": "a.b.D",
                        },
                    ],
                    "default": None,
                },
                {
                    "name": "w",
                    "type": {
                        "type": "record",
                        "name": "D",
                        "namespace": "e",
                        "fields": [{"name": "z", "type": "long"}],
                        "connect.name": "e.D",
                    },
                },
            ],
            "connect.name": "a.b.C",
        },
        id="records",
    ),
    pytest.param(
        struct(None, x=struct(None, y=INT), z=struct(None, y=INT)),
        {
            "type": "record",
            "name": "ConnectDefault",
            "namespace": "io.confluent.connect.avro",
            "fields": [
                {
                    "name": "x",
                    "type": {
                        "type": "record",
                        "name": "ConnectDefault2",
                        "fields": [{"name": "y", "type": "int"}],
                    },
                },
                {"name": "z", "type": "ConnectDefault2"},
            ],
        },
        id="unnamed records, one used twice",
    ),
]


@pytest.mark.parametrize(("schema", "expected"), SCHEMAS)
def test_avro_schema_matches_java_and_round_trips(schema: Schema, expected: Any) -> None:
    text = make_avro_text(schema, DEFAULT_OPTIONS)
    assert text == json.dumps(expected, separators=(",", ":"))
    fastavro.parse_schema(json.loads(text))
    assert format_schema(connect_schema(parse_schema(text), DEFAULT_OPTIONS)) == format_schema(schema)
    assert schema_text(parse_schema(text)) == text


def test_connect_metadata_can_be_omitted() -> None:
    schema = struct("N", a=Schema(type=Type.INT8, doc="d", version=1), t=TIMESTAMP_SCHEMA)
    assert json.loads(make_avro_text(schema, AvroOptions(meta_data=False))) == {
        "type": "record",
        "name": "N",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }


ENUM = {"type": "enum", "name": "n.Suit", "symbols": ["CLUBS", "HEARTS"], "default": "CLUBS", "doc": "d"}


def test_enum_becomes_string_or_stays_enum_as_configured() -> None:
    schema = connect_schema(parse_schema(json.dumps(ENUM)), ENHANCED_OPTIONS)
    prefix = "io.confluent.connect.avro."
    assert schema == Schema(
        type=Type.STRING,
        name="n.Suit",
        parameters={
            f"{prefix}enum.doc.Suit": "d",
            f"{prefix}enum.default.Suit": "CLUBS",
            f"{prefix}Enum": "n.Suit",
            f"{prefix}Enum.CLUBS": "CLUBS",
            f"{prefix}Enum.HEARTS": "HEARTS",
        },
    )
    avro_enum = json.loads(make_avro_text(schema, ENHANCED_OPTIONS))
    assert (avro_enum["type"], avro_enum["symbols"], avro_enum["default"], avro_enum["doc"]) == (
        "enum",
        ["CLUBS", "HEARTS"],
        "CLUBS",
        "d",
    )
    assert json.loads(make_avro_text(schema, DEFAULT_OPTIONS))["type"] == "string"


def test_defaults_docs_and_parameters_are_read() -> None:
    definition = {
        "type": "record",
        "name": "R",
        "doc": "all",
        "fields": [
            {"name": "a", "type": "int", "default": 3, "doc": "three"},
            {"name": "b", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}},
            {"name": "c", "type": {"type": "fixed", "name": "F", "size": 4}, "default": "\u00ff\u0000ab"},
            {"name": "d", "type": {"type": "string", "avro.java.string": "String"}, "default": "x"},
            {"name": "e", "type": "int", "default": "no number"},
        ],
    }
    schema = connect_schema(parse_schema(json.dumps(definition)), DEFAULT_OPTIONS, 7)
    prefix = "io.confluent.connect.avro."
    assert (schema.name, schema.version, schema.default) == ("R", 7, None)
    assert schema.parameters == {f"{prefix}record.doc": "all", f"{prefix}field.doc.a": "three"}
    a, b, c, d, e = (field.schema for field in schema.fields)
    assert (a.default, a.parameters) == (3, {f"{prefix}field.default": "true"})
    assert (b.name, b.parameters) == (DECIMAL, {"scale": "1", "connect.decimal.precision": "5"})
    assert (c.name, c.default) == ("F", b"\xff\0ab")
    assert (d.parameters["avro.java.string"], d.default) == ("String", "x")
    assert e.default is None, "a default that does not match its type is dropped"


def test_recursive_record_is_rejected() -> None:
    definition = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    with pytest.raises(DataException, match="The Avro record L contains itself"):
        connect_schema(parse_schema(json.dumps(definition)), DEFAULT_OPTIONS)


@pytest.mark.parametrize("text", ["{", "5", '{"type": "no.such"}', '{"type": "array"}', '{"x": 1}'])
def test_invalid_schema_text_is_rejected(text: str) -> None:
    with pytest.raises(SchemaInvalid):
        parse_schema(text)


def test_different_types_with_equal_names_are_rejected() -> None:
    schema = struct("R", a=struct("S", x=INT), b=struct("S", x=STRING))
    with pytest.raises(DataException, match="Two different Avro types have the name S"):
        make_avro_text(schema, DEFAULT_OPTIONS)

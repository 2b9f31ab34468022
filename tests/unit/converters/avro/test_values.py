"""Tests for encoding and decoding Avro values, compared with fastavro."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from kraal.converters.avro.converter import AvroFormat
from kraal.converters.avro.from_connect import make_avro_text
from kraal.converters.avro.names import AvroOptions
from kraal.converters.schema_registry.client import SchemaText, SerializationException
from kraal.plugins.model.records import DECIMAL, TIMESTAMP, DataException, Float32, Instant, Struct
from kraal.plugins.model.schema import STRING, Schema, Type
from tests.fakes.values.connect_schemas import optional, struct
from tests.fakes.values.converter_notation import format_schema, format_value

DEFAULT_OPTIONS = AvroOptions()
ENHANCED_OPTIONS = AvroOptions(enhanced=True)
INT, LONG = Schema(type=Type.INT32), Schema(type=Type.INT64)
DECIMAL_SCHEMA = Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})
TIMESTAMP_SCHEMA = Schema(type=Type.INT64, name=TIMESTAMP, version=1)


ENUM = {"type": "enum", "name": "n.Suit", "symbols": ["CLUBS", "HEARTS"], "default": "CLUBS", "doc": "d"}


def make_format(options: AvroOptions = DEFAULT_OPTIONS) -> AvroFormat:
    return AvroFormat(options)


def encode(
    schema: Schema | None, value: Any, avro: Any = None, options: AvroOptions = DEFAULT_OPTIONS
) -> bytes:
    fmt = make_format(options)
    text = fmt.describe(schema).schema if avro is None else SchemaText("AVRO", json.dumps(avro))
    return fmt.encoder(schema, text, {})(value)


def read(avro: Any, data: bytes, options: AvroOptions = DEFAULT_OPTIONS) -> tuple[Schema | None, Any]:
    decode = make_format(options).decoder(SchemaText("AVRO", json.dumps(avro)), {}, lambda _: None)
    return decode(b"\0\0\0\0\1" + data)


def encode_with_fastavro(avro: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(avro), value)
    return out.getvalue()


WIDE_SCHEMA = struct(
    "Wide",
    i=optional(INT),
    f=Schema(type=Type.FLOAT32),
    d=Schema(type=Type.FLOAT64),
    b=Schema(type=Type.BOOLEAN),
    m=DECIMAL_SCHEMA,
    w=optional(TIMESTAMP_SCHEMA),
    l=Schema(type=Type.ARRAY, value=optional(STRING)),
    o=Schema(type=Type.MAP, key=STRING, value=LONG),
    p=Schema(type=Type.MAP, key=INT, value=STRING),
    s=optional(struct("Inner", x=Schema(type=Type.INT16))),
)
VALUES = {
    "i": -(2**31),
    "f": Float32(1.5),
    "d": -2.25,
    "b": True,
    "m": Decimal("-1234.56"),
    "w": Instant(1_700_000_000_123),
    "l": ["a", None, "\u00e9\U0001f600"],
    "o": {"k": 2**63 - 1},
    "p": {-64: "x", 64: ""},
    "s": Struct(WIDE_SCHEMA.fields[-1].schema, {"x": -5}),
}


def test_encoding_matches_fastavro() -> None:
    avro = json.loads(make_avro_text(WIDE_SCHEMA, DEFAULT_OPTIONS))
    data = encode(WIDE_SCHEMA, Struct(WIDE_SCHEMA, VALUES))
    fastavro_value: Any = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(avro))
    assert fastavro_value["m"] == Decimal("-1234.56")
    assert fastavro_value["w"].timestamp() == pytest.approx(1_700_000_000.123)
    assert fastavro_value["p"] == [{"key": -64, "value": "x"}, {"key": 64, "value": ""}]
    assert encode_with_fastavro(avro, fastavro_value) == data
    schema, value = read(avro, data)
    assert format_schema(schema) == format_schema(WIDE_SCHEMA)
    assert format_value(value) == format_value(Struct(WIDE_SCHEMA, VALUES))


def test_null_is_encoded_as_schema_default_unless_disabled() -> None:
    schema = struct("N", x=Schema(type=Type.STRING, optional=True, default="d"))
    value = Struct(schema, {"x": None})
    assert encode(schema, value) == b"\x00\x02d"
    assert encode(schema, value, options=AvroOptions(ignore_defaults=True)) == b"\x02"


SCHEMALESS_VALUES: list[Any] = [5, 2.5, Float32(0.5), True, "x", [1, None, ["y"]], {"a": {"b": None}, 2: []}]


@pytest.mark.parametrize("value", SCHEMALESS_VALUES)
def test_schemaless_values_round_trip(value: Any) -> None:
    avro = json.loads(make_avro_text(None, DEFAULT_OPTIONS))
    data = encode(None, value)
    assert read(avro, data) == (None, value)
    fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(avro))


UNION = [
    "null",
    "int",
    "long",
    {"type": "record", "name": "a.R", "fields": [{"name": "x", "type": "string"}]},
]


def test_union_is_decoded_to_a_struct() -> None:
    for options, name in ((DEFAULT_OPTIONS, "R"), (ENHANCED_OPTIONS, "a.R")):
        schema, value = read(UNION, b"\x04\x0a", options)
        assert schema is not None
        assert schema.name == "io.confluent.connect.avro.Union"
        assert schema.optional
        assert [field.name for field in schema.fields] == ["int", "long", name]
        assert value.values == {"long": 5}
        assert encode(schema, value, UNION, options) == b"\x04\x0a"
        _, record = read(UNION, b"\x06\x02z", options)
        assert record.values[name].values == {"x": "z"}
        assert encode(schema, record, UNION, options) == b"\x06\x02z"


def test_encoding_with_a_later_schema_adds_its_defaults() -> None:
    schema = struct("R", a=INT, gone=STRING)
    later_schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "new", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
            {"name": "a", "type": ["null", "long"], "default": None},
        ],
    }
    data = encode(schema, Struct(schema, {"a": 7, "gone": "x"}), later_schema)
    assert fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(later_schema)) == {
        "new": [1, 2],
        "a": 7,
    }


def test_top_level_bytes_have_no_length_prefix() -> None:
    assert encode(Schema(type=Type.BYTES), b"abc") == b"abc"
    assert read("bytes", b"abc")[1] == b"abc"
    assert encode(Schema(type=Type.BYTES, optional=True), b"abc") == b"\x02\x06abc"


def test_fixed_decimal_is_sign_extended() -> None:
    avro = {"type": "fixed", "name": "F", "size": 4} | {
        "logicalType": "decimal", "precision": 9, "scale": 2,
    }  # fmt: skip
    for number, data in ((Decimal("-0.01"), b"\xff\xff\xff\xff"), (Decimal("2.55"), b"\0\0\0\xff")):
        schema, decoded = read(avro, data)
        assert decoded == number
        assert encode(schema, number, avro) == data
        with pytest.raises(DataException, match="Avro fixed F: expected 4 bytes, got 5"):
            encode(schema, Decimal("99999999.99"), avro)


def test_invalid_avro_names_are_rejected_or_replaced() -> None:
    schema = struct("org.a-b", **{"1 x\u00e9": INT})
    with pytest.raises(DataException, match=r"Invalid Avro name 'a-b'.*scrub.invalid.names"):
        make_avro_text(schema, DEFAULT_OPTIONS)
    scrub_options = AvroOptions(scrub_names=True)
    avro = json.loads(make_avro_text(schema, scrub_options))
    assert (avro["name"], avro["fields"][0]["name"]) == ("a_b", "x1_x_C3_A9")
    assert encode(schema, Struct(schema, {"1 x\u00e9": 3}), options=scrub_options) == b"\x06"


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (INT, "x", "Invalid type for INT32: class java.lang.String"),
        (INT, 2**31, "2147483648 is out of range"),
        (struct("R", a=INT), Struct(struct("R", a=LONG), {"a": 1}), "The struct's own schema differs"),
        (struct("R", a=INT), Struct(struct("R", a=INT), {}), "Null is not allowed"),
        (None, b"x", r"A value of class \[B requires a schema"),
        (DECIMAL_SCHEMA, Decimal("1.234"), "mismatching scale"),
    ],
)
def test_value_incompatible_with_schema_is_rejected(schema: Schema, value: Any, message: str) -> None:
    with pytest.raises(DataException, match=message):
        encode(schema, value)


@pytest.mark.parametrize(
    ("avro", "data"),
    [
        ("string", b"\x06ab"),
        ("long", b"\xff\xff"),
        ("long", b"\xff" * 11),
        (["null", "int"], b"\x04"),
        (ENUM, b"\x08"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\x0f"),
    ],
)
def test_bytes_that_do_not_match_their_schema_are_rejected(avro: Any, data: bytes) -> None:
    with pytest.raises(SerializationException, match="Avro value does not match its schema with ID 1: "):
        read(avro, data)


def test_union_value_is_encoded_with_its_matching_type() -> None:
    avro = [
        "null",
        "bytes",
        ENUM,
        "string",
        {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]},
        {"type": "record", "name": "B", "fields": [{"name": "x", "type": "int"}]},
    ]
    assert encode(optional(STRING), "x", avro) == b"\x06\x02x"
    assert encode(Schema(type=Type.BYTES), b"x", avro) == b"\x02\x02x"
    branch = struct("B", x=INT)
    assert encode(branch, Struct(branch, {"x": 1}), avro) == b"\x0a\x02"
    with pytest.raises(DataException, match="No type of the Avro union can hold MAP"):
        encode(Schema(type=Type.MAP, key=STRING, value=STRING), {}, avro)

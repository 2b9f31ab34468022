"""Avro: values both ways, the same bytes that fastavro writes and reads."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from kraal.converters.avro.converter import AvroFormat
from kraal.converters.avro.from_connect import avro_text
from kraal.converters.avro.names import AvroOptions
from kraal.converters.schema_registry.client import SchemaText, SerializationException
from kraal.plugins.model.records import DECIMAL, TIMESTAMP, DataException, Float32, Instant, Struct
from kraal.plugins.model.schema import STRING, Schema, Type
from tests.fakes.values.connect_schemas import optional, struct
from tests.fakes.values.converter_notation import described, shown

PLAIN = AvroOptions()
ENHANCED = AvroOptions(enhanced=True)
INT, LONG = Schema(type=Type.INT32), Schema(type=Type.INT64)
MONEY = Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})
WHEN = Schema(type=Type.INT64, name=TIMESTAMP, version=1)
CONNECT = "org.apache.kafka.connect.data"


ENUM = {"type": "enum", "name": "n.Suit", "symbols": ["CLUBS", "HEARTS"], "default": "CLUBS", "doc": "d"}


def fmt(options: AvroOptions = PLAIN) -> AvroFormat:
    return AvroFormat(options)


def written(schema: Schema | None, value: Any, avro: Any = None, options: AvroOptions = PLAIN) -> bytes:
    used = fmt(options)
    text = used.describe(schema).schema if avro is None else SchemaText("AVRO", json.dumps(avro))
    return used.encoder(schema, text, {})(value)


def read(avro: Any, data: bytes, options: AvroOptions = PLAIN) -> tuple[Schema | None, Any]:
    decode = fmt(options).decoder(SchemaText("AVRO", json.dumps(avro)), {}, lambda _: None)
    return decode(b"\0\0\0\0\1" + data)


def by_fastavro(avro: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(avro), value)
    return out.getvalue()


WIDE = struct(
    "Wide",
    i=optional(INT),
    f=Schema(type=Type.FLOAT32),
    d=Schema(type=Type.FLOAT64),
    b=Schema(type=Type.BOOLEAN),
    m=MONEY,
    w=optional(WHEN),
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
    "s": Struct(WIDE.fields[-1].schema, {"x": -5}),
}


def test_values_are_the_bytes_that_fastavro_writes_and_reads() -> None:
    avro = json.loads(avro_text(WIDE, PLAIN))
    data = written(WIDE, Struct(WIDE, VALUES))
    theirs: Any = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(avro))
    assert theirs["m"] == Decimal("-1234.56")
    assert theirs["w"].timestamp() == pytest.approx(1_700_000_000.123)
    assert theirs["p"] == [{"key": -64, "value": "x"}, {"key": 64, "value": ""}]
    assert by_fastavro(avro, theirs) == data
    schema, value = read(avro, data)
    assert described(schema) == described(WIDE)
    assert shown(value) == shown(Struct(WIDE, VALUES))


def test_null_becomes_the_schemas_default_unless_configured_otherwise() -> None:
    schema = struct("N", x=Schema(type=Type.STRING, optional=True, default="d"))
    value = Struct(schema, {"x": None})
    assert written(schema, value) == b"\x00\x02d"
    assert written(schema, value, options=AvroOptions(ignore_defaults=True)) == b"\x02"


SCHEMALESS: list[Any] = [5, 2.5, Float32(0.5), True, "x", [1, None, ["y"]], {"a": {"b": None}, 2: []}]


@pytest.mark.parametrize("value", SCHEMALESS)
def test_values_without_a_schema_are_read_as_they_were_written(value: Any) -> None:
    avro = json.loads(avro_text(None, PLAIN))
    data = written(None, value)
    assert read(avro, data) == (None, value)
    fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(avro))


UNION = [
    "null",
    "int",
    "long",
    {"type": "record", "name": "a.R", "fields": [{"name": "x", "type": "string"}]},
]


def test_a_union_is_a_struct_with_one_field_for_each_type() -> None:
    for options, name in ((PLAIN, "R"), (ENHANCED, "a.R")):
        schema, value = read(UNION, b"\x04\x0a", options)
        assert schema is not None
        assert schema.name == "io.confluent.connect.avro.Union"
        assert schema.optional
        assert [field.name for field in schema.fields] == ["int", "long", name]
        assert value.values == {"long": 5}, "which of the two it is, Java does not tell"
        assert written(schema, value, UNION, options) == b"\x04\x0a"
        _, record = read(UNION, b"\x06\x02z", options)
        assert record.values[name].values == {"x": "z"}
        assert written(schema, record, UNION, options) == b"\x06\x02z"


def test_values_written_with_a_later_schema_have_its_defaults() -> None:
    schema = struct("R", a=INT, gone=STRING)
    later = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "new", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
            {"name": "a", "type": ["null", "long"], "default": None},
        ],
    }
    data = written(schema, Struct(schema, {"a": 7, "gone": "x"}), later)
    assert fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(later)) == {
        "new": [1, 2],
        "a": 7,
    }


def test_bytes_alone_have_no_length_before_them() -> None:
    assert written(Schema(type=Type.BYTES), b"abc") == b"abc"
    assert read("bytes", b"abc")[1] == b"abc"
    assert written(Schema(type=Type.BYTES, optional=True), b"abc") == b"\x02\x06abc"


def test_a_decimal_as_fixed_is_padded_by_its_sign() -> None:
    avro = {"type": "fixed", "name": "F", "size": 4} | {
        "logicalType": "decimal", "precision": 9, "scale": 2,
    }  # fmt: skip
    for number, data in ((Decimal("-0.01"), b"\xff\xff\xff\xff"), (Decimal("2.55"), b"\0\0\0\xff")):
        schema, decoded = read(avro, data)
        assert decoded == number
        assert written(schema, number, avro) == data
        with pytest.raises(DataException, match="Avro fixed F: expected 4 bytes, got 5"):
            written(schema, Decimal("99999999.99"), avro)


def test_names_that_avro_does_not_take_are_refused_or_replaced() -> None:
    schema = struct("org.a-b", **{"1 x\u00e9": INT})
    with pytest.raises(DataException, match=r"Invalid Avro name 'a-b'.*scrub.invalid.names"):
        avro_text(schema, PLAIN)
    scrub = AvroOptions(scrub_names=True)
    avro = json.loads(avro_text(schema, scrub))
    assert (avro["name"], avro["fields"][0]["name"]) == ("a_b", "x1_x_C3_A9")
    assert written(schema, Struct(schema, {"1 x\u00e9": 3}), options=scrub) == b"\x06"


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (INT, "x", "Invalid type for INT32: class java.lang.String"),
        (INT, 2**31, "2147483648 is out of range"),
        (struct("R", a=INT), Struct(struct("R", a=LONG), {"a": 1}), "The struct's own schema differs"),
        (struct("R", a=INT), Struct(struct("R", a=INT), {}), "Null is not allowed"),
        (None, b"x", r"A value of class \[B needs a schema"),
        (MONEY, Decimal("1.234"), "mismatching scale"),
    ],
)
def test_rejects_a_value_that_does_not_fit_its_schema(schema: Schema, value: Any, message: str) -> None:
    with pytest.raises(DataException, match=message):
        written(schema, value)


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
def test_bytes_that_are_not_what_their_schema_says_are_refused(avro: Any, data: bytes) -> None:
    with pytest.raises(SerializationException, match="Avro value does not match its schema with ID 1: "):
        read(avro, data)


def test_a_value_goes_into_the_type_of_a_union_that_is_its_own() -> None:
    avro = [
        "null",
        "bytes",
        ENUM,
        "string",
        {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]},
        {"type": "record", "name": "B", "fields": [{"name": "x", "type": "int"}]},
    ]
    assert written(optional(STRING), "x", avro) == b"\x06\x02x"
    assert written(Schema(type=Type.BYTES), b"x", avro) == b"\x02\x02x"
    branch = struct("B", x=INT)
    assert written(branch, Struct(branch, {"x": 1}), avro) == b"\x0a\x02"
    with pytest.raises(DataException, match="No type of the Avro union holds MAP"):
        written(Schema(type=Type.MAP, key=STRING, value=STRING), {}, avro)

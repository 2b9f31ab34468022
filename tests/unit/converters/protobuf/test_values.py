"""Tests for encoding and decoding Protobuf values, with bytes derived manually from the specification."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraal.converters.protobuf.converter import ProtobufFormat
from kraal.converters.protobuf.names import NAMESPACE, ProtobufOptions
from kraal.converters.schema_registry.client import SchemaText, SerializationException
from kraal.plugins.model.records import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    DataException,
    Float32,
    Instant,
    Struct,
)
from kraal.plugins.model.schema import OPTIONAL_STRING, STRING, Schema, Type
from kraal.plugins.values.java_values import float32
from tests.fakes.values.connect_schemas import optional, struct
from tests.fakes.values.converter_notation import format_value

DEFAULT_OPTIONS = ProtobufOptions()
INT, LONG = Schema(type=Type.INT32), Schema(type=Type.INT64)
DECIMAL_SCHEMA = Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})
TAG, ENUM, UNION = f"{NAMESPACE}.Tag", f"{NAMESPACE}.Enum", f"{NAMESPACE}.Union"
PROTO3 = 'syntax = "proto3"; '


def tag_field(schema: Schema, number: int) -> Schema:
    return replace(schema, parameters={**schema.parameters, TAG: str(number)})


def encode(
    schema: Schema, value: Any, text: str | None = None, options: ProtobufOptions = DEFAULT_OPTIONS
) -> bytes:
    """Return the bytes after the schema ID."""
    fmt = ProtobufFormat(options)
    registered_schema = fmt.describe(schema).schema if text is None else SchemaText("PROTOBUF", text)
    return fmt.encoder(schema, registered_schema, {})(value)


def decode_value(
    text: str, data: bytes, options: ProtobufOptions = DEFAULT_OPTIONS, message_indexes: bytes = b"\0"
) -> Any:
    decode = ProtobufFormat(options).decoder(SchemaText("PROTOBUF", text), {}, lambda _: None)
    return decode(b"\0\0\0\0\1" + message_indexes + data)[1]


def test_encoding_matches_specification_examples() -> None:
    # The examples of https://protobuf.dev/programming-guides/encoding: 150, "testing", a message in field 3.
    assert encode(struct("T", a=INT), Struct(struct("T", a=INT), {"a": 150})) == bytes.fromhex("00 08 96 01")
    string_record = struct("T", b=tag_field(STRING, 2))
    assert encode(string_record, Struct(string_record, {"b": "testing"})) == bytes.fromhex(
        "00 12 07 74 65 73 74 69 6e 67"
    )
    inner = struct("Inner", a=INT)
    outer = struct("Outer", c=tag_field(inner, 3))
    assert encode(outer, Struct(outer, {"c": Struct(outer.fields[0].schema, {"a": 150})})) == bytes.fromhex(
        "00 1a 03 08 96 01"
    )
    packed_record = struct("T", f=tag_field(Schema(type=Type.ARRAY, value=INT), 6))
    assert encode(packed_record, Struct(packed_record, {"f": [3, 270, 86942]})) == bytes.fromhex(
        "00 32 06 03 8e 02 9e a7 05"
    )


KINDS: list[Any] = [
    ("int32", INT, -1, "08 ff ff ff ff ff ff ff ff ff 01"),
    ("sint32", INT, -2, "08 03"),
    ("sfixed32", INT, -2, "0d fe ff ff ff"),
    ("uint32", LONG, 2**32 - 1, "08 ff ff ff ff 0f"),
    ("fixed32", LONG, 2**32 - 1, "0d ff ff ff ff"),
    ("int64", LONG, -(2**63), "08 80 80 80 80 80 80 80 80 80 01"),
    ("uint64", LONG, -1, "08 ff ff ff ff ff ff ff ff ff 01"),
    ("sint64", LONG, 2**63 - 1, "08 fe ff ff ff ff ff ff ff ff 01"),
    ("fixed64", LONG, -1, "09 ff ff ff ff ff ff ff ff"),
    ("sfixed64", LONG, 1, "09 01 00 00 00 00 00 00 00"),
    ("float", Schema(type=Type.FLOAT32), Float32(1.5), "0d 00 00 c0 3f"),
    ("double", Schema(type=Type.FLOAT64), -2.25, "09 00 00 00 00 00 00 02 c0"),
    ("bool", Schema(type=Type.BOOLEAN), True, "08 01"),
    ("bytes", Schema(type=Type.BYTES), b"\0\xff", "0a 02 00 ff"),
    ("string", STRING, "\u00e9\U0001f600", "0a 06 c3 a9 f0 9f 98 80"),
]


@pytest.mark.parametrize(("kind", "schema", "value", "data"), KINDS)
def test_each_kind_is_encoded_and_decoded(kind: str, schema: Schema, value: Any, data: str) -> None:
    text = f"{PROTO3}message M {{ {kind} a = 1; }}"
    record = struct("M", a=schema)
    assert encode(record, Struct(record, {"a": value}), text) == b"\0" + bytes.fromhex(data)
    assert decode_value(text, bytes.fromhex(data)).values == {"a": value}
    for label in ("", "optional "):
        labeled_text = f"{PROTO3}message M {{ {label}{kind} a = 1; }}"
        defaults = decode_value(labeled_text, b"").values
        assert defaults == ({} if label else {"a": type(value)()})
        assert all(type(item) is type(value) for item in defaults.values())


def test_default_values_are_omitted_unless_presence_is_tracked() -> None:
    record = struct("M", a=INT, d=Schema(type=Type.FLOAT64), s=STRING, o=optional(INT))
    defaults = Struct(record, {"a": 0, "d": 0.0, "s": "", "o": 0})
    assert encode(record, defaults) == b"\0"
    assert encode(record, Struct(record, {"a": 0, "d": -0.0, "s": ""})) == b"\0" + bytes.fromhex(
        "11 0000000000000080"
    )
    label_options = ProtobufOptions(optional_for_nullables=True)
    assert encode(record, defaults, options=label_options) == bytes.fromhex("00 20 00")
    wrapper_options = ProtobufOptions(wrapper_for_nullables=True)
    assert encode(record, defaults, options=wrapper_options) == bytes.fromhex("00 22 00")
    assert encode(record, replace(defaults, values={"o": 7}), options=wrapper_options) == bytes.fromhex(
        "00 22 02 08 07"
    )


def test_fields_are_encoded_in_order_of_their_numbers() -> None:
    record = struct("M", late=tag_field(INT, 9), early=tag_field(INT, 1))
    assert encode(record, Struct(record, {"late": 2, "early": 1})) == bytes.fromhex("00 08 01 48 02")


def test_map_is_encoded_as_entries_in_order() -> None:
    record = struct("M", m=Schema(type=Type.MAP, key=STRING, value=LONG))
    data = bytes.fromhex("0a 05 0a 01 62 10 02 0a 03 0a 01 61 0a 02 10 05")
    assert encode(record, Struct(record, {"m": {"b": 2, "a": 0, "": 5}})) == b"\0" + data
    assert decode_value(f"{PROTO3}message M {{ map<string, int64> m = 1; }}", data).values == {
        "m": {"b": 2, "a": 0, "": 5}
    }


LOGICAL_VALUES: list[Any] = [
    (DECIMAL_SCHEMA, Decimal("-1234.56"), "0a 09 0a 03 fe 1d c0 10 06 18 02"),
    (DECIMAL_SCHEMA, Decimal("0.00"), "0a 07 0a 01 00 10 01 18 02"),
    (
        Schema(type=Type.INT64, name=TIMESTAMP, version=1),
        Instant(-1),
        "0a 11 08 ff ff ff ff ff ff ff ff ff 01 10 c0 8f ae dc 03",
    ),
    (
        Schema(type=Type.INT64, name=TIMESTAMP, version=1),
        Instant(1_700_000_000_123),
        "0a 0b 08 80 e2 cf aa 06 10 c0 a9 d3 3a",
    ),
    (Schema(type=Type.INT32, name=DATE, version=1), Instant(86_400_000 * 31), "0a 07 08 b2 0f 10 02 18 01"),
    (
        Schema(type=Type.INT32, name=TIME, version=1),
        Instant(3_723_004),
        "0a 0b 08 01 10 02 18 03 20 80 92 f4 01",
    ),
]


@pytest.mark.parametrize(("schema", "value", "data"), LOGICAL_VALUES)
def test_logical_types_are_encoded_as_messages(schema: Schema, value: Any, data: str) -> None:
    record = struct("M", a=schema)
    value = Struct(record, {"a": value})
    registered_schema = ProtobufFormat(DEFAULT_OPTIONS).describe(record).schema
    assert encode(record, value).hex(" ") == "00 " + data
    assert decode_value(registered_schema.text, bytes.fromhex(data)).values == value.values


def test_oneof_members_have_presence() -> None:
    text = f"{PROTO3}message M {{ oneof kind {{ string s = 1; int32 i = 2; }} }}"
    value = decode_value(text, b"\x10\0")
    assert value.values["kind_0"].values == {"i": 0}
    assert decode_value(text, b"\x10\x05\x0a\x01x").values["kind_0"].values == {"s": "x"}, (
        "the last member takes precedence"
    )
    assert decode_value(text, b"").values == {}
    assert decode_value(text, b"\x10\0", ProtobufOptions(flatten_unions=True)).values == {"i": 0}
    assert encode(value.schema, value, text) == bytes.fromhex("00 10 00")
    empty_union = Struct(value.schema, {"kind_0": Struct(value.schema.fields[0].schema, {})})
    with pytest.raises(DataException, match=r"No field of the union .* is set"):
        encode(value.schema, empty_union, text)


def test_enums_are_encoded_as_numbers() -> None:
    text = f"{PROTO3}message M {{ enum E {{ A = 0; B = 7; }} E e = 1; repeated E all = 2; }}"
    data = bytes.fromhex("08 07 12 03 00 07 09")
    value = decode_value(text, data)
    assert value.values == {"e": "B", "all": ["A", "B", "UNKNOWN_ENUM_VALUE_E_9"]}
    assert decode_value(text, data, ProtobufOptions(int_for_enums=True)).values == {"e": 7, "all": [0, 7, 9]}
    expected = replace(value, values={"e": "B", "all": ["A", "B"]})
    assert encode(value.schema, expected, text) == bytes.fromhex("00 08 07 12 02 00 07")
    with pytest.raises(
        DataException, match=r"'C' is not a value of the Protobuf enum M\.E; expected one of A, B"
    ):
        encode(value.schema, replace(value, values={"e": "C"}), text)
    closed_enum = "message M { enum E { A = 1; } optional E e = 1; }"
    assert decode_value(closed_enum, b"\x08\x05").values == {}, "unknown numbers of closed enums are absent"


def test_absent_message_is_null_or_empty_struct_as_configured() -> None:
    text = f"{PROTO3}message M {{ message I {{ int32 a = 1; }} I i = 1; }}"
    assert decode_value(text, b"").values == {}
    assert decode_value(text, b"", ProtobufOptions(struct_for_nulls=True)).values["i"].values == {"a": 0}
    assert decode_value(text, b"\x0a\0").values["i"].values == {"a": 0}


def test_proto2_defaults_and_required_fields_are_decoded() -> None:
    text = 'message M { optional string s = 1 [default = "d"]; required int32 r = 2; }'
    assert decode_value(text, b"\x10\x01").values == {"r": 1}
    assert decode_value(text, b"\x10\x01", ProtobufOptions(optional_for_proto2=False)).values == {
        "s": "d",
        "r": 1,
    }
    with pytest.raises(SerializationException, match="the required field r is missing"):
        decode_value(text, b"")


def test_repeated_occurrences_of_a_message_are_merged() -> None:
    text = f"{PROTO3}message M {{ message I {{ int32 a = 1; int32 b = 2; }} I i = 1; repeated int32 p = 2; "
    text += "int32 last = 3; }"
    data = bytes.fromhex("0a 02 08 05 0a 02 10 06 10 01 12 02 02 03 18 01 18 02")
    value = decode_value(text, data)
    assert value.values["i"].values == {"a": 5, "b": 6}
    assert (value.values["p"], value.values["last"]) == ([1, 2, 3], 2)
    unknown_fields = bytes.fromhex(
        "a0 06 01 a1 06 0000000000000000 a2 06 01 78 a5 06 00000000 a3 06 08 01 a4 06 18 09"
    )
    assert decode_value(text, unknown_fields).values["last"] == 9, "unknown fields and groups are skipped"


def test_wrapper_is_decoded_as_its_value() -> None:
    text = (
        f'{PROTO3}import "google/protobuf/wrappers.proto"; message M {{ google.protobuf.StringValue s = 1; }}'
    )
    assert decode_value(text, b"\x0a\x03\x0a\x01x").values == {"s": "x"}
    assert decode_value(text, b"\x0a\0").values == {"s": ""}
    assert decode_value(text, b"").values == {}
    assert encode(STRING, "x") == b"\x02\x0e\x0a\x01x", "StringValue is the eighth message of wrappers.proto"
    assert encode(INT, 0) == b"\x02\x08"
    proto = ProtobufFormat(DEFAULT_OPTIONS).describe(STRING).schema.text
    assert decode_value(proto, b"\x0a\x01x", message_indexes=b"\x02\x0e") == "x"


def test_fields_are_matched_by_name_with_the_latest_schema() -> None:
    record = struct("shop.Order", id=STRING, gone=INT)
    later_text = (
        f"{PROTO3}package shop; message Other {{}} message Order {{ int64 fresh = 1; string id = 5; }}"
    )
    assert encode(record, Struct(record, {"id": "a", "gone": 1}), later_text) == b"\x02\x02\x2a\x01a"
    renamed_text = f"{PROTO3}message Sale {{ string id = 5; }}"
    assert encode(record, Struct(record, {"id": "a"}), renamed_text) == b"\0\x2a\x01a", (
        "the first message is used"
    )


NESTED_TEXT = (
    f"{PROTO3}message A {{ message B {{ string s = 1; }} }} message C {{ int32 i = 1; string t = 2; }}"
)


def test_message_indexes_select_the_message() -> None:
    assert decode_value(NESTED_TEXT, b"\x0a\x01x", message_indexes=b"\x04\0\0").values == {"s": "x"}
    value = decode_value(NESTED_TEXT, b"\x08\x05", message_indexes=b"\x02\x02")
    assert (value.schema.name, value.values["i"]) == ("C", 5)


@pytest.mark.parametrize(
    ("message_indexes", "data", "message"),
    [
        (b"\x02\x06", b"", r"the message indexes \[3\] do not refer to a message"),
        (b"", b"", "it ends inside a number"),
        (b"\x01", b"", "invalid number of message indexes: -1"),
        (b"\x02\x02", b"\x08", "it ends inside a number"),
        (b"\x02\x02", b"\x08" + b"\xff" * 11, "more than ten bytes"),
        (b"\x02\x02", b"\x12\x05x", "expected 5 more bytes, got 1"),
        (b"\x02\x02", b"\x12\x01\xff", "the string field t is not valid UTF-8"),
        (b"\x02\x02", b"\x0f\x01", "unknown wire type 7"),
        (b"\x02\x02", b"\x5b\x08\x01", "it ends inside a number"),
        (b"\x02\x02", b"\x5b" * 200, "more than 100 levels deep"),
        (b"\x02\x02", b"\x00\x01", "invalid field number 0"),
    ],
)
def test_malformed_message_is_rejected(message_indexes: bytes, data: bytes, message: str) -> None:
    with pytest.raises(
        SerializationException, match=f"Protobuf value does not match its schema with ID 1: .*{message}"
    ):
        decode_value(NESTED_TEXT, data, message_indexes=message_indexes)


@pytest.mark.parametrize(
    ("schema", "value", "text", "message"),
    [
        (struct("M", a=INT), {"a": "x"}, None, "Invalid type for INT32: class java.lang.String"),
        (struct("M", a=INT), {"a": 2**31}, None, "2147483648 is out of range"),
        (
            struct("M", a=STRING),
            {"a": "x"},
            f"{PROTO3}message M {{ int32 a = 1; }}",
            r"field a \(int32\) cannot hold STRING",
        ),
        (
            struct("M", a=DECIMAL_SCHEMA),
            {"a": Decimal(1)},
            f"{PROTO3}message M {{ bytes a = 1; }}",
            "cannot hold BYTES org.apache",
        ),
        (
            struct("M", a=INT),
            {"a": 1},
            f"{PROTO3}message M {{ repeated int32 a = 1; }}",
            r"repeated int32\) cannot hold INT32",
        ),
        (
            struct("M", a=Schema(type=Type.ARRAY, value=OPTIONAL_STRING)),
            {"a": [None]},
            None,
            "repeated Protobuf field a cannot hold null",
        ),
    ],
)
def test_value_incompatible_with_message_is_rejected(
    schema: Schema, value: dict[str, Any], text: str | None, message: str
) -> None:
    with pytest.raises(DataException, match=message):
        encode(schema, Struct(schema, value), text)


def test_struct_with_another_schema_is_rejected() -> None:
    with pytest.raises(DataException, match="The struct's own schema differs"):
        encode(struct("M", a=INT), Struct(struct("M", a=LONG), {"a": 1}))


@pytest.mark.parametrize(
    ("schema", "data", "message"),
    [
        (DECIMAL_SCHEMA, b"\x0a\0", "Zero length BigInteger"),
        (Schema(type=Type.INT32, name=DATE), b"\x0a\x06\x08\xb2\x0f\x10\x02\x18", "truncated message"),
        (
            Schema(type=Type.INT32, name=DATE),
            b"\x0a\x07\x08\xb2\x0f\x10\x02\x18\x1e",
            "Invalid google.type.Date",
        ),
        (Schema(type=Type.INT32, name=TIME), b"\x0a\x02\x08\x18", "Invalid google.type.TimeOfDay"),
        (
            Schema(type=Type.INT64, name=TIMESTAMP),
            b"\x0a\x06\x10\x80\x94\xeb\xdc\x03",
            "timestamp of .* is out of range",
        ),
    ],
)
def test_invalid_logical_values_are_rejected(schema: Schema, data: bytes, message: str) -> None:
    registered_schema = ProtobufFormat(DEFAULT_OPTIONS).describe(struct("M", a=schema)).schema
    with pytest.raises((DataException, SerializationException), match=message):
        decode_value(registered_schema.text, data)


LONGS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32, allow_nan=False).map(float32)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "i": st.integers(-(2**31), 2**31 - 1),
        "l": LONGS,
        "f": FLOATS,
        "d": st.floats(allow_nan=False),
        "b": st.booleans(),
        "s": TEXTS,
        "y": st.binary(max_size=8),
        "n": st.decimals(
            allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9
        ),
        "t": st.integers(-62_135_596_800_000, 253_402_300_799_999).map(Instant),
        "c": st.integers(0, 86_399_999).map(Instant),
        "a": st.lists(LONGS, max_size=4),
        "m": st.dictionaries(TEXTS, LONGS, max_size=4),
    },
)
ANY_SCHEMA = struct(
    "Any",
    i=optional(INT),
    l=optional(LONG),
    f=optional(Schema(type=Type.FLOAT32)),
    d=optional(Schema(type=Type.FLOAT64)),
    b=optional(Schema(type=Type.BOOLEAN)),
    s=OPTIONAL_STRING,
    y=optional(Schema(type=Type.BYTES)),
    n=optional(DECIMAL_SCHEMA),
    t=optional(Schema(type=Type.INT64, name=TIMESTAMP, version=1)),
    c=optional(Schema(type=Type.INT32, name=TIME, version=1)),
    a=Schema(type=Type.ARRAY, value=LONG, optional=True),
    m=Schema(type=Type.MAP, key=STRING, value=LONG, optional=True),
)
FORMAT = ProtobufFormat(ProtobufOptions(optional_for_nullables=True))
ENCODE = FORMAT.encoder(ANY_SCHEMA, FORMAT.describe(ANY_SCHEMA).schema, {})
DECODE = FORMAT.decoder(FORMAT.describe(ANY_SCHEMA).schema, {}, lambda _: None)


@settings(max_examples=60)
@given(RECORDS)
def test_record_round_trip(values: dict[str, Any]) -> None:
    value = DECODE(b"\0\0\0\0\1" + ENCODE(Struct(ANY_SCHEMA, values)))[1]
    assert format_value(value.values) == format_value({"a": [], "m": {}, **values})


@settings(max_examples=100)
@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_decoded_or_rejected(data: bytes) -> None:
    with suppress(SerializationException, DataException):
        assert DECODE(b"\0\0\0\0\1" + data)[0] is not None

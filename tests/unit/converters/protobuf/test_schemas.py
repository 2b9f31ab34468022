"""Tests for .proto texts and their mapping to and from Connect schemas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraal.converters.protobuf.from_connect import to_proto
from kraal.converters.protobuf.link import LinkedFile, link
from kraal.converters.protobuf.model import ProtoInvalid, map_entry_name, map_field_name
from kraal.converters.protobuf.names import NAMESPACE, ProtobufOptions
from kraal.converters.protobuf.parse import parse_proto
from kraal.converters.protobuf.render import WRAPPERS_TEXT
from kraal.converters.protobuf.to_connect import connect_schema
from kraal.plugins.model.records import DATE, DECIMAL, TIME, TIMESTAMP, DataException
from kraal.plugins.model.schema import OPTIONAL_STRING, STRING, Field, Schema, Type
from tests.fakes.values.connect_schemas import optional, struct

DEFAULT_OPTIONS = ProtobufOptions()
INT, LONG = Schema(type=Type.INT32), Schema(type=Type.INT64)
DECIMAL_SCHEMA = Schema(
    type=Type.BYTES, name=DECIMAL, version=1, parameters={"scale": "2", "connect.decimal.precision": "7"}
)
TIMESTAMP_SCHEMA = Schema(type=Type.INT64, name=TIMESTAMP, version=1)
TAG, ENUM, UNION = f"{NAMESPACE}.Tag", f"{NAMESPACE}.Enum", f"{NAMESPACE}.Union"
SUIT_SCHEMA = Schema(
    type=Type.STRING, name="Suit", parameters={ENUM: "Suit", f"{ENUM}.CLUBS": "0", f"{ENUM}.HEARTS": "4"}
)


def tag_field(schema: Schema, number: int) -> Schema:
    return replace(schema, parameters={**schema.parameters, TAG: str(number)})


def link_text(text: str, **imports: str) -> LinkedFile:
    files = {name.replace("_", "/") + ".proto": parse_proto(proto) for name, proto in imports.items()}
    return link(parse_proto(text), files)


def read_schema(text: str, options: ProtobufOptions = DEFAULT_OPTIONS, index: int = 0) -> Schema:
    return connect_schema(link_text(text).message_at([index]), options, None)


def get_fields(schema: Schema) -> dict[str, Schema]:
    return {field.name: field.schema for field in schema.fields}


WIDE_SCHEMA = struct(
    "a.b.Wide",
    tiny=Schema(type=Type.INT8),
    price=DECIMAL_SCHEMA,
    at=optional(TIMESTAMP_SCHEMA),
    day=Schema(type=Type.INT32, name=DATE, version=1),
    noon=Schema(type=Type.INT32, name=TIME, version=1),
    many=Schema(type=Type.ARRAY, value=struct("x.Inner", z=LONG)),
    one=struct("x.Inner", z=LONG),
    counts=Schema(type=Type.MAP, name="my_map", key=STRING, value=INT),
    suit=SUIT_SCHEMA,
    kind=Schema(
        type=Type.STRUCT,
        name=f"{UNION}.kind",
        optional=True,
        fields=(
            Field(name="text", schema=tag_field(OPTIONAL_STRING, 20)),
            Field(name="number", schema=tag_field(optional(INT), 21)),
        ),
    ),
)
WIDE_TEXT = """\
syntax = "proto3";
package a.b;

import "confluent/type/decimal.proto";
import "google/protobuf/timestamp.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";

message Wide {
  int32 tiny = 1 [(confluent.field_meta) = {
    params: [
      {
        key: "connect.type",
        value: "int8"
      }
    ]
  }];
  confluent.type.Decimal price = 2 [(confluent.field_meta) = {
    params: [
      {
        value: "7",
        key: "precision"
      },
      {
        value: "2",
        key: "scale"
      }
    ]
  }];
  google.protobuf.Timestamp at = 3;
  google.type.Date day = 4;
  google.type.TimeOfDay noon = 5;
  repeated Inner many = 6;
  Inner one = 7;
  repeated MyMapEntry counts = 8;
  Suit suit = 9;

  oneof kind {
    string text = 20;
    int32 number = 21;
  }

  message Inner {
    int64 z = 1;
  }
  message MyMapEntry {
    string key = 1;
    int32 value = 2;
  }
  enum Suit {
    CLUBS = 0;
    HEARTS = 4;
  }
}
"""


def test_record_schema_matches_confluent_serializer() -> None:
    assert to_proto(WIDE_SCHEMA, DEFAULT_OPTIONS) == (WIDE_TEXT, "a.b.Wide")


def test_schema_round_trip() -> None:
    schema = read_schema(WIDE_TEXT)
    fields = get_fields(schema)
    assert (schema.name, list(fields)) == (
        "Wide",
        ["kind_0", "tiny", "price", "at", "day", "noon", "many", "one", "counts", "suit"],
    )
    assert fields["price"] == optional(tag_field(DECIMAL_SCHEMA, 2))
    assert fields["at"] == optional(tag_field(TIMESTAMP_SCHEMA, 3))
    assert (fields["tiny"].type, fields["counts"].name) == (Type.INT8, "my_map")
    assert fields["suit"] == optional(tag_field(SUIT_SCHEMA, 9))
    assert fields["kind_0"] == WIDE_SCHEMA.fields[-1].schema
    inner = struct("Inner", z=optional(tag_field(LONG, 1)))
    assert fields["many"] == Schema(
        type=Type.ARRAY, value=optional(inner), optional=True, parameters={TAG: "6"}
    )


def test_rendering_a_read_schema_returns_the_same_message() -> None:
    rendered_text, name = to_proto(
        read_schema(WIDE_TEXT, ProtobufOptions(index_for_unions=False, enhanced=True)), DEFAULT_OPTIONS
    )
    assert name == "a.b.Wide"
    assert {line.strip() for line in rendered_text.splitlines()} == {
        line.strip() for line in WIDE_TEXT.splitlines()
    }


def test_primitive_schema_becomes_a_wrapper_message() -> None:
    wrappers = link_text(WRAPPERS_TEXT)
    for schema_type, name, index in (
        (Type.INT16, "Int32Value", 4),
        (Type.STRING, "StringValue", 7),
        (Type.FLOAT64, "DoubleValue", 0),
    ):
        text, full_name = to_proto(Schema(type=schema_type), DEFAULT_OPTIONS)
        assert (text, full_name) == (WRAPPERS_TEXT, f"google.protobuf.{name}")
        assert wrappers.find_path(full_name) == [index]
    assert connect_schema(wrappers.message_at([7]), DEFAULT_OPTIONS, 3) == replace(STRING, version=3)
    raw_schema = connect_schema(wrappers.message_at([7]), ProtobufOptions(wrapper_for_raw=False), None)
    assert (raw_schema.type, raw_schema.name) == (Type.STRUCT, "StringValue")


def test_optional_field_uses_label_or_wrapper_as_configured() -> None:
    schema = struct("R", a=OPTIONAL_STRING, b=INT, c=optional(LONG))
    label_options, wrapper_options = (
        ProtobufOptions(optional_for_nullables=True),
        ProtobufOptions(wrapper_for_nullables=True),
    )
    assert (
        "  optional string a = 1;\n  int32 b = 2;\n  optional int64 c = 3;\n"
        in to_proto(schema, label_options)[0]
    )
    text = to_proto(schema, wrapper_options)[0]
    assert 'import "google/protobuf/wrappers.proto";\n' in text
    assert (
        "  google.protobuf.StringValue a = 1;\n  int32 b = 2;\n  google.protobuf.Int64Value c = 3;\n" in text
    )
    for options in (label_options, wrapper_options):
        fields = get_fields(read_schema(to_proto(schema, options)[0], options))
        assert [(field.type, field.optional) for field in fields.values()] == [
            (Type.STRING, True),
            (Type.INT32, False),
            (Type.INT64, True),
        ]
    assert all(
        field.optional for field in get_fields(read_schema(to_proto(schema, DEFAULT_OPTIONS)[0])).values()
    )


ONEOF_TEXT = """syntax = "proto3"; package p;
message M { oneof k { string s = 1; int32 i = 2; } enum E { A = 0; B = 1; } E e = 3; }"""


@pytest.mark.parametrize(
    ("options", "names", "union", "enum"),
    [
        (DEFAULT_OPTIONS, ["k_0", "e"], f"{UNION}.k", (Type.STRING, "E")),
        (ProtobufOptions(index_for_unions=False), ["k", "e"], f"{UNION}.k", (Type.STRING, "E")),
        (ProtobufOptions(enhanced=True), ["k_0", "e"], f"{UNION}.p.M.k", (Type.STRING, "p.M.E")),
        (ProtobufOptions(flatten_unions=True), ["s", "i", "e"], None, (Type.STRING, "E")),
        (ProtobufOptions(int_for_enums=True), ["k_0", "e"], f"{UNION}.k", (Type.INT32, "E")),
    ],
)
def test_names_of_unions_and_enums_follow_the_config(
    options: ProtobufOptions, names: list[str], union: str | None, enum: tuple[Type, str]
) -> None:
    fields = get_fields(read_schema(ONEOF_TEXT, options))
    assert list(fields) == names
    assert fields[names[0]].name == union
    assert (fields["e"].type, fields["e"].name) == enum
    assert fields["e"].parameters == {ENUM: "E", f"{ENUM}.A": "0", f"{ENUM}.B": "1", TAG: "3"}


def test_integer_kind_is_a_schema_parameter() -> None:
    kinds = [
        "int32",
        "sint32",
        "sfixed32",
        "uint32",
        "fixed32",
        "int64",
        "uint64",
        "sint64",
        "fixed64",
        "sfixed64",
    ]
    text = (
        'syntax = "proto3"; message M {'
        + "".join(f"{kind} f{index} = {index + 1};" for index, kind in enumerate(kinds))
        + "}"
    )
    kinds_schema = read_schema(text)
    assert [field.schema.type for field in kinds_schema.fields] == [Type.INT32] * 3 + [Type.INT64] * 7
    assert [field.schema.parameters.get(f"{NAMESPACE}.Type", "") for field in kinds_schema.fields] == [
        "" if kind in {"int32", "int64"} else kind for kind in kinds
    ]
    message = link_text(to_proto(kinds_schema, DEFAULT_OPTIONS)[0]).message_at([0])
    assert [field.kind for field in message.fields] == kinds


def test_invalid_protobuf_names_are_rejected_or_replaced() -> None:
    schema = struct("org.a-b", **{"1 x\u00e9": INT, "_y": INT})
    with pytest.raises(DataException, match=r"Invalid Protobuf name 'a-b'.*scrub.invalid.names"):
        to_proto(schema, DEFAULT_OPTIONS)
    text, name = to_proto(schema, ProtobufOptions(scrub_names=True))
    assert name == "org.a_b"
    assert "int32 x1_x_C3_A9 = 1;\n  int32 x_y = 2;" in text


def test_unnamed_records_and_maps_get_numbered_names() -> None:
    schema = struct(None, inner=struct(None, x=INT), m=Schema(type=Type.MAP, key=STRING, value=INT))
    text, name = to_proto(schema, DEFAULT_OPTIONS)
    assert name == "ConnectDefault1"
    assert "ConnectDefault2 inner = 1;\n  repeated ConnectDefault3Entry m = 2;" in text
    inner = struct("R", r=struct("r", x=INT))
    assert "rMessage r = 1;" in to_proto(inner, DEFAULT_OPTIONS)[0]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, "Protobuf requires a schema"),
        (Schema(type=Type.ARRAY, value=INT), "A schema of type ARRAY has no Protobuf message"),
        (TIMESTAMP_SCHEMA, "Timestamp cannot be a top-level value in Protobuf"),
        (
            struct("R", a=Schema(type=Type.ARRAY, value=Schema(type=Type.ARRAY, value=INT))),
            "field a is an array of arrays",
        ),
        (
            struct("R", u=Schema(type=Type.STRUCT, name=f"{UNION}.u", fields=(Field(name="a", schema=INT),))),
            "Invalid number 0 of the field a",
        ),
    ],
)
def test_unsupported_schemas_are_rejected(schema: Schema | None, message: str) -> None:
    with pytest.raises(DataException, match=message):
        to_proto(schema, DEFAULT_OPTIONS)


def test_map_entry_names_match_guava() -> None:
    for field, entry in (("my_map", "MyMapEntry"), ("counts", "countsEntry"), ("a_b2_c", "AB2CEntry")):
        assert map_entry_name(field) == entry
    for entry, field in (
        ("MyMapEntry", "my_map"),
        ("p.ConnectDefault2Entry", "p.connect_default2"),
        ("Other", "Other"),
    ):
        assert map_field_name(entry) == field


# --- foreign .proto texts ---------------------------------------------------------------------------------------

FOREIGN_TEXT = r"""
/* a comment
   over lines */
syntax = "proto2";
package shop . v1;
import "google/protobuf/timestamp.proto"; import public "other.proto";
option java_package = "com.x";  // and one at the end
option (my.file_option) = { a: 1 b: [1, 2], c { d: "x" "y" } [my.ext]: <e: true> };
extend google.protobuf.FieldOptions { optional string note = 50001; }
message Order {
  extensions 100 to 199 [verification = UNVERIFIED];
  reserved 5, 7 to 9, 1000 to max; reserved "old";
  option deprecated = true;
  required string id = 1 [(note) = "a;]}", deprecated = true];
  optional int32 count = 0x2 [default = -5];
  optional Suit suit = 3 [default = HEARTS];
  repeated .shop.v1.Order.Line lines = 4;
  map<string, Line> by_name = 6;
  optional group Result = 10 { required string url = 11; }
  oneof pay { option (x) = 1; string card = 12; bytes raw = 13 [default = "\001\xfe\n"]; }
  optional google.protobuf.Timestamp at = 14;
  repeated double packed = 15 [packed = true];
  optional string message = 16;
  message Line { optional Suit suit = 1; extend Order { optional int32 e = 100; } }
  enum Suit { option allow_alias = true; CLUBS = 1; HEARTS = 2 [deprecated = true]; TREFLES = 1; reserved 9; };
}
service Shop { rpc Get (Order) returns (stream Order) { option (y) = { z: "}" }; } }
"""


def test_foreign_schema_is_read() -> None:
    message = link_text(FOREIGN_TEXT).message_at([0])
    fields = {field.name: field for field in message.fields}
    assert (message.full_name, message.oneofs) == ("shop.v1.Order", ["pay"])
    assert fields["id"].is_required
    assert (fields["count"].number, fields["count"].default) == (2, -5)
    assert fields["suit"].enum is not None
    assert (fields["suit"].default, fields["suit"].enum.symbol(1)) == (2, "CLUBS")
    assert fields["lines"].inner.full_name == "shop.v1.Order.Line"
    assert fields["by_name"].inner.is_map_entry
    assert (fields["card"].oneof, fields["raw"].default) == ("pay", b"\x01\xfe\n")
    assert (fields["packed"].is_packed, fields["message"].kind) == (True, "string")
    assert "Result" not in fields, "groups are skipped, as in Java's converter"
    schema = connect_schema(message, DEFAULT_OPTIONS, None)
    assert get_fields(schema)["by_name"].type is Type.MAP


def test_message_indexes_follow_declaration_order() -> None:
    text = """syntax = "proto3"; message A { map<string, int32> m = 1; message B {} message C { message D {} } }
              enum E { X = 0; } message F {}"""
    file = link_text(text)
    for path, name in (([0], "A"), ([1], "F"), ([0, 0], "A.B"), ([0, 1, 0], "A.C.D")):
        assert file.message_at(path).full_name == name
        assert file.find_path(name) == path
    assert file.find_path("A.MEntry") is None, "map entries have no index"
    for path in ([2], [0, 2], [-1]):
        with pytest.raises(ProtoInvalid, match="do not refer to a message"):
            file.message_at(path)


def test_type_names_are_resolved_from_innermost_scope_and_imports() -> None:
    text = """syntax = "proto3"; package a.b; import "c.proto";
              message M { message T {} T one = 1; b.T two = 2; c.T three = 3; }"""
    first_import = 'syntax = "proto3"; package a.b; message T {}'
    second_import = 'syntax = "proto3"; package a.c; message T {}'
    message = link_text(text, c=second_import, d=first_import).message_at([0])
    assert [field.inner.full_name for field in message.fields] == ["a.b.M.T", "a.b.T", "a.c.T"]
    reexporting_file = link_text('syntax = "proto3"; import public "c.proto";', c=second_import)
    assert reexporting_file.message_at([0]).full_name == "a.c.T"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('syntax = "proto3"; message M { Missing m = 1; }', "unknown type 'Missing'"),
        ('syntax = "proto3";\nmessage M {\n  int32 a 1;\n}', r"line 3: expected '=', got '1'"),
        ('syntax = "proto3"; message M { int32 a = 0; }', "invalid field number 0"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "the same number or name"),
        ('syntax = "proto3"; message M { map<double, int32> m = 1; }', "invalid key type 'double' of a map"),
        ('edition = "2023"; message M {}', "expected proto2 or proto3"),
        ('syntax = "proto3"; message M {', "unexpected end of text"),
        ('syntax = "proto3"; enum E {}', "the enum E has no values"),
        ('syntax = "proto3"; message M { optional int32 a = x; }', "expected an integer, got 'x'"),
        ('{"type": "record"}', "unexpected|expected"),
        ("@", "unexpected character '@'"),
        ('syntax = "proto3"; ' + "message M { " * 200, "more than 100 levels deep"),
    ],
)
def test_invalid_proto_text_is_rejected(text: str, message: str) -> None:
    with pytest.raises(ProtoInvalid, match=message):
        link_text(text)


def test_recursive_message_is_rejected() -> None:
    for text in (
        'syntax = "proto3"; message L { L next = 1; }',
        'syntax = "proto3"; import "google/protobuf/struct.proto"; message M { google.protobuf.Struct any = 1; }',
    ):
        with pytest.raises(DataException, match="contains itself"):
            read_schema(text)


def test_only_required_proto2_fields_are_not_optional() -> None:
    text = "message M { optional int32 a = 1; required int32 b = 2; repeated int32 c = 3; }"
    options_with_labels: Any = ProtobufOptions(optional_for_nullables=True)
    fields = get_fields(read_schema(text, options_with_labels))
    assert [fields[name].optional for name in "abc"] == [True, False, True]

"""Files that every schema can import although the files are not in the registry.

The files declare the same messages as the files of the same names in protobuf and googleapis, but have no comments or
options.
`google/protobuf/descriptor.proto` and `confluent/meta.proto` are used only in options and are empty here.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from kraal.converters.protobuf.model import ProtoFile
from kraal.converters.protobuf.parse import parse_proto

_GOOGLE_PROTOBUF_HEADER: Final = 'syntax = "proto3"; package google.protobuf; '
_GOOGLE_TYPE_HEADER: Final = 'syntax = "proto3"; package google.type; '
_CONFLUENT_TYPE_HEADER: Final = 'syntax = "proto3"; package confluent.type; '
_WRAPPED_TYPES: Final = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")

WRAPPERS: Final = {f"google.protobuf.{name}Value": name.lower() for name in _WRAPPED_TYPES}
"""Types of the wrapped scalars by the full name of the wrapper message."""
DECIMAL_TYPE: Final = "confluent.type.Decimal"
DATE_TYPE: Final = "google.type.Date"
TIME_TYPE: Final = "google.type.TimeOfDay"
TIMESTAMP_TYPE: Final = "google.protobuf.Timestamp"
WRAPPERS_FILE: Final = "google/protobuf/wrappers.proto"

FILES_BY_TYPE: Final = {
    DECIMAL_TYPE: "confluent/type/decimal.proto",
    DATE_TYPE: "google/type/date.proto",
    TIME_TYPE: "google/type/timeofday.proto",
    TIMESTAMP_TYPE: "google/protobuf/timestamp.proto",
    **dict.fromkeys(WRAPPERS, WRAPPERS_FILE),
}
"""Import names of the files that declare the types to which Connect schemas are mapped, by type."""

_TEXTS: Final = {
    "confluent/meta.proto": 'syntax = "proto3"; package confluent;',
    "confluent/type/decimal.proto": _CONFLUENT_TYPE_HEADER
    + "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    "confluent/type/variant.proto": _CONFLUENT_TYPE_HEADER
    + "message Variant { bytes metadata = 1; bytes value = 2; }",
    "google/protobuf/any.proto": _GOOGLE_PROTOBUF_HEADER
    + "message Any { string type_url = 1; bytes value = 2; }",
    "google/protobuf/descriptor.proto": 'syntax = "proto2"; package google.protobuf;',
    "google/protobuf/duration.proto": _GOOGLE_PROTOBUF_HEADER
    + "message Duration { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/empty.proto": _GOOGLE_PROTOBUF_HEADER + "message Empty {}",
    "google/protobuf/field_mask.proto": _GOOGLE_PROTOBUF_HEADER
    + "message FieldMask { repeated string paths = 1; }",
    "google/protobuf/source_context.proto": _GOOGLE_PROTOBUF_HEADER
    + "message SourceContext { string file_name = 1; }",
    "google/protobuf/struct.proto": _GOOGLE_PROTOBUF_HEADER
    + "message Struct { map<string, Value> fields = 1; } "
    + "message Value { oneof kind { NullValue null_value = 1; double number_value = 2; string string_value = 3; "
    + "bool bool_value = 4; Struct struct_value = 5; ListValue list_value = 6; } } "
    + "enum NullValue { NULL_VALUE = 0; } message ListValue { repeated Value values = 1; }",
    "google/protobuf/timestamp.proto": _GOOGLE_PROTOBUF_HEADER
    + "message Timestamp { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/wrappers.proto": _GOOGLE_PROTOBUF_HEADER
    + " ".join(f"message {name}Value {{ {name.lower()} value = 1; }}" for name in _WRAPPED_TYPES),
    "google/type/calendar_period.proto": _GOOGLE_TYPE_HEADER
    + "enum CalendarPeriod { CALENDAR_PERIOD_UNSPECIFIED = 0; DAY = 1; WEEK = 2; FORTNIGHT = 3; MONTH = 4; "
    + "QUARTER = 5; HALF = 6; YEAR = 7; }",
    "google/type/color.proto": _GOOGLE_TYPE_HEADER
    + "message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }",
    "google/type/date.proto": _GOOGLE_TYPE_HEADER
    + "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "google/type/datetime.proto": _GOOGLE_TYPE_HEADER
    + "message DateTime { int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5; "
    + "int32 seconds = 6; int32 nanos = 7; oneof time_offset { google.protobuf.Duration utc_offset = 8; "
    + "TimeZone time_zone = 9; } } message TimeZone { string id = 1; string version = 2; }",
    "google/type/dayofweek.proto": _GOOGLE_TYPE_HEADER
    + "enum DayOfWeek { DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4; "
    + "FRIDAY = 5; SATURDAY = 6; SUNDAY = 7; }",
    "google/type/decimal.proto": _GOOGLE_TYPE_HEADER + "message Decimal { string value = 1; }",
    "google/type/expr.proto": _GOOGLE_TYPE_HEADER
    + "message Expr { string expression = 1; string title = 2; string description = 3; string location = 4; }",
    "google/type/fraction.proto": _GOOGLE_TYPE_HEADER
    + "message Fraction { int64 numerator = 1; int64 denominator = 2; }",
    "google/type/interval.proto": _GOOGLE_TYPE_HEADER
    + "message Interval { google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }",
    "google/type/latlng.proto": _GOOGLE_TYPE_HEADER
    + "message LatLng { double latitude = 1; double longitude = 2; }",
    "google/type/money.proto": _GOOGLE_TYPE_HEADER
    + "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "google/type/month.proto": _GOOGLE_TYPE_HEADER
    + "enum Month { MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2; MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6; "
    + "JULY = 7; AUGUST = 8; SEPTEMBER = 9; OCTOBER = 10; NOVEMBER = 11; DECEMBER = 12; }",
    "google/type/phone_number.proto": _GOOGLE_TYPE_HEADER
    + "message PhoneNumber { message ShortCode { string region_code = 1; string number = 2; } "
    + "oneof kind { string e164_number = 1; ShortCode short_code = 2; } string extension = 3; }",
    "google/type/postal_address.proto": _GOOGLE_TYPE_HEADER
    + "message PostalAddress { int32 revision = 1; string region_code = 2; string language_code = 3; "
    + "string postal_code = 4; string sorting_code = 5; string administrative_area = 6; string locality = 7; "
    + "string sublocality = 8; repeated string address_lines = 9; repeated string recipients = 10; "
    + "string organization = 11; }",
    "google/type/quaternion.proto": _GOOGLE_TYPE_HEADER
    + "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",
    "google/type/timeofday.proto": _GOOGLE_TYPE_HEADER
    + "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
}


@cache
def load_known_files() -> dict[str, ProtoFile]:
    """Return the files by import name."""
    return {name: parse_proto(text) for name, text in _TEXTS.items()}

"""Converts Protobuf messages to Connect values.

A message type and its Connect schema are compiled to functions once.
Implements https://docs.confluent.io/platform/current/schema-registry/connect.html. Dates, times and decimals behave as
in java.time and java.math.BigDecimal.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

from kraal.converters.protobuf.link import FieldType, MessageType
from kraal.converters.protobuf.names import ProtobufOptions
from kraal.converters.protobuf.to_connect import make_union_field_name
from kraal.converters.protobuf.well_known import WRAPPERS
from kraal.converters.protobuf.wire import MalformedMessage, Raw
from kraal.plugins.model.records import DATE, DECIMAL, TIME, TIMESTAMP, DataException, Instant, Struct
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.java_time import MS_PER_DAY, from_epoch_day, to_epoch_day
from kraal.plugins.values.logical import narrow, unscaled_decimal
from kraal.plugins.values.map_keys import as_key

Convert = Callable[[Any], Any]
"""Converts a raw value to a Connect value. Raises MalformedMessage and DataException."""

_TIMESTAMP_SECONDS_RANGE: Final = (-62_135_596_800, 253_402_300_799)
_NANOS_PER_MS: Final = 1_000_000
_NANOS_PER_SECOND: Final = 1_000_000_000
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32}


class ProtobufReader:
    """Compiles message types to conversion functions, with the options of a converter."""

    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options

    def compile_root(self, message: MessageType, schema: Schema) -> Convert:
        """Return a function that converts a top-level message."""
        if schema.type is Type.STRUCT:
            return self._compile_struct(message, schema)
        return self._compile_wrapper(message, schema)

    def _compile_struct(self, message: MessageType, schema: Schema) -> Convert:
        schemas = {field.name: field.schema for field in schema.fields}
        required_names = [field.name for field in message.fields if field.is_required]
        fields: list[tuple[str, str, Convert, Any, bool]] = []
        unions: list[tuple[str, Schema, list[tuple[str, Convert]]]] = []
        for oneof in message.oneofs:
            members = [field for field in message.fields if field.oneof == oneof]
            if members and not self._options.flatten_unions:
                name = make_union_field_name(message, oneof, self._options)
                member_schemas = {field.name: field.schema for field in schemas[name].fields}
                unions.append(
                    (
                        name,
                        schemas[name],
                        [
                            (member.name, self._compile_field(member, member_schemas[member.name]))
                            for member in members
                        ],
                    )
                )
        for field in message.fields:
            if field.oneof is None or self._options.flatten_unions:
                default, is_null = self._get_absent_value(field)
                fields.append(
                    (
                        field.name,
                        field.name,
                        self._compile_field(field, schemas[field.name]),
                        default,
                        is_null,
                    )
                )

        def convert(raw: Raw) -> Struct:
            for name in required_names:
                if name not in raw:
                    raise MalformedMessage(f"the required field {name} is missing")
            values: dict[str, Any] = {}
            for name, union, parts in unions:
                for member, convert_field in parts:
                    if member in raw:
                        values[name] = Struct(union, {member: convert_field(raw[member])})
            for name, field_name, convert_field, default, is_null in fields:
                value = raw.get(field_name)
                if value is not None:
                    values[name] = convert_field(value)
                elif not is_null:
                    values[name] = convert_field(default)
            return Struct(schema, values)

        return convert

    def _get_absent_value(self, field: FieldType) -> tuple[Any, bool]:
        """Return the raw value of an absent field, and whether to use null instead."""
        if field.is_repeated:
            return [], False
        value: Any = {} if field.kind == "message" else field.default
        is_optional = field.has_optional_label and field.oneof is None
        is_null = field.kind == "message" or field.oneof is not None
        is_null = is_null or (is_optional and (field.is_proto3 or self._options.optional_for_proto2))
        return value, is_null and not (self._options.struct_for_nulls and field.oneof is None)

    def _compile_field(self, field: FieldType, schema: Schema) -> Convert:
        if schema.type is Type.MAP:
            return self._compile_map(field.inner, schema)
        if field.is_repeated:
            convert_item = self._compile_value(field, _make_required(schema.value))
            return lambda values: [convert_item(value) for value in values]
        return self._compile_value(field, schema)

    def _compile_value(self, field: FieldType, schema: Schema) -> Convert:
        if field.enum is not None:
            if schema.type is Type.INT32:
                return _identity
            names = {number: name for name, number in reversed(field.enum.values)}
            unknown_prefix = f"UNKNOWN_ENUM_VALUE_{field.enum.name}_"
            return lambda number: names.get(number) or f"{unknown_prefix}{number}"
        if field.message is not None:
            if schema.name in _LOGICAL_READERS and schema.type is not Type.STRUCT:
                return _LOGICAL_READERS[schema.name]
            if schema.type is not Type.STRUCT:
                return self._compile_wrapper(field.message, schema)
            return self._compile_struct(field.message, schema)
        bits = _BITS.get(schema.type)
        return _identity if bits is None else lambda value: narrow(value, bits)

    def _compile_wrapper(self, message: MessageType, schema: Schema) -> Convert:
        field = message.fields[0]
        assert message.full_name in WRAPPERS  # noqa: S101 - no other message has the schema of a scalar
        convert_value = self._compile_value(field, schema)
        return lambda raw: convert_value(raw.get("value", field.default))

    def _compile_map(self, entry: MessageType, schema: Schema) -> Convert:
        key, value = entry.fields
        convert_key = self._compile_field(key, _make_required(schema.key))
        convert_value = self._compile_field(value, _make_required(schema.value))
        default_key = {} if key.kind == "message" else key.default
        default_value = {} if value.kind == "message" else value.default

        def convert(entries: list[Raw]) -> dict[Any, Any]:
            return {
                as_key(convert_key(entry.get("key", default_key))): convert_value(
                    entry.get("value", default_value)
                )
                for entry in entries
            }

        return convert


def _make_required(schema: Schema | None) -> Schema:
    assert schema is not None  # noqa: S101 - arrays and maps have schemas for their items
    return schema


def _identity(value: Any) -> Any:
    return value


def _read_decimal(raw: Raw) -> Decimal:
    try:
        number = unscaled_decimal(raw.get("value", b""), int(raw.get("scale", 0)))
    except ValueError as exc:
        raise DataException(f"Invalid bytes for Decimal field: {exc}") from exc
    precision = raw.get("precision", 0)
    if not 0 < precision < len(number.as_tuple().digits):
        return number
    return Context(prec=precision, rounding=ROUND_HALF_UP, Emin=-(10**12), Emax=10**12).plus(number)


def _read_date(raw: Raw) -> Instant:
    year, month, day = (int(raw.get(name, 0)) for name in ("year", "month", "day"))
    days = to_epoch_day(year, month, day)
    if year < 1 or from_epoch_day(days) != (year, month, day):
        raise DataException(
            f"Invalid google.type.Date: year {year}, month {month}, day {day}; expected a date of the calendar"
        )
    return Instant(days * MS_PER_DAY)


def _read_time(raw: Raw) -> Instant:
    hours, minutes, seconds, nanos = (
        int(raw.get(name, 0)) for name in ("hours", "minutes", "seconds", "nanos")
    )
    if not (0 <= hours < 24 and 0 <= minutes < 60 and 0 <= seconds < 60 and 0 <= nanos < _NANOS_PER_SECOND):  # noqa: PLR2004
        raise DataException(
            f"Invalid google.type.TimeOfDay: hours {hours}, minutes {minutes}, seconds {seconds}, nanos {nanos}"
        )
    return Instant(((hours * 60 + minutes) * 60 + seconds) * 1000 + nanos // _NANOS_PER_MS)


def _read_timestamp(raw: Raw) -> Instant:
    seconds, nanos = int(raw.get("seconds", 0)), int(raw.get("nanos", 0))
    if not (
        _TIMESTAMP_SECONDS_RANGE[0] <= seconds <= _TIMESTAMP_SECONDS_RANGE[1]
        and 0 <= nanos < _NANOS_PER_SECOND
    ):
        raise DataException(
            f"The timestamp of {seconds} s and {nanos} ns is out of range; expected the years 1 to 9999 and 0 to "
            f"{_NANOS_PER_SECOND - 1} ns"
        )
    return Instant(seconds * 1000 + nanos // _NANOS_PER_MS)


_LOGICAL_READERS: Final[dict[str | None, Convert]] = {
    DECIMAL: _read_decimal,
    DATE: _read_date,
    TIME: _read_time,
    TIMESTAMP: _read_timestamp,
}

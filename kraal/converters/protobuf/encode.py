"""Encodes scalars to Protobuf, and converts values of logical types to messages.

Source: https://protobuf.dev/programming-guides/encoding. Implements
https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from kraal.converters.protobuf.link import FieldType
from kraal.converters.protobuf.well_known import DATE_TYPE, DECIMAL_TYPE, TIME_TYPE, TIMESTAMP_TYPE
from kraal.converters.protobuf.wire import FIXED, encode_zigzag, put_varint
from kraal.plugins.model.records import DATE, DECIMAL, TIME, TIMESTAMP, DataException, Instant
from kraal.plugins.values.java_time import MS_PER_DAY, from_epoch_day, split_timestamp
from kraal.plugins.values.java_values import float32
from kraal.plugins.values.logical import date_days, decimal_parts, signed_bytes, time_ms

Put = Callable[[Any, bytearray], None]
"""Appends the bytes of a value. Raises DataException."""
GetFields = Callable[[Any], dict[str, Any]]
"""Returns the fields of the message for a value of a logical type."""

_TIMESTAMP_SECONDS_RANGE: Final = (-62_135_596_800, 253_402_300_799)
_NANOS_PER_MS: Final = 1_000_000

_LIMITS: Final = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "sint32": (-(1 << 31), (1 << 31) - 1),
    "sfixed32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (-(1 << 31), (1 << 32) - 1),
    "fixed32": (-(1 << 31), (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "sint64": (-(1 << 63), (1 << 63) - 1),
    "sfixed64": (-(1 << 63), (1 << 63) - 1),
    "uint64": (-(1 << 63), (1 << 63) - 1),
    "fixed64": (-(1 << 63), (1 << 63) - 1),
}
"""Ranges of values. Java's signed types also represent unsigned values, with the upper half as negative numbers."""


def get_integer_encoder(field: FieldType) -> Put:
    """Return a function that encodes integers without a tag."""
    low, high = _LIMITS[field.kind]
    fixed_layout = FIXED.get(field.kind)
    # A negative int32 is written with 64 bits.
    bits = 64 if field.kind in {"int32", "int64", "uint64"} else 32
    mask = (1 << bits) - 1
    uses_zigzag = field.kind.startswith("sint")

    def write(value: Any, out: bytearray) -> None:
        if not low <= value <= high:
            raise DataException(f"{value} is out of range in field {field.name}; expected {low} to {high}")
        if fixed_layout is not None:
            out += fixed_layout.pack(value & mask if field.kind == "fixed32" else value)
        else:
            put_varint(encode_zigzag(value) if uses_zigzag else value & mask, out)

    return write


def _put_float(value: Any, out: bytearray) -> None:
    out += FIXED["float"].pack(float32(value))


def _put_double(value: Any, out: bytearray) -> None:
    out += FIXED["double"].pack(value)


def _put_bool(value: Any, out: bytearray) -> None:
    out.append(1 if value else 0)


def _put_bytes(value: Any, out: bytearray) -> None:
    put_varint(len(value), out)
    out += value


def _put_string(value: Any, out: bytearray) -> None:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        data = value.encode("utf-8", "replace")  # unpaired surrogates
    _put_bytes(data, out)


def _put_enum_number(value: Any, out: bytearray) -> None:
    put_varint(value & ((1 << 64) - 1), out)


SCALAR_ENCODERS: Final[dict[str, Put]] = {
    "float": _put_float,
    "double": _put_double,
    "bool": _put_bool,
    "string": _put_string,
    "bytes": _put_bytes,
    "enum": _put_enum_number,
}


def _decimal_fields(value: Decimal) -> dict[str, Any]:
    unscaled_value, scale = decimal_parts(value)
    return {"value": signed_bytes(unscaled_value), "precision": len(str(abs(unscaled_value))), "scale": scale}


def _date_fields(value: Instant) -> dict[str, Any]:
    year, month, day = from_epoch_day(date_days(value))
    return {"year": year, "month": month, "day": day}


def _time_fields(value: Instant) -> dict[str, Any]:
    _, hours, minutes, seconds, ms = split_timestamp(time_ms(value) % MS_PER_DAY)
    return {"hours": hours, "minutes": minutes, "seconds": seconds, "nanos": ms * _NANOS_PER_MS}


def _timestamp_fields(value: Instant) -> dict[str, Any]:
    seconds, ms = divmod(value.ms, 1000)
    if not _TIMESTAMP_SECONDS_RANGE[0] <= seconds <= _TIMESTAMP_SECONDS_RANGE[1]:
        raise DataException(f"The timestamp {value.ms} ms is out of range; expected the years 1 to 9999")
    return {"seconds": seconds, "nanos": ms * _NANOS_PER_MS}


LOGICAL_TYPES: Final[dict[str | None, tuple[str, GetFields]]] = {
    DECIMAL: (DECIMAL_TYPE, _decimal_fields),
    DATE: (DATE_TYPE, _date_fields),
    TIME: (TIME_TYPE, _time_fields),
    TIMESTAMP: (TIMESTAMP_TYPE, _timestamp_fields),
}

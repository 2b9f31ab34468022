"""Conversion of logical values to and from their base types. Source: Decimal, Date, Time, Timestamp (Kafka 4.3.0)."""

from __future__ import annotations

from decimal import Decimal

from kraal.plugins.model.records import DataException, Instant
from kraal.plugins.model.schema import Schema
from kraal.plugins.values.java_time import MS_PER_DAY


def narrow(value: int, bits: int) -> int:
    """Truncate an integer to its lowest bits, as Java's casts do."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def get_scale(schema: Schema) -> int:
    """Return the scale in the schema of a Decimal. Raises DataException."""
    text = schema.parameters.get("scale")
    if text is None:
        raise DataException("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError as exc:
        raise DataException("Invalid scale parameter found in Decimal schema: ") from exc


def decimal_parts(value: Decimal) -> tuple[int, int]:
    """Return the unscaled value and the scale of a finite decimal."""
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits)) or "0")
    return (-unscaled if sign else unscaled), -int(exponent)


def decimal_bytes(schema: Schema, value: Decimal) -> bytes:
    """Encode the unscaled value in the fewest big-endian bytes. Raises DataException if the scales differ."""
    schema_scale = get_scale(schema)
    unscaled, scale = decimal_parts(value)
    if scale != schema_scale:
        raise DataException(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {schema_scale}, value has scale {scale}."
        )
    return signed_bytes(unscaled)


def signed_bytes(number: int) -> bytes:
    """Encode an integer in the fewest big-endian bytes (`BigInteger.toByteArray`)."""
    size = (number if number >= 0 else number + 1).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def to_decimal(schema: Schema, data: bytes) -> Decimal:
    """Decode a decimal with the schema's scale. Raises DataException, or ValueError for empty bytes."""
    return unscaled_decimal(data, get_scale(schema))


def unscaled_decimal(data: bytes, scale: int) -> Decimal:
    """Decode a decimal from its unscaled bytes and its scale. Raises ValueError for empty bytes."""
    if not data:
        raise ValueError("Zero length BigInteger")
    unscaled = int.from_bytes(data, "big", signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


def date_days(value: Instant) -> int:
    """Convert a Date to days since 1970. Raises DataException if the value has a time of day."""
    days, remainder = divmod(value.ms, MS_PER_DAY)
    if remainder:
        raise DataException("Kafka Connect Date type should not have any time fields set to non-zero values.")
    return narrow(days, 32)


def to_date(days: int) -> Instant:
    """Convert days since 1970 to a Date."""
    return Instant(days * MS_PER_DAY)


def time_ms(value: Instant) -> int:
    """Convert a Time to milliseconds since midnight. Raises DataException if the value has a date."""
    if not 0 <= value.ms <= MS_PER_DAY:
        raise DataException("Kafka Connect Time type should not have any date fields set to non-zero values.")
    return value.ms


def to_time(ms: int) -> Instant:
    """Convert milliseconds since midnight to a Time. Raises DataException if the value exceeds one day."""
    if not 0 <= ms <= MS_PER_DAY:
        raise DataException(
            "Time values must use number of milliseconds greater than 0 and less than 86400000"
        )
    return Instant(ms)

"""How values of PostgreSQL's types are compared with the values that Debezium writes for them, as text.

The database and the record each yield a text, and both texts are equal for equal values. The database computes its
text in SQL, because only the database has the exact value of each type. Pure, except for Spark's column expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal

from kraal.engine.columns.functions import F

if TYPE_CHECKING:
    from pyspark.sql import Column

    from kraal.connectors.debezium.capture import Capture

UNKNOWN: Final = "?"
"""The text of a value that is not compared; a type whose texts may be equal to it has no such values."""
MAX_DIGITS: Final = 35
"""Maximum number of digits of a decimal in binary form."""
_MAX_BYTES: Final = 15
"""Size of such a decimal, which Spark's decimals can contain."""
_HALF_BITS: Final = 64
_HEX: Final = 16
_HEX_DIGITS: Final = 32
_NEGATIVE_BYTE: Final = 128
_MODIFIER_OFFSET: Final = 4
"""PostgreSQL adds this number to the modifiers of `numeric`."""
_MILLISECOND_DIGITS: Final = 3
_MICROSECOND_DIGITS: Final = 6
_FINITE: Final = "CASE WHEN isfinite({column}) THEN ({value})::text WHEN {column} IS NOT NULL THEN '?' END"
_EPOCH: Final = "floor(extract(epoch FROM {column}) * {factor})"
_FACTORS: Final = {3: 1_000, 6: 1_000_000, 9: 1_000_000_000}
"""Units in a second, by the digits of their fractions."""
ToText = Callable[["Column"], "Column"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """How the values of one column are compared."""

    sql: str = "{column}::text"
    """The text of a value as an SQL expression; `{column}` is the quoted name."""
    from_database: ToText = lambda column: column
    """Converts the result of `sql`."""
    from_record: ToText = lambda column: column
    """Converts the value in the JSON of a record: the text of a string, or the JSON text of any other value."""
    has_unknown: bool = False
    """Whether the text may be `UNKNOWN`."""
    placeholder: str | None = None
    """The text in place of a value that an update did not change; None if there is none."""
    is_integer: bool = False
    literal: Literal["integer", "text", "uuid"] | None = None
    """The kind of the literals with which rows can be selected by their key; None if they cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnInfo:
    """A column in the catalog of the database."""

    name: str
    type_name: str
    """The internal name of the type, such as `int4`."""
    type_kind: str
    """`b` for a base type, `e` for an enum, or another letter of `pg_type.typtype`."""
    modifier: int
    """`pg_attribute.atttypmod`: the length or the precision; -1 without one."""
    declared_type: str
    """The type as in a CREATE TABLE statement."""
    is_generated: bool = False
    key_position: int | None = None
    """The position in the primary key."""


def choose_type(column: ColumnInfo, capture: Capture) -> ColumnType | None:
    """Return how to compare a column; None if its values cannot be compared."""
    if column.type_kind == "e":
        return ColumnType()
    if column.type_kind != "b":
        return None
    match column.type_name:
        case "int2" | "int4" | "int8":
            return ColumnType(is_integer=True, literal="integer")
        case "bool":
            return ColumnType()
        case "uuid":
            return ColumnType(literal="uuid")
        case "float4":
            return _make_float("float")
        case "float8":
            return _make_float("double")
        case "text" | "varchar":
            return ColumnType(placeholder=capture.placeholder, literal="text")
        case "json" | "jsonb" | "xml" | "citext":
            return ColumnType(placeholder=capture.placeholder)
        case "bpchar":  # the cast to text removes the padding
            return ColumnType(from_record=_trim)
        case "numeric":
            return _choose_decimal(column, capture)
        case "bytea":
            return _choose_binary(capture)
        case _:
            return _choose_time(column, capture.time_mode)


def _trim(value: Column) -> Column:
    return F.rtrim(value)


def _to_lower_case(value: Column) -> Column:
    return F.lower(value)


def _make_float(spark_type: str) -> ColumnType:
    def to_text(value: Column) -> Column:
        return F.coalesce(value.try_cast(spark_type).cast("string"), value)

    return ColumnType(from_database=to_text, from_record=to_text)


def _choose_decimal(column: ColumnInfo, capture: Capture) -> ColumnType | None:
    match capture.decimal_mode:
        case "string" if column.modifier < 0:
            return ColumnType(from_database=_trim_fraction, from_record=_trim_fraction)
        case "string":
            return ColumnType()
        case "double":
            to_text = _make_float("double")
            return ColumnType(
                sql="{column}::float8::text",
                from_database=to_text.from_database,
                from_record=to_text.from_record,
            )
        case "precise":
            return _choose_binary_decimal(column, are_numbers=capture.decimals_are_numbers)
        case _:
            return None


def _choose_binary_decimal(column: ColumnInfo, *, are_numbers: bool) -> ColumnType | None:
    # 'NaN' and 'Infinity' have no binary form.
    sql = "CASE WHEN {column}::text ~ '[[:alpha:]]' THEN '?' ELSE {column}::text END"
    if column.modifier < 0:

        def from_struct(value: Column) -> Column:
            scale = F.get_json_object(value, "$.scale").try_cast("int")
            unscaled = _decode_integer(F.get_json_object(value, "$.value"))
            number = _trim_fraction(_insert_point(unscaled, scale))
            return F.when(value.isNotNull(), F.coalesce(number, F.lit(UNKNOWN)))

        return ColumnType(sql=sql, from_database=_trim_fraction, from_record=from_struct, has_unknown=True)
    precision, scale = parse_numeric_modifier(column.modifier)
    if are_numbers or precision > MAX_DIGITS or scale < 0:
        return None

    def from_bytes(value: Column) -> Column:
        unscaled = _decode_integer(value)
        return F.when(value.isNotNull(), F.coalesce(_insert_point(unscaled, F.lit(scale)), value))

    return ColumnType(sql=sql, from_record=from_bytes, has_unknown=True)


def _trim_fraction(number: Column) -> Column:
    """Remove zeros at the end of a fraction, which Debezium does not keep without a declared scale."""
    return F.regexp_replace(F.regexp_replace(number, r"(\.\d*?)0+$", "$1"), r"\.$", "")


def parse_numeric_modifier(modifier: int) -> tuple[int, int]:
    """Return the precision and the scale of a `numeric` column from its modifier."""
    bits = modifier - _MODIFIER_OFFSET
    return (bits >> 16) & 0xFFFF, (
        (bits & 0x7FF) ^ 0x400
    ) - 0x400  # the scale has 11 bits, the highest for the sign


def _decode_integer(base64: Column) -> Column:
    """Return the integer in base64-encoded bytes, in two's complement; null for more than `_MAX_BYTES`."""
    data = F.try_to_binary(base64, F.lit("base64"))
    digits = F.hex(data)
    is_negative = F.conv(F.substring(digits, 1, 2), _HEX, 10).cast("int") >= F.lit(_NEGATIVE_BYTE)
    padded = F.lpad(digits, _HEX_DIGITS, "0")
    signed = F.when(is_negative, F.lpad(digits, _HEX_DIGITS, "F")).otherwise(padded)
    half = _HEX_DIGITS // 2
    high, low = (
        F.conv(F.substring(signed, start, half), _HEX, 10).cast("decimal(20,0)") for start in (1, half + 1)
    )
    limit = F.lit(Decimal(2**_HALF_BITS))
    signed_high = F.when(is_negative, high - limit).otherwise(high)
    return F.when(F.length(data) <= F.lit(_MAX_BYTES), signed_high * limit + low).cast("string")


def _insert_point(unscaled: Column, scale: Column) -> Column:
    """Return a decimal as PostgreSQL's text, from the text of an integer and the number of its fractional digits."""
    is_negative = unscaled.startswith("-")
    digits = F.ltrim(unscaled, F.lit("-"))
    padded = F.lpad(digits, F.greatest(F.length(digits), scale + F.lit(1)), F.lit("0"))
    integral_length = F.length(padded) - scale
    fraction = padded.substr(integral_length + F.lit(1), scale)
    number = F.when(
        scale > F.lit(0), F.concat(padded.substr(F.lit(1), integral_length), F.lit("."), fraction)
    ).otherwise(padded)
    # A negative scale is the number of zeros at the end.
    number = F.when(scale < F.lit(0), F.rpad(padded, F.length(padded) - scale, F.lit("0"))).otherwise(number)
    return F.when(is_negative, F.concat(F.lit("-"), number)).otherwise(number)


def _choose_binary(capture: Capture) -> ColumnType | None:
    sql, placeholder = "encode({column}, 'hex')", capture.placeholder.encode().hex()

    def from_base64(value: Column) -> Column:
        return F.coalesce(F.lower(F.hex(F.try_to_binary(value, F.lit("base64")))), value)

    match capture.binary_mode:
        case "bytes" | "base64":
            return ColumnType(sql=sql, from_record=from_base64, placeholder=placeholder)
        case "base64-url-safe":
            return ColumnType(
                sql=sql,
                from_record=lambda value: from_base64(F.translate(value, "-_", "+/")),
                placeholder=placeholder,
            )
        case "hex":
            return ColumnType(sql=sql, from_record=_to_lower_case, placeholder=placeholder)
        case _:
            return None


def _choose_time(column: ColumnInfo, mode: str) -> ColumnType | None:
    """Return how to compare a date, a time or a timestamp. Other types are not compared."""
    precision = _MICROSECOND_DIGITS if column.modifier < 0 else column.modifier
    adaptive_digits = _MILLISECOND_DIGITS if precision <= _MILLISECOND_DIGITS else _MICROSECOND_DIGITS
    digits = {
        "adaptive": adaptive_digits,
        "adaptive_time_microseconds": _MICROSECOND_DIGITS if column.type_name == "time" else adaptive_digits,
        "connect": _MILLISECOND_DIGITS,
        "microseconds": 6,
        "nanoseconds": 9,
    }.get(mode)
    if digits is None:
        return None
    match column.type_name:
        case "date":
            days = "{column} - DATE '1970-01-01'"
            return ColumnType(sql=_FINITE.replace("{value}", days), has_unknown=True)
        case "time":
            return ColumnType(sql=_EPOCH.replace("{factor}", str(_FACTORS[digits])) + "::text")
        case "timestamp":
            return _make_timestamp(digits)
        case "timestamptz":
            return _make_timestamp(_MICROSECOND_DIGITS, from_record=_parse_iso_time)
        case _:
            return None


def _make_timestamp(digits: int, from_record: ToText = lambda column: column) -> ColumnType:
    value = _EPOCH.replace("{factor}", str(_FACTORS[digits]))
    return ColumnType(sql=_FINITE.replace("{value}", value), from_record=from_record, has_unknown=True)


def _parse_iso_time(value: Column) -> Column:
    """Return the microseconds since 1970 of a time such as `2026-01-31T12:00:00.5Z`."""
    return F.coalesce(F.unix_micros(value.try_cast("timestamp")).cast("string"), value)

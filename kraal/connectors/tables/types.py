"""Maps Connect's schemas, in the JSON form of JsonConverter, to the columns of a table.

A `Codec` reads values in two steps, both for whole columns: pyarrow's JSON reader parses them as `json_type`, and
`convert` turns the result into the type of the column. docs/connectors/tables.md lists the mapping.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.tables.binary import MAX_DECIMAL_DIGITS, decode_base64, decode_decimals
from kraal.connectors.tables.casts import make_mask, make_offsets

Node = Mapping[str, Any]
"""A schema as in an envelope: `{"type": "int32", "optional": true, "name": …}`."""
Convert = Callable[[pa.Array], pa.Array]
Adapt = Callable[[Any], Any]

TIME: Final = pa.time64("us")
TIMESTAMP: Final = pa.timestamp("us")
INSTANT: Final = pa.timestamp("us", "UTC")
_DAY_US: Final = 86_400_000_000
_PRECISION: Final = "connect.decimal.precision"
"""The parameter of a decimal's schema with the number of its digits, as Debezium sets it."""
_CONNECT: Final = "org.apache.kafka.connect.data."
_DEBEZIUM: Final = "io.debezium."
_GEOMETRIES: Final = frozenset(
    f"{_DEBEZIUM}data.geometry.{name}" for name in ("Geometry", "Geography", "Point")
)
_VARIABLE_SCALE: Final = f"{_DEBEZIUM}data.VariableScaleDecimal"


@dataclass(frozen=True, slots=True)
class Codec:
    """Reads the values of one schema."""

    json_type: pa.DataType
    """The type as which pyarrow's JSON reader parses the values."""
    type: pa.DataType
    """The type of the column."""
    convert: Convert
    """Converts an array of `json_type` to `type`. Raises ValueError and pyarrow's errors."""
    adapt: Adapt
    """Converts a parsed JSON value to a value for `json_type`. Raises ValueError."""
    reads_json: bool = True
    """Whether pyarrow's JSON reader can parse the values; otherwise only `adapt` can."""


def make_codec(node: Node) -> Codec:
    """Return the codec of a schema. Raises ValueError for a schema that is invalid or that no table can store."""
    name = node.get("name")
    if name == f"{_CONNECT}Decimal":
        return _make_decimal(node)
    if name == _VARIABLE_SCALE:
        return _make_variable_scale(node)
    if name in _GEOMETRIES:
        return _make_geometry(node)
    kind = node.get("type")
    logical = _LOGICAL.get((str(name), str(kind)))
    if logical is not None:
        return logical
    if kind in _PRIMITIVES:
        return _PRIMITIVES[str(kind)]
    if kind == "struct":
        return _make_struct(node)
    if kind == "array":
        return _make_list(make_codec(_get_node(node, "items")))
    if kind == "map":
        return _make_map(make_codec(_get_node(node, "keys")), make_codec(_get_node(node, "values")))
    raise ValueError(f"unknown schema type {kind!r}")


def _get_node(node: Node, name: str) -> Node:
    member = node.get(name)
    if not isinstance(member, Mapping):
        raise ValueError(f"the schema of type {node.get('type')} has no valid {name!r}")
    return member


# --- values that are not nested ---------------------------------------------------------------------------


def _require(*kinds: type) -> Adapt:
    """Return a function that accepts null and values of these types."""

    def adapt(value: Any) -> Any:
        if value is None or (isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))):
            return value
        raise ValueError(f"{value!r} is not of the type {' or '.join(kind.__name__ for kind in kinds)}")

    return adapt


_INT, _TEXT, _BOOL = _require(int), _require(str), _require(bool)


_SPECIAL_FLOATS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
"""How JsonConverter writes these values."""


def _adapt_float(value: Any) -> Any:
    if value in _SPECIAL_FLOATS:
        return float(value)
    number = _require(int, float, Decimal)(value)
    return None if number is None else float(number)


def _cast(column_type: pa.DataType) -> Convert:
    return lambda array: array.cast(column_type)


def _plain(column_type: pa.DataType, adapt: Adapt, json_type: pa.DataType | None = None) -> Codec:
    return Codec(json_type or column_type, column_type, _cast(column_type), adapt)


_PRIMITIVES: Final[Mapping[str, Codec]] = {
    "int8": _plain(pa.int32(), _INT, pa.int8()),
    "int16": _plain(pa.int32(), _INT, pa.int16()),
    "int32": _plain(pa.int32(), _INT),
    "int64": _plain(pa.int64(), _INT),
    "float": _plain(pa.float32(), _adapt_float),
    "double": _plain(pa.float64(), _adapt_float),
    "boolean": _plain(pa.bool_(), _BOOL),
    "string": _plain(pa.string(), _TEXT),
    "bytes": Codec(pa.string(), pa.binary(), decode_base64, _TEXT),
}


def _to_time(per_us: int, us_per_unit: int = 1) -> Convert:
    """Return a conversion of a number of units since midnight; either a unit or a microsecond is the shorter."""

    def convert(array: pa.Array) -> pa.Array:
        us = pc.divide(pc.multiply(array.cast(pa.int64()), us_per_unit), per_us)
        if pc.any(pc.or_(pc.less(us, 0), pc.greater_equal(us, _DAY_US))).as_py():
            raise ValueError("a time of day is not between 00:00 and 24:00")
        return us.cast(TIME)

    return convert


def _to_timestamp(unit: str, column_type: pa.DataType) -> Convert:
    """Return a conversion of a number of units since 1970; fractions of microseconds are dropped."""

    def convert(array: pa.Array) -> pa.Array:
        return array.cast(pa.timestamp(unit, column_type.tz)).cast(column_type, safe=unit != "ns")

    return convert


def _parse_instants(array: pa.Array) -> pa.Array:
    """Return the instants of ISO 8601 texts with a zone; fractions of microseconds are dropped."""
    try:
        return array.cast(INSTANT)
    except pa.ArrowInvalid:
        return array.cast(pa.timestamp("ns", "UTC")).cast(INSTANT, safe=False)


def _integer(json_type: pa.DataType, column_type: pa.DataType, convert: Convert) -> Codec:
    return Codec(json_type, column_type, convert, _INT)


_TIME_MS: Final = _integer(pa.int32(), TIME, _to_time(1, 1000))
_DATE: Final = _integer(pa.int32(), pa.date32(), _cast(pa.date32()))
_LOGICAL: Final[Mapping[tuple[str, str], Codec]] = {
    (f"{_CONNECT}Date", "int32"): _DATE,
    (f"{_CONNECT}Time", "int32"): _TIME_MS,
    (f"{_CONNECT}Timestamp", "int64"): _integer(pa.int64(), INSTANT, _to_timestamp("ms", INSTANT)),
    (f"{_DEBEZIUM}time.Date", "int32"): _DATE,
    (f"{_DEBEZIUM}time.Time", "int32"): _TIME_MS,
    (f"{_DEBEZIUM}time.MicroTime", "int64"): _integer(pa.int64(), TIME, _to_time(1)),
    (f"{_DEBEZIUM}time.NanoTime", "int64"): _integer(pa.int64(), TIME, _to_time(1000)),
    (f"{_DEBEZIUM}time.Timestamp", "int64"): _integer(pa.int64(), TIMESTAMP, _to_timestamp("ms", TIMESTAMP)),
    (f"{_DEBEZIUM}time.MicroTimestamp", "int64"): _integer(
        pa.int64(), TIMESTAMP, _to_timestamp("us", TIMESTAMP)
    ),
    (f"{_DEBEZIUM}time.NanoTimestamp", "int64"): _integer(
        pa.int64(), TIMESTAMP, _to_timestamp("ns", TIMESTAMP)
    ),
    (f"{_DEBEZIUM}time.ZonedTimestamp", "string"): Codec(pa.string(), INSTANT, _parse_instants, _TEXT),
}
"""The codecs of named schemas, by name and type. All other names are those of plain values."""


# --- decimals and geometries ------------------------------------------------------------------------------


def _make_decimal(node: Node) -> Codec:
    parameters = node.get("parameters") or {}
    try:
        scale = int(parameters["scale"])
        precision = int(parameters.get(_PRECISION, MAX_DECIMAL_DIGITS))
    except (KeyError, ValueError) as exc:
        raise ValueError(f"a decimal's schema has no valid scale or precision: {dict(parameters)}") from exc
    if not 0 <= scale <= precision <= MAX_DECIMAL_DIGITS:
        raise ValueError(
            f"decimal({precision}, {scale}) cannot be stored: a decimal of a table has at most {MAX_DECIMAL_DIGITS} "
            "digits, and its scale is not negative. Convert the field to a string at its source"
        )
    column_type = pa.decimal128(precision, scale)

    def convert(array: pa.Array) -> pa.Array:
        return decode_decimals(decode_base64(array), scale).cast(column_type)

    def adapt(value: Any) -> Any:
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            return _encode_decimal(Decimal(str(value)), scale)
        return _TEXT(value)

    return Codec(pa.string(), column_type, convert, adapt)


_MAX_SHIFT: Final = 1000
"""Maximum number of digits by which the point of a decimal is moved; larger powers would take long to compute."""


def _encode_decimal(value: Decimal, scale: int) -> str:
    """Return the Base64 of a decimal's unscaled value. Raises ValueError if it has more digits after the point."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is not a number")
    shift = exponent + scale
    if abs(shift) > _MAX_SHIFT:
        raise ValueError(f"{value} has too many digits")
    number, rest = divmod(int("".join(map(str, digits))) * 10 ** max(shift, 0), 10 ** max(-shift, 0))
    if rest:
        raise ValueError(f"{value} has more than {scale} digits after the decimal point")
    number = -number if sign else number
    octets = number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
    return base64.b64encode(octets).decode()


def _make_variable_scale(node: Node) -> Codec:
    """Return the codec of a decimal with its own scale: a string, because a column has only one scale."""
    struct = _make_struct(node)

    def convert(array: pa.Array) -> pa.Array:
        fields = struct.convert(array)
        scales, data = (pc.struct_field(fields, name) for name in ("scale", "value"))
        result = pa.nulls(len(array), pa.string())
        for scale in pc.unique(scales.drop_null()).to_pylist():
            is_scale = pc.fill_null(pc.equal(scales, scale), False)  # noqa: FBT003 - the value for null
            texts = decode_decimals(data.filter(is_scale), scale).cast(pa.string())
            result = pc.replace_with_mask(result, is_scale, texts)
        return result

    return Codec(struct.json_type, pa.string(), convert, struct.adapt)


def _make_geometry(node: Node) -> Codec:
    """Return the codec of a geometry: its well-known binary form."""
    struct = _make_struct(node)
    return Codec(
        struct.json_type,
        pa.binary(),
        lambda array: pc.struct_field(struct.convert(array), "wkb"),
        struct.adapt,
    )


# --- nested values ----------------------------------------------------------------------------------------


def _make_struct(node: Node) -> Codec:
    members = node.get("fields")
    if not isinstance(members, Sequence) or not members:
        raise ValueError("a struct's schema has no fields")
    codecs = {str(member["field"]): make_codec(member) for member in members}
    fields = [pa.field(name, codec.type) for name, codec in codecs.items()]

    def convert(array: pa.Array) -> pa.Array:
        columns = [
            codec.convert(column) for codec, column in zip(codecs.values(), array.flatten(), strict=True)
        ]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=array.is_null())

    def adapt(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise ValueError(f"{value!r} is not an object")
        return {name: _adapt_member(name, codec.adapt, value.get(name)) for name, codec in codecs.items()}

    json_type = pa.struct([pa.field(name, codec.json_type) for name, codec in codecs.items()])
    reads_json = all(codec.reads_json for codec in codecs.values())
    return Codec(json_type, pa.struct(fields), convert, adapt, reads_json)


def _adapt_member(name: str, adapt: Adapt, value: Any) -> Any:
    try:
        return adapt(value)
    except ValueError as exc:
        raise ValueError(f"field {name}: {exc}") from exc


def _make_list(element: Codec) -> Codec:
    def convert(array: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(
            make_offsets(array), element.convert(array.flatten()), mask=make_mask(array)
        )

    def adapt(value: Any) -> Any:
        if value is not None and not isinstance(value, list):
            raise ValueError(f"{value!r} is not an array")
        return None if value is None else [element.adapt(item) for item in value]

    return Codec(pa.list_(element.json_type), pa.list_(element.type), convert, adapt, element.reads_json)


def _make_map(key: Codec, value: Codec) -> Codec:
    """Return the codec of a map: an object if its keys are strings, otherwise an array of pairs."""
    json_type, column_type = pa.map_(key.json_type, value.json_type), pa.map_(key.type, value.type)

    def convert(array: pa.Array) -> pa.Array:
        entries = pa.concat_arrays([array])
        keys, items = key.convert(entries.keys), value.convert(entries.items)
        return pa.MapArray.from_arrays(entries.offsets, keys, items, mask=make_mask(entries))

    def adapt(content: Any) -> Any:
        if content is None:
            return None
        pairs = content.items() if isinstance(content, Mapping) else content
        return [(key.adapt(name), value.adapt(item)) for name, item in pairs]

    return Codec(json_type, column_type, convert, adapt, reads_json=False)

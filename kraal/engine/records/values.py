"""Converts Arrow columns to Connect's values, and Connect's values to plain JSON.

For the mapping of types, see `kraal.plugins.model.records`.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from kraal.plugins.model.records import Float32, Instant, Struct
from kraal.plugins.model.schema import Schema, Type

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND: Final = dt.timedelta(milliseconds=1)

ValueConversion = Callable[[Any], Any]
"""Converts one value, which must not be None."""


def read_values(column: pa.Array, schema: Schema | None) -> list[Any]:
    """Return a column as Connect values of `schema`, or of its Arrow type if there is no schema.

    Invalid UTF-8 becomes U+FFFD, as when Java decodes a String. Raises ValueError for an unsupported Arrow type.
    """
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _read_texts(column)
    convert = _find_conversion(column.type, schema)
    values = column.to_pylist()
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _read_texts(column: pa.Array) -> list[Any]:
    try:
        texts: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        raw = column.cast(pa.large_binary()).to_pylist()
        return [None if value is None else value.decode("utf-8", "replace") for value in raw]
    return texts


def _find_conversion(arrow_type: pa.DataType, schema: Schema | None) -> ValueConversion | None:
    """Return the function that converts a value of an Arrow type; None if values are not converted."""
    if pa.types.is_struct(arrow_type):
        return _find_struct_conversion(arrow_type, schema)
    if pa.types.is_map(arrow_type):
        key = _find_conversion(arrow_type.key_type, None if schema is None else schema.key) or _identity
        item = _find_conversion(arrow_type.item_type, None if schema is None else schema.value) or _identity
        return lambda pairs: {key(k): None if v is None else item(v) for k, v in pairs}
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        element = _find_conversion(arrow_type.value_type, None if schema is None else schema.value)
        return None if element is None else lambda values: [None if v is None else element(v) for v in values]
    return _find_scalar_conversion(arrow_type)


def _find_scalar_conversion(arrow_type: pa.DataType) -> ValueConversion | None:
    if pa.types.is_float32(arrow_type):
        return Float32
    if pa.types.is_timestamp(arrow_type):
        return _to_instant
    if pa.types.is_date(arrow_type):
        return lambda day: Instant((day - _EPOCH.date()).days * 86_400_000)
    primitive_tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string)
    other_tests = (
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_decimal,
    )
    if any(test(arrow_type) for test in (*primitive_tests, *other_tests, pa.types.is_null)):
        return None
    raise ValueError(f"transforms do not support columns of type {arrow_type}")


def _identity(value: Any) -> Any:
    return value


def _to_instant(value: dt.datetime) -> Instant:
    utc_value = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
    return Instant((utc_value - _EPOCH) // _MILLISECOND)


def _decode_variant(parts: Mapping[str, bytes]) -> Any:
    """Return the value of Spark's VARIANT, which has no schema."""
    from pyspark.sql.types import VariantVal  # noqa: PLC0415 - available if there is a VARIANT column

    return VariantVal(parts["value"], parts["metadata"]).toPython()


def _is_variant(arrow_type: pa.StructType) -> bool:
    fields = [arrow_type.field(index) for index in range(arrow_type.num_fields)]
    return {field.name for field in fields} == {"value", "metadata"} and all(
        pa.types.is_binary(field.type) for field in fields
    )


def _find_struct_conversion(arrow_type: pa.StructType, schema: Schema | None) -> ValueConversion:
    if schema is None and _is_variant(arrow_type):
        return _decode_variant
    arrow_fields = [arrow_type.field(index) for index in range(arrow_type.num_fields)]
    if schema is None:
        parts = {field.name: _find_conversion(field.type, None) for field in arrow_fields}
        return lambda fields: {name: _convert(parts[name], value) for name, value in fields.items()}
    schemas_by_name = {field.name: field.schema for field in schema.fields}
    parts = {
        field.name: _find_conversion(field.type, schemas_by_name.get(field.name)) for field in arrow_fields
    }
    return lambda fields: Struct(
        schema, {name: _convert(parts[name], value) for name, value in fields.items()}
    )


def _convert(convert: ValueConversion | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def read_times(column: pa.Array) -> list[int | None]:
    """Return a timestamp column as milliseconds since the epoch, rounded down as in Spark."""
    divisor = {"us": 1000, "ns": 1_000_000}.get(getattr(column.type, "unit", ""))
    if divisor is not None:
        return [None if value is None else value // divisor for value in column.cast(pa.int64()).to_pylist()]
    times_ms: list[int | None] = column.cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()).to_pylist()
    return times_ms


def json_text(value: Any, schema: Schema | None) -> str:
    """Return a value as plain JSON, for sinks that do not use Connect's types. Bytes are encoded as Base64."""
    return json.dumps(_to_plain(value, schema), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _to_plain(value: Any, schema: Schema | None) -> Any:
    if isinstance(value, Struct):
        return {f.name: _to_plain(value.get(f.name), f.schema) for f in value.schema.fields}
    if isinstance(value, Mapping):
        item_schema = schema.value if schema is not None and schema.type is Type.MAP else None
        return {str(key): _to_plain(item, item_schema) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        item_schema = schema.value if schema is not None and schema.type is Type.ARRAY else None
        return [_to_plain(item, item_schema) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, Instant):
        return value.ms
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    return value

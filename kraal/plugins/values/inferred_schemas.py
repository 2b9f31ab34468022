"""Infers the common schema of the elements of a list or map parsed from text, and converts the elements to it.

Source: Values.SchemaMerger, mergeSchemas and convertTo (Kafka 4.4.0).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from kraal.plugins.model.records import DATE, TIME, TIMESTAMP, DataException, Instant
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.java_time import MS_PER_DAY
from kraal.plugins.values.java_values import exact_float32, float32, java_class
from kraal.plugins.values.logical import narrow, to_time

_NUMERIC_TYPES: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
"""The numeric types, from narrowest to widest."""

_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


class SchemaMerger:
    """Computes the common schema of parsed values.

    `common` is None before the first value, and stays None once two values are incompatible.
    """

    def __init__(self) -> None:
        self.common: Schema | None = None
        self._is_compatible = True

    def merge(self, parsed_value: tuple[Schema | None, Any] | None) -> None:
        """Merge a parsed value, given as its schema and value; null has no effect."""
        if parsed_value is None or parsed_value[0] is None or not self._is_compatible:
            return
        schema = parsed_value[0]
        self.common = schema if self.common is None else _merge(self.common, schema)
        self._is_compatible = self.common is not None


def _merge(previous: Schema, latest: Schema) -> Schema | None:
    if previous.type is latest.type:
        return latest  # both are required: parsed schemas are never optional
    if previous.type in _NUMERIC_TYPES and latest.type in _NUMERIC_TYPES:
        return max(previous, latest, key=lambda schema: _NUMERIC_TYPES.index(schema.type))
    return None


def align(schema: Schema | None, value: Any) -> Any:
    """Convert an element to the common schema. Raises DataException."""
    if schema is None:
        return value
    if value is None:
        raise DataException("Unable to convert a null value to a schema that requires a value")
    if schema.name in (DATE, TIME, TIMESTAMP) and isinstance(value, Instant):
        return value
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return _align_integer(schema, _to_long(value))
        case Type.FLOAT32:
            return (
                float32(_to_double(value))
                if isinstance(value, float)
                else exact_float32(Decimal(_to_long(value)))
            )
        case Type.FLOAT64:
            return _to_double(value)
        case _:
            return value


def _align_integer(schema: Schema, value: int) -> Any:
    number = narrow(value, _BITS[schema.type])
    match schema.name:
        case str() as name if name == DATE:
            return Instant(number * MS_PER_DAY)
        case str() as name if name == TIME:
            return to_time(number)
        case str() as name if name == TIMESTAMP:
            return Instant(number)
        case _:
            return number


def _to_long(value: Any) -> int:
    if isinstance(value, Instant):
        raise DataException(f"Unable to convert {value} (class {java_class(value, None)}) to a number")
    return int(value)


def _to_double(value: Any) -> float:
    return float(value) if isinstance(value, float) else float(_to_long(value))

"""One schema for the elements of a list or a map that was parsed from text, and the elements made to fit it.

Source: Values.SchemaMerger, mergeSchemas and convertTo (Kafka 4.3.0).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from kraal.plugins.java_time import MS_PER_DAY
from kraal.plugins.java_values import exact_float32, float32, java_class
from kraal.plugins.logical import time_of, wrapped
from kraal.plugins.records import DATE, TIME, TIMESTAMP, DataException, Instant
from kraal.plugins.schema import Schema, Type

_WIDTH: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
"""Numbers, each wider than those before it."""

_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


class SchemaMerger:
    """The common schema of everything merged; None while there is none, and for good once there cannot be one."""

    def __init__(self) -> None:
        self.common: Schema | None = None
        self._compatible = True

    def merge(self, latest: tuple[Schema | None, Any] | None) -> None:
        """Take a parsed value in; null says nothing."""
        if latest is None or latest[0] is None or not self._compatible:
            return
        self.common = latest[0] if self.common is None else _merged(self.common, latest[0])
        self._compatible = self.common is not None


def _merged(previous: Schema, latest: Schema) -> Schema | None:
    if previous.type is latest.type:
        return latest  # both are required: what is parsed is never optional
    if previous.type in _WIDTH and latest.type in _WIDTH:
        return max(previous, latest, key=lambda schema: _WIDTH.index(schema.type))
    return None


def aligned(schema: Schema | None, value: Any) -> Any:
    """Return an element as its common schema has it. Raises DataException."""
    if schema is None:
        return value
    if value is None:
        raise DataException("Unable to convert a null value to a schema that requires a value")
    if schema.name in (DATE, TIME, TIMESTAMP) and isinstance(value, Instant):
        return value
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return _aligned_whole(schema, _long(value))
        case Type.FLOAT32:
            return (
                float32(_double(value)) if isinstance(value, float) else exact_float32(Decimal(_long(value)))
            )
        case Type.FLOAT64:
            return _double(value)
        case _:
            return value


def _aligned_whole(schema: Schema, value: int) -> Any:
    number = wrapped(value, _BITS[schema.type])
    match schema.name:
        case str() as name if name == DATE:
            return Instant(number * MS_PER_DAY)
        case str() as name if name == TIME:
            return time_of(number)
        case str() as name if name == TIMESTAMP:
            return Instant(number)
        case _:
            return number


def _long(value: Any) -> int:
    if isinstance(value, Instant):
        raise DataException(f"Unable to convert {value} (class {java_class(value, None)}) to a number")
    return int(value)


def _double(value: Any) -> float:
    return float(value) if isinstance(value, float) else float(_long(value))

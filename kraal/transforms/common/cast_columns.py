"""Casts columns. Casts whose results differ between Spark and Java, such as float to string, raise ByRecords."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kraal.engine.columns.functions import F
from kraal.engine.columns.parts import make_column
from kraal.plugins.model.columns import ByRecords, Expression, Part
from kraal.plugins.model.schema import Schema, Type

BITS: Final[Mapping[Type, int]] = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_SPARK_FLOATS: Final = {Type.FLOAT32: "float", Type.FLOAT64: "double"}
_SPARK_INTEGERS: Final = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
_EXACT_TYPES: Final = (*BITS, Type.BOOLEAN)
_INTEGER_PATTERN: Final = r"\A-?[0-9]{1,18}\z"


def cast_column(part: Part, schema: Schema) -> tuple[Part, tuple[Expression, ...]]:
    """Cast a part; also return doubts, which mark rows in which Java's result may differ. Raises ByRecords."""
    old_schema = part.schema
    if old_schema is None or old_schema.name is not None:
        raise ByRecords
    source, kind = old_schema.type, schema.type
    supported_types = (*_EXACT_TYPES, *_SPARK_FLOATS, Type.STRING)
    is_float_to_text = kind is Type.STRING and source in _SPARK_FLOATS
    is_text_to_float = source is Type.STRING and kind in _SPARK_FLOATS
    if source not in supported_types or kind not in supported_types or is_float_to_text or is_text_to_float:
        raise ByRecords
    doubts: tuple[Expression, ...] = ()
    if source in _SPARK_FLOATS and (kind in BITS or kind is Type.BOOLEAN):
        doubts = (partial(_exceeds, part, 2.0 ** (max(BITS.get(kind, 64), 32) - 1)),)
    if source is Type.STRING and kind in BITS:
        doubts = (partial(_is_unparsable, part, _SPARK_INTEGERS[BITS[kind]]),)
    return Part(
        schema=schema, expression=partial(_cast_expression, part, source, kind), sure=part.sure
    ), doubts


def _cast_expression(part: Part, source: Type, kind: Type) -> Any:
    value = make_column(part)
    if kind is source:
        return value
    if kind in _SPARK_FLOATS:
        return (
            value.cast("int").cast(_SPARK_FLOATS[kind])
            if source is Type.BOOLEAN
            else value.cast(_SPARK_FLOATS[kind])
        )
    if kind is Type.STRING:
        return value.cast("string")
    if source is Type.STRING:
        return (
            F.lower(value) == F.lit("true")
            if kind is Type.BOOLEAN
            else value.try_cast(_SPARK_INTEGERS[BITS[kind]])
        )
    integer = value.try_cast("bigint")
    return integer != F.lit(0) if kind is Type.BOOLEAN else _wrap_bigint(integer, BITS[kind])


def _wrap_bigint(integer: Any, bits: int) -> Any:
    """Return the lowest `bits` bits of a BIGINT as a signed number."""
    shift = 64 - bits
    return (F.shiftright(F.shiftleft(integer, shift), shift) if shift else integer).cast(
        _SPARK_INTEGERS[bits]
    )


def _exceeds(part: Part, limit: float) -> Any:
    value = make_column(part).cast("double")
    return F.isnan(value) | (F.abs(value) >= F.lit(limit))


def _is_unparsable(part: Part, kind: str) -> Any:
    value = make_column(part)
    return value.isNotNull() & (~value.rlike(_INTEGER_PATTERN) | value.try_cast(kind).isNull())

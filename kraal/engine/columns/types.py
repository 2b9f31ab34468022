"""Checks that a frame's columns match their schemas as far as column forms of transforms rely on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kraal.plugins.model.columns import ByRecords, Columns
from kraal.plugins.model.records import DATE, DECIMAL, TIMESTAMP
from kraal.plugins.model.schema import Schema, Type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import types as T  # noqa: N812 - Spark's own convention

_NAMES: Final[Mapping[Type, frozenset[str]]] = {
    Type.INT8: frozenset({"ByteType"}),
    Type.INT16: frozenset({"ShortType"}),
    Type.INT32: frozenset({"IntegerType"}),
    Type.INT64: frozenset({"LongType"}),
    Type.FLOAT32: frozenset({"FloatType"}),
    Type.FLOAT64: frozenset({"DoubleType"}),
    Type.BOOLEAN: frozenset({"BooleanType"}),
    Type.STRING: frozenset({"StringType", "CharType", "VarcharType"}),
    Type.BYTES: frozenset({"BinaryType"}),
}
_LOGICAL: Final[Mapping[str, str]] = {DATE: "DateType", TIMESTAMP: "TimestampType"}
_OTHERS: Final[Mapping[str, str]] = {
    "topic": "StringType",
    "partition": "IntegerType",
    "timestamp": "TimestampType",
}


def check_types(found: T.StructType, given: Columns) -> None:
    """Raise ByRecords if the type of a column does not match its schema."""
    kinds = {field.name: field.dataType for field in found.fields}
    parts = {"key": given.key.schema, "value": given.value.schema}
    for name, schema in parts.items():
        if schema is not None and not (name in kinds and fits(kinds[name], schema)):
            raise ByRecords
    for name, wanted in _OTHERS.items():
        if name in given.has and _name(kinds[name]) != wanted:
            raise ByRecords


def fits(kind: T.DataType, schema: Schema) -> bool:
    """Whether values of a Spark type match a schema."""
    found, of = _name(kind), vars(kind)
    if schema.name == DECIMAL:
        return found == "DecimalType" and str(of["scale"]) == schema.parameters.get("scale")
    if schema.name is not None and schema.name in _LOGICAL:
        return found == _LOGICAL[schema.name]
    match schema.type:
        case Type.STRUCT if found == "StructType":
            inner = {field.name: field.dataType for field in of["fields"]}
            lower = {name.lower() for name in inner}
            # Spark looks up fields case-insensitively.
            return len(lower) == len(inner) and all(
                field.name in inner and fits(inner[field.name], field.schema) for field in schema.fields
            )
        case Type.ARRAY if found == "ArrayType":
            return schema.value is not None and fits(of["elementType"], schema.value)
        case Type.MAP if found == "MapType":
            return (
                schema.key is not None
                and schema.value is not None
                and fits(of["keyType"], schema.key)
                and fits(of["valueType"], schema.value)
            )
        case _:
            return found in _NAMES.get(schema.type, frozenset())


def nulls_are_allowed(values: pa.Array, schema: Schema) -> bool:
    """Whether every null in an Arrow array, or within its values, is one that the schema allows."""
    if values.null_count and not schema.optional:
        return False
    match schema.type:
        case Type.STRUCT:
            known = {values.type.field(at).name: at for at in range(values.type.num_fields)}
            return all(
                each.name in known and nulls_are_allowed(values.field(known[each.name]), each.schema)
                for each in schema.fields
            )
        case Type.ARRAY if schema.value is not None:
            return nulls_are_allowed(values.values, schema.value)
        case Type.MAP if schema.value is not None:
            return nulls_are_allowed(values.items, schema.value)
    return True


def _name(kind: T.DataType) -> str:
    return type(kind).__name__

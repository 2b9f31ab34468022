"""Converts Spark types to Connect schemas, for columns whose types are known before the job runs.

| Spark | Connect |
|---|---|
| tinyint, smallint, int, bigint | INT8, INT16, INT32, INT64 |
| float, double, boolean, string (char, varchar), binary | FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES |
| decimal(p,s) | `Decimal` with scale s |
| date | `Date` |
| timestamp, timestamp_ntz (as UTC) | `Timestamp`, in milliseconds |
| array, map, struct | ARRAY, MAP, STRUCT |

Source: org.apache.kafka.connect.data (Kafka 4.3.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T  # noqa: N812 - Spark's own convention

from kraal.plugins.model.records import DATE, DECIMAL, TIMESTAMP
from kraal.plugins.model.schema import Field, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import Column

_PRIMITIVES: dict[type[T.DataType], Type] = {
    T.ByteType: Type.INT8,
    T.ShortType: Type.INT16,
    T.IntegerType: Type.INT32,
    T.LongType: Type.INT64,
    T.FloatType: Type.FLOAT32,
    T.DoubleType: Type.FLOAT64,
    T.BooleanType: Type.BOOLEAN,
    T.StringType: Type.STRING,
    T.CharType: Type.STRING,
    T.VarcharType: Type.STRING,
    T.BinaryType: Type.BYTES,
}


def to_schema(data_type: T.DataType, column: str, *, optional: bool) -> Schema:
    """Return the Connect schema of a column. Raises ValueError with the column's name for an unsupported type."""
    match data_type:
        case T.DecimalType():
            scale = {"scale": str(data_type.scale)}
            return Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters=scale, optional=optional)
        case T.DateType():
            return Schema(type=Type.INT32, name=DATE, version=1, optional=optional)
        case T.TimestampType() | T.TimestampNTZType():
            return Schema(type=Type.INT64, name=TIMESTAMP, version=1, optional=optional)
        case T.ArrayType():
            element = to_schema(data_type.elementType, f"{column}[]", optional=data_type.containsNull)
            return Schema(type=Type.ARRAY, value=element, optional=optional)
        case T.MapType():
            key = to_schema(data_type.keyType, f"{column}'s keys", optional=False)
            value = to_schema(data_type.valueType, f"{column}'s values", optional=data_type.valueContainsNull)
            return Schema(type=Type.MAP, key=key, value=value, optional=optional)
        case T.StructType():
            return make_struct_schema(data_type, column, optional=optional)
        case _ if type(data_type) in _PRIMITIVES:
            return Schema(type=_PRIMITIVES[type(data_type)], optional=optional)
        case _:
            raise ValueError(
                f"the column {column} has the Spark type {data_type.simpleString()}, which has no Connect type"
            )


def make_struct_schema(struct: T.StructType, prefix: str = "", *, optional: bool = False) -> Schema:
    """Return the schema of a struct. Raises the errors of `to_schema`."""
    fields = [
        Field(
            name=field.name,
            schema=to_schema(field.dataType, _join_path(prefix, field.name), optional=field.nullable),
        )
        for field in struct.fields
    ]
    return Schema(type=Type.STRUCT, fields=tuple(fields), optional=optional)


def parse_struct(ddl: str) -> T.StructType:
    """Parse a DDL schema with Spark. Raises ValueError if it is not a list of columns."""
    parsed = T.StructType.fromDDL(ddl)
    if not isinstance(parsed, T.StructType):
        raise ValueError(f"{ddl} is not a list of columns")
    return parsed


def to_connect_column(value: Column, data_type: T.DataType) -> Column:
    """Convert a column to types that converters support: timestamps without a zone become timestamps in UTC."""
    target = _replace_timestamp_ntz(data_type)
    return value if target == data_type else value.cast(target)


def _replace_timestamp_ntz(data_type: T.DataType) -> T.DataType:
    match data_type:
        case T.TimestampNTZType():
            return T.TimestampType()
        case T.ArrayType():
            return T.ArrayType(_replace_timestamp_ntz(data_type.elementType), data_type.containsNull)
        case T.MapType():
            key, value = (
                _replace_timestamp_ntz(data_type.keyType),
                _replace_timestamp_ntz(data_type.valueType),
            )
            return T.MapType(key, value, data_type.valueContainsNull)
        case T.StructType():
            fields = [
                T.StructField(f.name, _replace_timestamp_ntz(f.dataType), f.nullable)
                for f in data_type.fields
            ]
            return T.StructType(fields)
        case _:
            return data_type


def _join_path(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name

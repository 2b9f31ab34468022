"""Checks that the types of columns match their schemas, which the column path requires."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kraal.plugins.model.columns import ByRecords, Columns
from kraal.plugins.model.records import DATE, DECIMAL, TIMESTAMP
from kraal.plugins.model.schema import Schema, Type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import types as T  # noqa: N812 - Spark's own convention

_SPARK_TYPE_NAMES: Final[Mapping[Type, frozenset[str]]] = {
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
_ARROW_TYPE_NAMES: Final[Mapping[Type, str]] = {
    Type.INT8: "int8",
    Type.INT16: "int16",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "bool",
    Type.STRING: "string",
    Type.BYTES: "binary",
}
_CONNECT_PREFIX: Final = "org.apache.kafka.connect.data."
_LOGICAL_TYPE_NAMES: Final[Mapping[str, str]] = {DATE: "DateType", TIMESTAMP: "TimestampType"}
_EXTRA_TYPES: Final[Mapping[str, str]] = {
    "topic": "StringType",
    "partition": "IntegerType",
    "timestamp": "TimestampType",
}


def check_types(frame_type: T.StructType, columns: Columns) -> None:
    """Raise ByRecords if the type of a column does not match its schema."""
    types_by_column = {field.name: field.dataType for field in frame_type.fields}
    parts = {"key": columns.key.schema, "value": columns.value.schema}
    for name, schema in parts.items():
        if schema is not None and not (name in types_by_column and fits(types_by_column[name], schema)):
            raise ByRecords
    for name, expected in _EXTRA_TYPES.items():
        if name in columns.has and _type_name(types_by_column[name]) != expected:
            raise ByRecords


def fits(spark_type: T.DataType, schema: Schema) -> bool:
    """Return whether values of a Spark type match a schema."""
    type_name, properties = _type_name(spark_type), vars(spark_type)
    if schema.name == DECIMAL:
        return type_name == "DecimalType" and str(properties["scale"]) == schema.parameters.get("scale")
    if schema.name is not None and schema.name in _LOGICAL_TYPE_NAMES:
        return type_name == _LOGICAL_TYPE_NAMES[schema.name]
    match schema.type:
        case Type.STRUCT if type_name == "StructType":
            types_by_field = {field.name: field.dataType for field in properties["fields"]}
            lowercase_names = {name.lower() for name in types_by_field}
            # Spark's field lookup is case-insensitive.
            return len(lowercase_names) == len(types_by_field) and all(
                field.name in types_by_field and fits(types_by_field[field.name], field.schema)
                for field in schema.fields
            )
        case Type.ARRAY if type_name == "ArrayType":
            return schema.value is not None and fits(properties["elementType"], schema.value)
        case Type.MAP if type_name == "MapType":
            return (
                schema.key is not None
                and schema.value is not None
                and fits(properties["keyType"], schema.key)
                and fits(properties["valueType"], schema.value)
            )
        case _:
            return type_name in _SPARK_TYPE_NAMES.get(schema.type, frozenset())


def arrow_fits(arrow_type: pa.DataType, schema: Schema) -> bool:
    """Return whether values of an Arrow type match a schema. Always False for Connect's logical types."""
    from pyarrow import types  # noqa: PLC0415 - heavy; loaded with the first batch

    if schema.name is not None and schema.name.startswith(_CONNECT_PREFIX):
        return False
    match schema.type:
        case Type.STRUCT if types.is_struct(arrow_type):
            arrow_fields = [arrow_type.field(index) for index in range(arrow_type.num_fields)]
            types_by_field = {field.name: field.type for field in arrow_fields}
            return len(schema.fields) == arrow_type.num_fields and all(
                field.name in types_by_field and arrow_fits(types_by_field[field.name], field.schema)
                for field in schema.fields
            )
        case Type.ARRAY if types.is_list(arrow_type) and schema.value is not None:
            return arrow_fits(arrow_type.value_type, schema.value)
        case Type.MAP if types.is_map(arrow_type) and schema.key is not None and schema.value is not None:
            return arrow_fits(arrow_type.key_type, schema.key) and arrow_fits(
                arrow_type.item_type, schema.value
            )
        case _:
            return str(arrow_type) == _ARROW_TYPE_NAMES.get(schema.type)


def _type_name(spark_type: T.DataType) -> str:
    return type(spark_type).__name__

"""Validation of values against schemas. Source: ConnectSchema.validateValue, Struct.validate (Kafka 4.4.0)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from kraal.plugins.model.records import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    DataException,
    Float32,
    Instant,
    Struct,
)
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.java_values import java_class

LOGICAL: Final[dict[str, type]] = {DECIMAL: Decimal, DATE: Instant, TIME: Instant, TIMESTAMP: Instant}
"""The Python classes of logical types' values, by schema name."""

CLASSES: Final[dict[Type, type | tuple[type, ...]]] = {
    Type.INT8: int,
    Type.INT16: int,
    Type.INT32: int,
    Type.INT64: int,
    Type.FLOAT32: Float32,
    Type.FLOAT64: float,
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.BYTES: bytes,
    Type.ARRAY: (list, tuple),
    Type.MAP: dict,
    Type.STRUCT: Struct,
}
"""The Python classes of each type's values. A bool is not accepted as an int, nor a Float32 as a double."""


def has_class(schema: Schema, value: Any) -> bool:
    """Return whether a value other than None has the class that its schema requires."""
    required_class = LOGICAL.get(schema.name or "") or CLASSES[schema.type]
    if type(value) is bool or type(value) is Float32:
        return required_class is type(value)
    return isinstance(value, required_class)


def validate(schema: Schema, value: Any, field: str | None = None) -> None:
    """Raise DataException, with Java's message, if the value does not conform to the schema."""
    _validate(schema, value, "value" if field is None else f'field: "{field}"')


def _validate(schema: Schema, value: Any, location: str) -> None:
    if value is None:
        if not schema.optional:
            raise DataException(
                f"Invalid value: null used for required {location}, schema type: {schema.type.name}"
            )
        return
    if not has_class(schema, value):
        name = "" if schema.name is None else f' "{schema.name}"'
        class_name = java_class(value, schema)
        raise DataException(
            f"Invalid Java object for schema{name} with type {schema.type.name}: class {class_name} for {location}"
        )
    match schema.type:
        case Type.STRUCT:
            _validate_struct(schema, value)
        case Type.ARRAY:
            element_location = f"element of array {location}"
            for item in value:
                _validate(_require_value(schema.value, element_location), item, element_location)
        case Type.MAP:
            key_location, value_location = f"key of map {location}", f"value of map {location}"
            for key, item in value.items():
                _validate(_require_value(schema.key, key_location), key, key_location)
                _validate(_require_value(schema.value, value_location), item, value_location)
        case _:
            pass


def _validate_struct(schema: Schema, value: Struct) -> None:
    if value.schema is not schema and value.schema != schema:
        raise DataException("Struct schemas do not match.")
    for field in schema.fields:
        item = value.values.get(field.name)
        if item is not None or not (field.schema.optional or field.schema.default is not None):
            validate(field.schema, item, field.name)


def _require_value(schema: Schema | None, location: str) -> Schema:
    if schema is None:
        raise DataException(f"No schema defined for {location}")
    return schema

"""Builds schemas and structs with Connect's rules and errors.

Source: SchemaBuilder, Struct.put, ConnectSchema.validateValue, Requirements, SchemaUtil (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kraal.plugins.model.records import DataException, Struct
from kraal.plugins.model.schema import Field, Schema, Type
from kraal.plugins.values import java_values
from kraal.transforms.common.errors import SchemaBuilderException


def java_class(value: Any, schema: Schema | None = None) -> str:
    """Return the name of the value's Java class; `null` for None. Ints without a schema are Longs."""
    return "null" if value is None else java_values.java_class(value, schema)


def as_text(schema: Schema) -> str:
    """Return the text of a schema as in Java: `Schema{STRING}`, `Schema{name:STRUCT}`."""
    return f"Schema{{{schema.name}:{schema.type.name}}}" if schema.name else f"Schema{{{schema.type.name}}}"


def require_map(value: Any, purpose: str) -> Mapping[str, Any]:
    """Return a schemaless value if it is an object. Raises DataException."""
    if not isinstance(value, dict):
        raise DataException(
            f"Only Map objects supported in absence of schema for [{purpose}], found: {java_class(value)}"
        )
    return value


def require_struct(value: Any, purpose: str, schema: Schema | None = None) -> Struct:
    """Return a value with a schema if it is a struct. Raises DataException."""
    if not isinstance(value, Struct):
        raise DataException(
            f"Only Struct objects supported for [{purpose}], found: {java_class(value, schema)}"
        )
    return value


def read(struct: Struct, field: Field, *, replace_null: bool) -> Any:
    """Return the value of a field; if `replace_null` is set, the default replaces null."""
    value = struct.values.get(field.name)
    return field.schema.default if value is None and replace_null else value


def list_fields(schema: Schema) -> tuple[Field, ...]:
    """Return the fields of a struct schema. Raises DataException for other types."""
    if schema.type is not Type.STRUCT:
        raise DataException("Cannot list fields on non-struct type")
    return schema.fields


def find_field(schema: Schema, name: str) -> Field | None:
    """Return a field by name; None if there is no such field. Raises DataException for types other than structs."""
    if schema.type is not Type.STRUCT:
        raise DataException("Cannot look up fields on non-struct type")
    return next((field for field in schema.fields if field.name == name), None)


def make_struct_schema(metadata: Schema | None, fields: Iterable[Field], **attributes: Any) -> Schema:
    """Return the schema of a required struct, with the name, version, doc and parameters of `metadata`.

    `attributes` override attributes of the result. Raises SchemaBuilderException for an empty or duplicate field name.
    """
    fields_by_name: dict[str, Field] = {}
    for field in fields:
        if not field.name:
            raise SchemaBuilderException("fieldName cannot be null.")
        if field.name in fields_by_name:
            raise SchemaBuilderException(
                f"Cannot create field because of field name duplication {field.name}"
            )
        fields_by_name[field.name] = field
    return replace(copy_metadata(metadata, Type.STRUCT), fields=tuple(fields_by_name.values()), **attributes)


def copy_metadata(source: Schema | None, kind: Type) -> Schema:
    """Return a required schema of type `kind` with the name, version, doc and parameters of `source`."""
    if source is None:
        return Schema(type=kind)
    return Schema(
        type=kind, name=source.name, version=source.version, doc=source.doc, parameters=source.parameters
    )


def make_struct(schema: Schema, values: Mapping[str, Any]) -> Struct:
    """Return a struct; fields missing from `values` are null. Raises DataException for None in a required field.

    Values are not validated, because they come from another struct or from the transform itself.
    """
    for field in schema.fields:
        if field.name in values and values[field.name] is None and not field.schema.optional:
            raise make_null_error(field)
    return Struct(schema, values)


def make_null_error(field: Field) -> DataException:
    """Return the error for null in a required field."""
    return DataException(
        f'Invalid value: null used for required field: "{field.name}", schema type: {field.schema.type.name}'
    )

"""Infers the types of expressions from the types of fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import Schema, Type
from kraal.transforms.sql.functions import FUNCTIONS, Family
from kraal.transforms.sql.syntax import Call, Case, Cast, Literal, Node, Reference
from kraal.transforms.sql.values import get_value_family, infer_operator_family

_FAMILIES: Final[Mapping[Type, Family]] = {
    Type.INT8: Family.INTEGER,
    Type.INT16: Family.INTEGER,
    Type.INT32: Family.INTEGER,
    Type.INT64: Family.INTEGER,
    Type.FLOAT32: Family.DOUBLE,
    Type.FLOAT64: Family.DOUBLE,
    Type.BOOLEAN: Family.BOOLEAN,
    Type.STRING: Family.TEXT,
}
_TYPES: Final[Mapping[Family, Type]] = {
    Family.INTEGER: Type.INT64,
    Family.DOUBLE: Type.FLOAT64,
    Family.BOOLEAN: Type.BOOLEAN,
    Family.TEXT: Type.STRING,
}


def get_schema_family(schema: Schema) -> Family:
    """Return the family of a schema; OTHER for dates, times and decimals, which expressions do not support."""
    if schema.name is not None and schema.name.startswith("org.apache.kafka.connect.data."):
        return Family.OTHER
    return _FAMILIES.get(schema.type, Family.OTHER)


def get_schema_at(record_schema: Schema, path: tuple[str, ...]) -> Schema:
    """Return the schema of a field by its path. Raises DataException if the field does not exist."""
    schema, optional = record_schema, False
    for name in path:
        field = next((member for member in schema.fields if member.name == name), None)
        if field is None:
            raise DataException(f"there is no field {'.'.join(path)}")
        optional = optional or (schema.optional and schema is not record_schema)
        schema = field.schema
    return replace(schema, optional=True) if optional else schema


def infer_family(node: Node, record_schema: Schema) -> Family:
    """Return the family of an expression for a record schema. Raises DataException for incompatible operands."""
    match node:
        case Literal(value):
            return get_value_family(value)
        case Reference(path):
            return get_schema_family(get_schema_at(record_schema, path))
        case Cast(inner, kind):
            if infer_family(inner, record_schema) is Family.OTHER:
                raise DataException(f"a value that is {Family.OTHER} cannot be CAST")
            return _FAMILIES[kind]
        case Case(branches, otherwise):
            for condition, _ in branches:
                infer_operator_family("NOT", [infer_family(condition, record_schema)])
            results = [*(then for _, then in branches), otherwise]
            return FUNCTIONS["coalesce"].infer_family(
                [infer_family(result, record_schema) for result in results]
            )
        case Call(name, arguments):
            families = [infer_family(argument, record_schema) for argument in arguments]
            function = FUNCTIONS.get(name)
            return (
                infer_operator_family(name, families) if function is None else function.infer_family(families)
            )


def infer_schema(node: Node, record_schema: Schema) -> Schema:
    """Return the schema of an expression. Raises DataException for incompatible types and unsupported results."""
    if isinstance(node, Reference):
        return get_schema_at(record_schema, node.path)
    family = infer_family(node, record_schema)
    if isinstance(node, Cast):
        return Schema(type=node.type, optional=True)
    if family not in _TYPES:
        raise DataException(f"the result is {family}; choose a type with CAST")
    return Schema(type=_TYPES[family], optional=True)

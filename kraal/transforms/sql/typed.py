"""Types of expressions, given the types of fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import Schema, Type
from kraal.transforms.sql.functions import FUNCTIONS, Family
from kraal.transforms.sql.syntax import Call, Case, Cast, Literal, Node, Reference
from kraal.transforms.sql.values import family, operator_kind

_FAMILIES: Final[Mapping[Type, Family]] = {
    Type.INT8: Family.WHOLE,
    Type.INT16: Family.WHOLE,
    Type.INT32: Family.WHOLE,
    Type.INT64: Family.WHOLE,
    Type.FLOAT32: Family.DOUBLE,
    Type.FLOAT64: Family.DOUBLE,
    Type.BOOLEAN: Family.BOOLEAN,
    Type.STRING: Family.TEXT,
}
_TYPES: Final[Mapping[Family, Type]] = {
    Family.WHOLE: Type.INT64,
    Family.DOUBLE: Type.FLOAT64,
    Family.BOOLEAN: Type.BOOLEAN,
    Family.TEXT: Type.STRING,
}


def get_family(schema: Schema) -> Family:
    """Return the family of a schema; dates, times and decimals have none and cannot be computed with."""
    if schema.name is not None and schema.name.startswith("org.apache.kafka.connect.data."):
        return Family.OTHER
    return _FAMILIES.get(schema.type, Family.OTHER)


def schema_at(whole: Schema, path: tuple[str, ...]) -> Schema:
    """Return the schema of a field by its path. Raises DataException if it does not exist."""
    schema, optional = whole, False
    for name in path:
        field = next((each for each in schema.fields if each.name == name), None)
        if field is None:
            raise DataException(f"there is no field {'.'.join(path)}")
        optional = optional or (schema.optional and schema is not whole)
        schema = field.schema
    return replace(schema, optional=True) if optional else schema


def infer_family(node: Node, whole: Schema) -> Family:
    """Return the family of an expression for a record schema. Raises DataException if its types do not fit."""
    match node:
        case Literal(value):
            return family(value)
        case Reference(path):
            return get_family(schema_at(whole, path))
        case Cast(inner, kind):
            if infer_family(inner, whole) is Family.OTHER:
                raise DataException(f"a value that is {Family.OTHER} cannot be CAST")
            return _FAMILIES[kind]
        case Case(branches, otherwise):
            for condition, _ in branches:
                operator_kind("NOT", [infer_family(condition, whole)])
            values = [*(then for _, then in branches), otherwise]
            return FUNCTIONS["coalesce"].kind([infer_family(each, whole) for each in values])
        case Call(name, arguments):
            kinds = [infer_family(each, whole) for each in arguments]
            function = FUNCTIONS.get(name)
            return operator_kind(name, kinds) if function is None else function.kind(kinds)


def infer_schema(node: Node, whole: Schema) -> Schema:
    """Return the schema of an expression's result. Raises DataException, also if it is always NULL."""
    if isinstance(node, Reference):
        return schema_at(whole, node.path)
    kind = infer_family(node, whole)
    if isinstance(node, Cast):
        return Schema(type=node.type, optional=True)
    if kind not in _TYPES:
        raise DataException(f"its result is {kind}; choose a type with CAST")
    return Schema(type=_TYPES[kind], optional=True)

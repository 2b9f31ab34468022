"""Short constructors for Connect's schemas."""

from __future__ import annotations

from dataclasses import replace

from kraal.plugins.model.schema import Field, Schema, Type


def struct(name: str | None, **fields: Schema) -> Schema:
    """Return a STRUCT schema; its fields have the order of the arguments."""
    parts = tuple(Field(name=field, schema=schema) for field, schema in fields.items())
    return Schema(type=Type.STRUCT, name=name, fields=parts)


def optional(schema: Schema) -> Schema:
    """Return an optional copy of the schema."""
    return replace(schema, optional=True)

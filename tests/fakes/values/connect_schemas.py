"""Connect's schemas in few words."""

from __future__ import annotations

from dataclasses import replace

from kraal.plugins.model.schema import Field, Schema, Type


def struct(name: str | None, **fields: Schema) -> Schema:
    """Return a record's schema; the fields have the order of the arguments."""
    parts = tuple(Field(name=each, schema=schema) for each, schema in fields.items())
    return Schema(type=Type.STRUCT, name=name, fields=parts)


def optional(schema: Schema) -> Schema:
    """Return a schema that may be null."""
    return replace(schema, optional=True)

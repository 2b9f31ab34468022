"""Building blocks of body schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.core.ids import Json
from web.openapi.operation import Schema

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
NULLABLE_TEXT: Final[Schema] = {"type": ["string", "null"]}


def object_of(
    fields: Mapping[str, Schema],
    *,
    optional: tuple[str, ...] = (),
    description: str = "",
    nullable: bool = False,
) -> dict[str, Json]:
    """Return the schema of an object with exactly these fields; with `nullable`, null is valid too."""
    description_field: dict[str, Json] = {"description": description} if description else {}
    return {
        "type": ["object", "null"] if nullable else "object",
        **description_field,
        "properties": {name: dict(schema) for name, schema in fields.items()},
        "required": [name for name in fields if name not in optional],
        "additionalProperties": False,
    }


def ref(name: str) -> Schema:
    """Return a reference to the named schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(schema: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": dict(schema)}


def map_of(schema: Schema) -> Schema:
    """Return the schema of an object with arbitrary field names."""
    return {"type": "object", "additionalProperties": dict(schema)}

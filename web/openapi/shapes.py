"""The parts that schemas of bodies are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.ids import Json
from web.openapi.operation import Schema

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
MAYBE_TEXT: Final[Schema] = {"type": ["string", "null"]}


def object_of(
    fields: Mapping[str, Schema], *, optional: tuple[str, ...] = (), about: str = "", maybe: bool = False
) -> dict[str, Json]:
    """Return the schema of an object with these fields and no others; `maybe`: or null."""
    described: dict[str, Json] = {"description": about} if about else {}
    return {
        "type": ["object", "null"] if maybe else "object",
        **described,
        "properties": {name: dict(schema) for name, schema in fields.items()},
        "required": [name for name in fields if name not in optional],
        "additionalProperties": False,
    }


def ref(name: str) -> Schema:
    """Return what stands for the named schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(schema: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": dict(schema)}


def map_of(schema: Schema) -> Schema:
    """Return the schema of an object whose fields may have any name."""
    return {"type": "object", "additionalProperties": dict(schema)}
